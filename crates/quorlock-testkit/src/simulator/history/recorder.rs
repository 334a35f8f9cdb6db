//! Records what clients did as operations that another checker can read.

use crate::operations::{Operation, OperationKind};
use crate::simulator::history::hold::Hold;
use crate::simulator::history::{Granted, History, WorldKind};
use crate::simulator::machine_clock::{MachineClock, WorldStart};
use quorlock::{Name, Token};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The operations so far, and the holds whose end is not known yet.
#[derive(Debug)]
pub(crate) struct Recorder {
    start: WorldStart,
    /// Of the clients, by their numbers. Without them all clocks run with true time.
    clocks: Vec<Arc<MachineClock>>,
    operations: Vec<Operation>,
    open: Vec<OpenHold>,
    /// The client that last had the lock of a fence.
    holders: BTreeMap<(Name, u64), usize>,
    /// When each client called what it is about to report.
    called: BTreeMap<usize, Duration>,
    /// Who released which token by force, and when.
    forced: Vec<(usize, Duration, Name, Token)>,
}

#[derive(Clone, Debug)]
struct OpenHold {
    client: usize,
    name: Name,
    fence: u64,
    /// Until when its client believes to have it, in true time; `None` if it was over at once.
    until: Option<Duration>,
}

impl Recorder {
    pub(crate) fn new(start: WorldStart) -> Self {
        Self {
            start,
            clocks: Vec::new(),
            operations: Vec::new(),
            open: Vec::new(),
            holders: BTreeMap::new(),
            called: BTreeMap::new(),
            forced: Vec::new(),
        }
    }

    pub(crate) fn set_clocks(&mut self, clocks: Vec<Arc<MachineClock>>) {
        self.clocks = clocks;
    }

    /// The client calls the library now, and will report a lock that it adopted or extended.
    pub(crate) fn calling(&mut self, client: usize) {
        self.called.insert(client, self.start.elapsed());
    }

    pub(crate) fn acquired(&mut self, client: usize, called: Duration, name: &Name, fence: u64) {
        self.begin(OperationKind::Acquire, client, called, name, fence);
    }

    pub(crate) fn adopted(&mut self, client: usize, name: &Name, fence: u64) {
        let called = self.called.remove(&client).unwrap_or(self.start.elapsed());
        self.begin(OperationKind::Adopt, client, called, name, fence);
    }

    fn begin(&mut self, op: OperationKind, client: usize, called: Duration, name: &Name, fence: u64) {
        let (name, now) = (name.clone(), self.start.elapsed());
        let begin = Operation::on_lock(op, Some(client), name.as_str(), fence).at(Some(called), Some(now));
        self.operations.push(begin);
        self.holders.insert((name.clone(), fence), client);
        self.open.push(OpenHold { client, name, fence, until: None });
    }

    /// The client extended its lock by its token.
    pub(crate) fn extended_by_token(&mut self, client: usize, name: &Name) {
        let called = self.called.remove(&client);
        self.extended(client, name, called);
    }

    /// The client extended its lock. The calls of the watchdog are unknown.
    pub(crate) fn extended(&mut self, client: usize, name: &Name, called: Option<Duration>) {
        let now = self.start.elapsed();
        let open = self.open.iter().find(|open| open.client == client && open.name == *name);
        let Some(OpenHold { fence, .. }) = open else { return };
        let extend = Operation::on_lock(OperationKind::Extend, Some(client), name.as_str(), *fence);
        self.operations.push(extend.at(called, Some(now)));
    }

    /// Reads until when the client believes to have its lock.
    pub(crate) fn refresh(&mut self, hold: &Hold) {
        let is_it = |open: &&mut OpenHold| open.client == hold.client && open.fence == hold.fence();
        let Some(open) = self.open.iter_mut().find(is_it) else { return };
        let left = hold.remaining();
        if !left.is_zero() {
            let left = self.clocks.get(hold.client).map_or(left, |clock| clock.in_true_time(left));
            open.until = open.until.max(Some(self.start.elapsed() + left));
        }
    }

    /// The client does not have its lock any more.
    pub(crate) fn ended(&mut self, client: usize, name: &Name, fence: u64) {
        let is_it = |open: &OpenHold| open.client == client && open.name == *name && open.fence == fence;
        let now = self.start.elapsed();
        for open in self.open.extract_if(.., |open| is_it(open)) {
            self.operations.push(open.end(Some(now)));
        }
    }

    /// `token` may be released by force from now on.
    pub(crate) fn forced(&mut self, client: usize, name: &Name, token: Token) {
        self.forced.push((client, self.start.elapsed(), name.clone(), token));
    }

    /// A holder showed its fence to the resource, which accepted it or not, and read.
    pub(crate) fn read(&mut self, name: &Name, fence: u64, ok: bool, value: u64) {
        let show = self.access(OperationKind::Show, name, fence);
        let read = self.access(OperationKind::Read, name, fence);
        self.operations.push(Operation { ok: Some(ok), ..show });
        self.operations.push(Operation { value: Some(text(value)), ..read });
    }

    /// A holder wrote `value` at the resource, which accepted its fence or not.
    pub(crate) fn wrote(&mut self, name: &Name, fence: u64, ok: bool, based_on: u64, value: u64) {
        let write = self.access(OperationKind::Write, name, fence);
        let (value, based_on) = (Some(text(value)), Some(text(based_on)));
        self.operations.push(Operation { ok: Some(ok), value, based_on, ..write });
    }

    /// An access to the resource takes no time.
    fn access(&self, op: OperationKind, name: &Name, fence: u64) -> Operation {
        let client = self.holders.get(&(name.clone(), fence)).copied();
        let now = Some(self.start.elapsed());
        Operation::on_lock(op, client, name.as_str(), fence).at(now, now)
    }
}

/// The protected value, which is empty before its first write.
fn text(value: u64) -> String {
    if value == 0 { String::new() } else { value.to_string() }
}

impl OpenHold {
    /// Its end at its deadline, or earlier. When a hold ended that was over at once is unknown.
    fn end(&self, at: Option<Duration>) -> Operation {
        let end = Operation::on_lock(OperationKind::End, Some(self.client), self.name.as_str(), self.fence);
        end.at(self.until.map(|until| at.map_or(until, |at| at.min(until))), None)
    }
}

impl History {
    /// What clients did, for another checker.
    pub fn operations(&self) -> Vec<Operation> {
        let mut operations = self.recorder.operations.clone();
        operations.extend(self.recorder.open.iter().map(|open| open.end(None)));
        for (client, at, name, token) in &self.recorder.forced {
            // A grant that no client got to know is in no operation.
            let Some(Granted { fence, .. }) = self.grants.get(token) else { continue };
            let (op, client) = (OperationKind::ForceRelease, Some(*client));
            operations.push(Operation::on_lock(op, client, name.as_str(), *fence).at(Some(*at), None));
        }
        if self.kind == WorldKind::Wild {
            operations.push(Operation::new(OperationKind::Forget).at(Some(Duration::ZERO), None));
        }
        operations
    }
}
