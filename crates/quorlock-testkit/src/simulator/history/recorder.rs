//! Records what clients did as operations that another checker can read.

use crate::operations::{Operation, OperationKind};
use crate::simulator::history::hold::Hold;
use crate::simulator::history::{Granted, History, WorldKind};
use crate::simulator::machine_clock::{MachineClock, WorldStart};
use quorlock::{Mode, Name, Token};
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
    /// The fences before upgrades, by token.
    outgrown: Vec<(Token, u64)>,
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
            outgrown: Vec::new(),
        }
    }

    pub(crate) fn set_clocks(&mut self, clocks: Vec<Arc<MachineClock>>) {
        self.clocks = clocks;
    }

    /// The client calls the library now, and will report a lock that it adopted or extended.
    pub(crate) fn calling(&mut self, client: usize) {
        self.called.insert(client, self.start.elapsed());
    }

    pub(crate) fn acquired(
        &mut self,
        client: usize,
        called: Duration,
        (name, mode): (&Name, Mode),
        fence: u64,
    ) {
        let begin = self.begin(OperationKind::Acquire, client, called, name, fence);
        self.operations.push(Operation { shared: mode == Mode::Shared, ..begin });
    }

    pub(crate) fn adopted(&mut self, client: usize, names: &[Name], fence: u64) {
        let called = self.called.remove(&client).unwrap_or(self.start.elapsed());
        for name in names {
            let begin = self.begin(OperationKind::Adopt, client, called, name, fence);
            self.operations.push(begin);
        }
    }

    fn begin(
        &mut self,
        op: OperationKind,
        client: usize,
        called: Duration,
        name: &Name,
        fence: u64,
    ) -> Operation {
        let (name, now) = (name.clone(), self.start.elapsed());
        let begin = Operation::on_lock(op, Some(client), name.as_str(), fence).at(Some(called), Some(now));
        self.holders.insert((name.clone(), fence), client);
        self.open.push(OpenHold { client, name, fence, until: None });
        begin
    }

    /// The client shares its lock from now on.
    pub(crate) fn downgraded(&mut self, client: usize, name: &Name, fence: u64) {
        let now = Some(self.start.elapsed());
        let downgrade = Operation::on_lock(OperationKind::Downgrade, Some(client), name.as_str(), fence);
        self.operations.push(downgrade.at(now, now));
    }

    /// The client holds its lock exclusively, with a new fence: the shared hold was over with the call, at
    /// the latest.
    pub(crate) fn upgraded(
        &mut self,
        (client, token): (usize, Token),
        called: Duration,
        names: &[Name],
        (before, fence): (u64, u64),
    ) {
        self.outgrown.push((token, before));
        for name in names {
            self.end((client, name, before), called);
            self.acquired(client, called, (name, Mode::Exclusive), fence);
        }
    }

    /// The client extended its lock by its token.
    pub(crate) fn extended_by_token(&mut self, client: usize, names: &[Name], fence: u64) {
        let (called, now) = (self.called.remove(&client), self.start.elapsed());
        for name in names {
            let extend = Operation::on_lock(OperationKind::Extend, Some(client), name.as_str(), fence);
            self.operations.push(extend.at(called, Some(now)));
        }
    }

    /// The watchdog of the client, or the client by its guard, extended its lock. When it was called is
    /// unknown.
    pub(crate) fn extended(&mut self, client: usize, name: &Name) {
        let now = self.start.elapsed();
        let open = self.open.iter().find(|open| open.client == client && open.name == *name);
        let Some(OpenHold { fence, .. }) = open else { return };
        let extend = Operation::on_lock(OperationKind::Extend, Some(client), name.as_str(), *fence);
        self.operations.push(extend.at(None, Some(now)));
    }

    /// Reads until when the client believes to have its lock.
    pub(crate) fn refresh(&mut self, hold: &Hold) {
        let left = hold.remaining();
        if left.is_zero() {
            return;
        }
        let left = self.clocks.get(hold.client).map_or(left, |clock| clock.in_true_time(left));
        let (fence, until) = (hold.fence(), Some(self.start.elapsed() + left));
        let is_it = |open: &&mut OpenHold| {
            open.client == hold.client && open.fence == fence && hold.names().contains(&open.name)
        };
        self.open.iter_mut().filter(is_it).for_each(|open| open.until = open.until.max(until));
    }

    /// The client does not have its lock any more.
    pub(crate) fn ended(&mut self, client: usize, name: &Name, fence: u64) {
        self.end((client, name, fence), self.start.elapsed());
    }

    fn end(&mut self, (client, name, fence): (usize, &Name, u64), at: Duration) {
        let is_it = |open: &OpenHold| open.client == client && open.name == *name && open.fence == fence;
        for open in self.open.extract_if(.., |open| is_it(open)) {
            self.operations.push(open.end(Some(at)));
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
            let outgrown = self.recorder.outgrown.iter().filter(|(upgraded, _)| upgraded == token);
            let (op, client) = (OperationKind::ForceRelease, Some(*client));
            for fence in outgrown.map(|(_, fence)| fence).chain([fence]) {
                operations.push(Operation::on_lock(op, client, name.as_str(), *fence).at(Some(*at), None));
            }
        }
        if self.kind == WorldKind::Wild {
            operations.push(Operation::new(OperationKind::Forget).at(Some(Duration::ZERO), None));
        }
        operations
    }
}
