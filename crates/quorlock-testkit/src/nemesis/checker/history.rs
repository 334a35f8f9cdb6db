//! What happened in a run, as all processes reported it.

use crate::nemesis::checker::hold::{Hold, Sleep};
use crate::nemesis::checker::promise::{Promise, Violation};
use crate::nemesis::client::report_line::{Belief, Grant, Origin, ReportLine};
use crate::nemesis::monotonic::now;
use crate::nemesis::resource::access::{Access, Answer};
use quorlock::Mode;
use std::collections::BTreeMap;
use std::time::Duration;

/// The history of one run. Stopped processes report late, so it is checked at the end of the run.
#[derive(Clone, Debug)]
pub struct History {
    pub(crate) start: Duration,
    lines: Vec<(Duration, String)>,
    pub(crate) holds: Vec<Hold>,
    /// The hold that each client has, by its place.
    current: Vec<Option<usize>>,
    pub(crate) sleeps: Vec<Sleep>,
    /// Clients whose fence was refused while they held the lock.
    pub(crate) refused_holders: Vec<RefusedHolder>,
    /// When a token was first released by force from a name, or was to be.
    pub(crate) forced: BTreeMap<(String, String), Duration>,
    /// When servers forgot locks in a way that no client can see.
    pub(crate) wild: Vec<(Duration, Duration)>,
    /// When servers forgot locks in any way.
    pub(crate) forgets: Vec<(Duration, Duration)>,
    /// When clients were stopped with a lock.
    pub(crate) stops: Vec<Stop>,
    /// The call of the library that each client is in.
    calling: Vec<Option<(String, Duration)>>,
    /// Which clients have made their first call.
    called: Vec<bool>,
    /// Calls that took over a second.
    pub(crate) long_calls: Vec<Call>,
    /// What clients did at the values that compare fences.
    pub(crate) accesses: Vec<RecordedAccess>,
    /// The last access of each client.
    accessing: Vec<Option<usize>>,
    /// When the fault phase ended.
    pub(crate) fault_phase_end: Option<Duration>,
    /// Clients that ended by themselves.
    pub crashes: u64,
    pub(crate) violations: Vec<Violation>,
    done: usize,
    /// Acquire calls that ended without a lock.
    pub refusals: u64,
    /// Calls to upgrade that were refused.
    pub refused_upgrades: u64,
    /// Extensions of held locks.
    pub extensions: u64,
    /// Locks that were lost while held.
    pub losses: u64,
    /// Writes by clients whose lock was over.
    pub late_writes: u64,
    /// Uses that the values with fences refused.
    pub fenced_off: u64,
    /// How often a value without fences changed while a reader had the lock, or believed so.
    pub changed_reads: u64,
    /// Holds that began while another client shared the name.
    pub readers_together: u64,
    /// Permits that were granted while another was held.
    pub permits_together: u64,
    /// Acquire calls that tried once.
    pub tries: u64,
    /// Locks that were adopted from another client.
    pub adoptions: u64,
    /// Extensions by token.
    pub token_extensions: u64,
    /// Forced releases.
    pub forced_releases: u64,
    /// Moments at which a client still held a lock that was released by force, together with
    /// another.
    pub forced_double_holds: u64,
    /// Moments at which two clients held one lock while a server had forgotten it unseen; no
    /// promise is broken.
    pub excused: u64,
}

/// A client whose fence was refused although it held the lock.
#[derive(Clone, Debug)]
pub(crate) struct RefusedHolder {
    pub(crate) client: usize,
    pub(crate) name: String,
    pub(crate) at: Duration,
    /// Which of the holds it was.
    pub(crate) hold: Option<usize>,
}

/// An access to a protected value.
#[derive(Clone, Debug)]
pub(crate) struct RecordedAccess {
    pub(crate) client: usize,
    pub(crate) access: Access,
    pub(crate) called: Duration,
    /// What was answered, and when; `None` if the client died first.
    pub(crate) answer: Option<(Answer, Duration)>,
}

/// A client was stopped (SIGSTOP).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stop {
    pub(crate) client: usize,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

/// A call of the library.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) client: usize,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

/// Shorter calls are no hangs.
const LONG_CALL: Duration = Duration::from_secs(1);

/// What is shown of the time before a violation.
const EVIDENCE: Duration = Duration::from_secs(3);

impl History {
    pub(crate) fn new(clients: usize) -> Self {
        Self {
            start: now(),
            lines: Vec::new(),
            holds: Vec::new(),
            current: vec![None; clients],
            sleeps: Vec::new(),
            refused_holders: Vec::new(),
            forced: BTreeMap::new(),
            wild: Vec::new(),
            forgets: Vec::new(),
            stops: Vec::new(),
            calling: vec![None; clients],
            called: vec![false; clients],
            long_calls: Vec::new(),
            accesses: Vec::new(),
            accessing: vec![None; clients],
            fault_phase_end: None,
            crashes: 0,
            violations: Vec::new(),
            done: 0,
            refusals: 0,
            refused_upgrades: 0,
            extensions: 0,
            losses: 0,
            late_writes: 0,
            fenced_off: 0,
            changed_reads: 0,
            readers_together: 0,
            permits_together: 0,
            tries: 0,
            adoptions: 0,
            token_extensions: 0,
            forced_releases: 0,
            forced_double_holds: 0,
            excused: 0,
        }
    }

    /// Locks that were granted.
    pub fn acquisitions(&self) -> usize {
        self.count(|hold| hold.origin == Origin::Granted)
    }

    /// Grants of a lock that others may share.
    pub fn shared_acquisitions(&self) -> usize {
        self.count(|hold| hold.origin == Origin::Granted && hold.mode == Mode::Shared)
    }

    /// Grants of several names at once.
    pub fn set_acquisitions(&self) -> usize {
        self.count(|hold| hold.origin == Origin::Granted && hold.names.len() > 1 && !hold.is_permit())
    }

    /// Grants of permits.
    pub fn permits(&self) -> usize {
        self.count(|hold| hold.origin == Origin::Granted && hold.is_permit())
    }

    /// Shared locks that became exclusive.
    pub fn upgrades(&self) -> usize {
        self.count(|hold| hold.origin == Origin::Upgraded)
    }

    /// Exclusive locks that became shared.
    pub fn downgrades(&self) -> usize {
        self.count(|hold| hold.origin == Origin::Downgraded)
    }

    fn count(&self, is_counted: impl Fn(&&Hold) -> bool) -> usize {
        self.holds.iter().filter(is_counted).count()
    }

    /// The promises that were broken.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// What happened just before and after the first violation, one line each.
    pub fn evidence(&self) -> Vec<String> {
        let first = self.violations.iter().map(|violation| violation.at).min();
        first.map_or_else(Vec::new, |at| self.lines(at.saturating_sub(EVIDENCE), at + EVIDENCE / 10))
    }

    /// Everything that happened, one line each.
    pub fn all(&self) -> Vec<String> {
        self.lines(Duration::ZERO, Duration::MAX)
    }

    fn lines(&self, from: Duration, until: Duration) -> Vec<String> {
        let mut lines: Vec<_> = self.lines.iter().filter(|(at, _)| (from..=until).contains(at)).collect();
        lines.sort_by_key(|(at, _)| *at);
        let since = |at: &Duration| at.saturating_sub(self.start).as_secs_f64();
        lines.iter().map(|(at, what)| format!("{:>10.4}s  {what}", since(at))).collect()
    }

    /// Whether every client has made its first call.
    pub(crate) fn all_have_called(&self) -> bool {
        self.called.iter().all(|called| *called)
    }

    /// How many clients have finished the recovery phase.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    pub(crate) fn record(&mut self, what: String) {
        self.lines.push((now(), what));
    }

    pub(crate) fn violate(&mut self, promise: Promise, at: Duration, what: String) {
        self.lines.push((at, format!("VIOLATION {promise:?}: {what}")));
        self.violations.push(Violation { promise, at, what });
    }

    /// Records what a client reported.
    pub(crate) fn record_line(&mut self, client: usize, line: ReportLine) {
        if !line.is_frequent() {
            self.lines.push((reported_at(&line), format!("client {client}: {line}")));
        }
        match line {
            ReportLine::Calling { operation, at } => {
                self.called[client] = true;
                self.calling[client] = Some((operation, at));
            }
            ReportLine::Returned { at } => self.end_call(client, at),
            ReportLine::Holds(origin, grant) => self.begin(client, origin, grant),
            ReportLine::Extended(belief) => {
                self.extensions += 1;
                self.extend(client, belief);
            }
            ReportLine::ExtendedByToken(belief) => {
                self.token_extensions += 1;
                self.extend(client, belief);
            }
            ReportLine::WrongFence { at } => {
                let what = format!("client {client} found another fence with its token");
                self.violate(Promise::UniqueFences, at, what);
            }
            ReportLine::Forced { name, token, at } => {
                self.forced_releases += 1;
                self.forced.entry((name, token)).or_insert(at);
            }
            ReportLine::HandedOver { .. } => {}
            ReportLine::Accessing { access, at: called } => {
                self.accessing[client] = Some(self.accesses.len());
                self.accesses.push(RecordedAccess { client, access, called, answer: None });
            }
            ReportLine::Accessed { answer, at } => {
                if let Some(accessing) = self.accessing[client].take() {
                    self.accesses[accessing].answer = Some((answer, at));
                }
            }
            ReportLine::Tried => self.tries += 1,
            ReportLine::Lost { at } => self.end(client, at),
            ReportLine::Releasing { at, over } => {
                self.losses += u64::from(over);
                self.end(client, at);
            }
            ReportLine::Refused => self.refusals += 1,
            ReportLine::NotUpgraded => self.refused_upgrades += 1,
            ReportLine::Late => self.late_writes += 1,
            ReportLine::Changed => self.changed_reads += 1,
            ReportLine::FencedOff { name, at, held } => {
                self.fenced_off += 1;
                if held {
                    self.refused_holders.push(RefusedHolder { client, name, at, hold: self.current[client] });
                }
            }
            ReportLine::HeldAfterLoss { at } => {
                self.violate(Promise::FinalLoss, at, format!("client {client} holds a lost lock again"));
            }
            ReportLine::Recovered { name, got: false } => {
                let what = format!("client {client} did not get {name} in the recovery phase");
                self.violate(Promise::Recovery, now(), what);
            }
            ReportLine::Recovered { .. } => {}
            ReportLine::Done => self.done += 1,
        }
    }

    /// Ends the call that the client is in, if any.
    pub(crate) fn end_call(&mut self, client: usize, to: Duration) {
        if let Some((operation, from)) = self.calling[client].take()
            && to.saturating_sub(from) > LONG_CALL
        {
            let what = format!("client {client}: {operation} took {:?}", to - from);
            self.lines.push((to, what));
            self.long_calls.push(Call { client, from, to });
        }
    }

    fn begin(&mut self, client: usize, origin: Origin, grant: Grant) {
        self.adoptions += u64::from(origin == Origin::Adopted);
        if let Some(before) = self.current[client].filter(|_| origin.changes_mode()) {
            self.holds[before].end = Some(grant.belief.noted);
            self.holds[before].upgrade_called = (origin == Origin::Upgraded).then_some(grant.called);
        }
        self.current[client] = Some(self.holds.len());
        self.holds.push(Hold::new(client, origin, grant));
    }

    fn extend(&mut self, client: usize, belief: Belief) {
        if let Some(current) = self.current[client] {
            self.holds[current].beliefs.push(belief);
        }
    }

    /// The client has no lock any more. The first reason stays.
    pub(crate) fn end(&mut self, client: usize, at: Duration) {
        if let Some(current) = self.current[client].take() {
            self.holds[current].end = Some(at);
        }
    }
}

fn reported_at(line: &ReportLine) -> Duration {
    match line {
        ReportLine::Holds(_, grant) => grant.belief.noted,
        ReportLine::Extended(belief) | ReportLine::ExtendedByToken(belief) => belief.noted,
        ReportLine::Lost { at }
        | ReportLine::Releasing { at, .. }
        | ReportLine::FencedOff { at, .. }
        | ReportLine::HeldAfterLoss { at }
        | ReportLine::WrongFence { at }
        | ReportLine::Calling { at, .. }
        | ReportLine::Returned { at }
        | ReportLine::Accessing { at, .. }
        | ReportLine::Accessed { at, .. }
        | ReportLine::Forced { at, .. } => *at,
        ReportLine::HandedOver { .. }
        | ReportLine::Tried
        | ReportLine::Refused
        | ReportLine::NotUpgraded
        | ReportLine::Late
        | ReportLine::Changed
        | ReportLine::Recovered { .. }
        | ReportLine::Done => now(),
    }
}
