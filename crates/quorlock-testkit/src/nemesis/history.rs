//! What happened in a storm, as all processes told it.

use super::line::{Belief, Line};
use super::stopwatch::now;
use std::collections::BTreeMap;
use std::time::Duration;

/// What may never happen, however bad the storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// No two clients hold one lock at the same moment.
    Exclusion,
    /// No fence is handed out twice.
    UniqueFences,
    /// A later grant has a higher fence.
    IncreasingFences,
    /// A lock that was lost is never held again.
    FinalLoss,
    /// A resource that compares fences loses no update.
    NoFencedLoss,
    /// A resource that compares fences refuses nobody who holds the lock.
    NoHolderRefused,
    /// After the storm everybody gets every lock.
    Recovery,
}

/// A promise that was broken, and when.
#[derive(Clone, Debug)]
pub struct Violation {
    /// Which.
    pub promise: Promise,
    /// When, on the clock of the history.
    pub at: Duration,
    /// How.
    pub what: String,
}

/// The record of one storm. Lines come late from processes that stand still, so it is judged when all is over.
#[derive(Clone, Debug)]
pub struct History {
    start: Duration,
    told: Vec<(Duration, String)>,
    pub(super) holds: Vec<Hold>,
    /// The hold that each client has, by its place.
    current: Vec<Option<usize>>,
    pub(super) sleeps: Vec<Sleep>,
    /// Clients whose fence was refused while they held the lock, and which of the holds that was.
    pub(super) refused_holders: Vec<(usize, Duration, Option<usize>)>,
    /// When each token was first released by force, or was to be.
    pub(super) forced: BTreeMap<String, Duration>,
    /// When servers forgot locks in a way that no client can see.
    pub(super) wild: Vec<(Duration, Duration)>,
    pub(super) violations: Vec<Violation>,
    done: usize,
    /// Acquire calls that ended without a lock.
    pub refusals: u64,
    /// Extensions of held locks.
    pub extensions: u64,
    /// Locks that were lost while held.
    pub losses: u64,
    /// Writes by clients whose lock was over.
    pub late_writes: u64,
    /// Uses that the values with fences refused.
    pub fenced_off: u64,
    /// Acquire calls that tried once.
    pub tries: u64,
    /// Locks that were taken over from another client.
    pub adoptions: u64,
    /// Extensions by token.
    pub token_extensions: u64,
    /// Forced releases.
    pub forced_releases: u64,
    /// Moments at which a client still held a lock that was released by force, together with another.
    pub forced_double_holds: u64,
    /// Moments at which two clients held one lock while a server had forgotten it unseen; no promise is broken.
    pub excused: u64,
}

/// One client's time with a lock, as it believed.
#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) client: usize,
    pub(super) name: String,
    pub(super) fence: u64,
    pub(super) token: String,
    /// Whether it was taken over, not granted.
    pub(super) is_adopted: bool,
    pub(super) called: Duration,
    /// At the grant and at every extension.
    pub(super) beliefs: Vec<Belief>,
    /// When it was let go, lost, or its client died.
    pub(super) end: Option<Duration>,
}

/// A client's boot clock went ahead while it stood still.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sleep {
    pub(super) client: usize,
    pub(super) at: Duration,
    pub(super) by: Duration,
}

/// What is shown of the time before a violation.
const EVIDENCE: Duration = Duration::from_secs(3);

impl History {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            start: now(),
            told: Vec::new(),
            holds: Vec::new(),
            current: vec![None; clients],
            sleeps: Vec::new(),
            refused_holders: Vec::new(),
            forced: BTreeMap::new(),
            wild: Vec::new(),
            violations: Vec::new(),
            done: 0,
            refusals: 0,
            extensions: 0,
            losses: 0,
            late_writes: 0,
            fenced_off: 0,
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
        self.holds.iter().filter(|hold| !hold.is_adopted).count()
    }

    /// What was promised and broken.
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
        let mut told: Vec<_> = self.told.iter().filter(|(at, _)| (from..=until).contains(at)).collect();
        told.sort_by_key(|(at, _)| *at);
        let since = |at: &Duration| at.saturating_sub(self.start).as_secs_f64();
        told.iter().map(|(at, what)| format!("{:>10.4}s  {what}", since(at))).collect()
    }

    /// How many clients had all their turns in the quiet.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    pub(super) fn tell(&mut self, what: String) {
        self.told.push((now(), what));
    }

    pub(super) fn violate(&mut self, promise: Promise, at: Duration, what: String) {
        self.told.push((at, format!("VIOLATION {promise:?}: {what}")));
        self.violations.push(Violation { promise, at, what });
    }

    /// Takes what a client said.
    pub(super) fn hear(&mut self, client: usize, line: Line) {
        self.told.push((said_at(&line), format!("client {client}: {line}")));
        match line {
            Line::Granted { name, fence, token, called, belief } => {
                self.begin(Hold::new(client, (name, fence, token), false, called, belief));
            }
            Line::Adopted { name, fence, token, called, belief } => {
                self.adoptions += 1;
                self.begin(Hold::new(client, (name, fence, token), true, called, belief));
            }
            Line::Extended(belief) => {
                self.extensions += 1;
                self.extend(client, belief);
            }
            Line::ExtendedByToken(belief) => {
                self.token_extensions += 1;
                self.extend(client, belief);
            }
            Line::WrongFence { at } => {
                let what = format!("client {client} was told another fence by its token");
                self.violate(Promise::UniqueFences, at, what);
            }
            Line::Forced { token, at } => {
                self.forced_releases += 1;
                self.forced.entry(token).or_insert(at);
            }
            Line::GivenAway { .. } => {}
            Line::Tried => self.tries += 1,
            Line::Lost { at } => self.end(client, at),
            Line::LetGo { at, over } => {
                self.losses += u64::from(over);
                self.end(client, at);
            }
            Line::Refused => self.refusals += 1,
            Line::Late => self.late_writes += 1,
            Line::FencedOff { at, held } => {
                self.fenced_off += 1;
                if held {
                    self.refused_holders.push((client, at, self.current[client]));
                }
            }
            Line::Undead { at } => {
                self.violate(Promise::FinalLoss, at, format!("client {client} holds a lost lock again"));
            }
            Line::Turn { name, got: false } => {
                let what = format!("client {client} did not get {name} in the quiet");
                self.violate(Promise::Recovery, now(), what);
            }
            Line::Turn { .. } => {}
            Line::Done => self.done += 1,
        }
    }

    fn begin(&mut self, hold: Hold) {
        self.current[hold.client] = Some(self.holds.len());
        self.holds.push(hold);
    }

    fn extend(&mut self, client: usize, belief: Belief) {
        if let Some(current) = self.current[client] {
            self.holds[current].beliefs.push(belief);
        }
    }

    /// The client has no lock any more. The first reason stays.
    pub(super) fn end(&mut self, client: usize, at: Duration) {
        if let Some(current) = self.current[client].take() {
            self.holds[current].end = Some(at);
        }
    }
}

impl Hold {
    fn new(
        client: usize,
        (name, fence, token): (String, u64, String),
        is_adopted: bool,
        called: Duration,
        belief: Belief,
    ) -> Self {
        Self { client, name, fence, token, is_adopted, called, beliefs: vec![belief], end: None }
    }
}

fn said_at(line: &Line) -> Duration {
    match line {
        Line::Granted { belief, .. }
        | Line::Adopted { belief, .. }
        | Line::Extended(belief)
        | Line::ExtendedByToken(belief) => belief.noted,
        Line::Lost { at }
        | Line::LetGo { at, .. }
        | Line::FencedOff { at, .. }
        | Line::Undead { at }
        | Line::WrongFence { at }
        | Line::Forced { at, .. } => *at,
        Line::GivenAway { .. }
        | Line::Tried
        | Line::Refused
        | Line::Late
        | Line::Turn { .. }
        | Line::Done => now(),
    }
}
