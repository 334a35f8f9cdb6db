//! What happened in a world.

mod checker;
mod fences;
pub(crate) mod hold;
mod mode;
mod protected_value;
mod recorder;
mod token;
mod uses;

pub use uses::Uses;

use crate::rng::Rng;
use crate::simulator::DRIFT_PERCENT;
use crate::simulator::machine_clock::WorldStart;
use fences::{FenceFault, Fences, Granting};
use hold::{Claim, Hold};
use protected_value::ProtectedValue;
use quorlock::{Lease, Mode, Name, Token};
use recorder::Recorder;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::time::Duration;

/// Which promises hold in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldKind {
    /// Clocks run within the drift factor and memory loss is seen: all promises hold.
    Tame,
    /// Server clocks jump ahead, single locks are evicted and single counters vanish: exclusion is
    /// not promised, fences are.
    Wild,
}

impl WorldKind {
    /// The first number that a world draws.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        if rng.chance(75) { WorldKind::Tame } else { WorldKind::Wild }
    }
}

/// The record of one run.
#[derive(Debug)]
pub struct History {
    kind: WorldKind,
    lines: Vec<String>,
    violations: Vec<String>,
    holds: Vec<Hold>,
    grants: HashMap<Token, Granted>,
    /// Tokens that a client released by force on a name, or tried to.
    forced: HashSet<(Token, Name)>,
    /// Tokens of locks that go on after the client that acquired them has stopped using them.
    handed_over: HashSet<Token>,
    /// Tokens of locks that a majority of nodes released by force, and when that was confirmed.
    taken: HashMap<Token, Duration>,
    /// When a server was last made to forget. It does so within [`checker::FORGETS_WITHIN`].
    forgot: Option<Duration>,
    fences: BTreeMap<Name, Fences>,
    values: BTreeMap<Name, ProtectedValue>,
    pub(crate) recorder: Recorder,
    /// Locks that were granted.
    pub acquisitions: u64,
    /// Acquire calls that ended without a lock.
    pub refusals: u64,
    /// Grants that another client had delayed by holding or waiting.
    pub contended: u64,
    /// Locks that were lost while held.
    pub losses: u64,
    /// Writes lost at a resource that checks the fence at the write only.
    pub lost_updates: u64,
    /// Writes that a resource with fences refused.
    pub fenced_off: u64,
    /// Writes lost at a resource that knows no fences.
    pub lost_unfenced: u64,
    /// Writes lost at a resource that checks the fence at the read, too.
    pub lost_fenced: u64,
    /// What clients did besides acquiring, holding and releasing.
    pub uses: Uses,
    /// Holds of two clients at the same moment, by name and fences.
    pairs: BTreeSet<(Name, u64, u64)>,
    /// The same where one of them was released by force.
    forced_pairs: BTreeSet<(Name, u64, u64)>,
}

/// The last grant of a token: an upgrade is one, too.
#[derive(Clone, Copy, Debug)]
struct Granted {
    at: Duration,
    fence: u64,
}

impl History {
    pub(crate) fn new(kind: WorldKind) -> Self {
        Self {
            kind,
            lines: Vec::new(),
            violations: Vec::new(),
            holds: Vec::new(),
            grants: HashMap::new(),
            forced: HashSet::new(),
            handed_over: HashSet::new(),
            taken: HashMap::new(),
            forgot: None,
            fences: BTreeMap::new(),
            values: BTreeMap::new(),
            recorder: Recorder::new(WorldStart::now()),
            acquisitions: 0,
            refusals: 0,
            contended: 0,
            losses: 0,
            lost_updates: 0,
            fenced_off: 0,
            lost_unfenced: 0,
            lost_fenced: 0,
            uses: Uses::default(),
            pairs: BTreeSet::new(),
            forced_pairs: BTreeSet::new(),
        }
    }

    /// The kind of the world of `seed`.
    pub fn kind_of(seed: u64) -> WorldKind {
        WorldKind::draw(&mut Rng::new(seed))
    }

    /// How often two clients held a name together, in worlds of any kind, although neither was
    /// released by force.
    pub fn double_holds(&self) -> u64 {
        self.pairs.len() as u64
    }

    /// How often a client still held a name that was released by force, together with another.
    pub fn forced_double_holds(&self) -> u64 {
        self.forced_pairs.len() as u64
    }

    /// The promises that were broken, and how.
    pub fn violations(&self) -> &[String] {
        &self.violations
    }

    /// Everything that happened, one line each.
    pub fn timeline(&self) -> &[String] {
        &self.lines
    }

    pub(crate) fn record(&mut self, now: Duration, what: &str) {
        let mut line = String::new();
        let _ = write!(line, "{:>10.4}s  {what}", now.as_secs_f64());
        self.lines.push(line);
    }

    pub(crate) fn violate(&mut self, now: Duration, what: &str) {
        self.record(now, &format!("VIOLATION {what}"));
        self.violations.push(what.to_owned());
    }

    /// A client was granted a lock: checks fence order and uniqueness, then exclusion.
    pub(crate) fn granted(
        &mut self,
        client: usize,
        called: Duration,
        now: Duration,
        held: Lease,
        max_hold: Option<Duration>,
    ) {
        let (fence, token, mode) = (held.fence().get(), held.token(), held.mode());
        self.acquisitions += 1;
        let how = if mode == Mode::Shared { "shares" } else { "holds" };
        self.record(now, &format!("client {client} {how} {} with fence {fence}", listed(held.names())));
        self.check_fences((called, now), &held);
        for name in held.names() {
            self.recorder.acquired(client, called, (name, mode), fence);
        }
        // Only an injected bug grants a token again; the first grant stays.
        self.grants.entry(token).or_insert(Granted { at: now, fence });
        let latest_end = max_hold.map(|hold| now + hold + hold * DRIFT_PERCENT / 100);
        self.holds.push(Hold {
            client,
            claim: Claim::Guarded(held),
            granted: now,
            latest_end,
            was_lost: false,
        });
        self.check(now);
    }

    /// Checks the fence of a hold that is returned now, for each of its names.
    fn check_fences(&mut self, (called, now): (Duration, Duration), held: &Lease) {
        let (fence, token, mode) = (held.fence().get(), held.token(), held.mode());
        for name in held.names() {
            // While exclusion holds, fences follow the order of holding; otherwise only that of return
            // and call.
            let is_exclusion_promised = self.kind == WorldKind::Tame && !self.is_forced(token, name);
            let granting = Granting { called, at: now, fence, mode, is_exclusion_promised };
            let what = match self.fences.entry(name.clone()).or_default().grant(granting) {
                Ok(()) => continue,
                Err(FenceFault::HandedOutTwice) => {
                    format!("S2: fence {fence} of {name} was handed out twice")
                }
                Err(FenceFault::NotAbove(highest)) => format!("S3: fence {fence} of {name} after {highest}"),
            };
            self.violate(now, &what);
        }
    }

    /// The client has ended its hold with this token.
    pub(crate) fn released(&mut self, client: usize, token: Token) {
        self.end_holds(|hold| hold.client == client && hold.token() == token);
    }

    /// The lock goes on without the client that acquired it.
    pub(crate) fn handed_over(&mut self, token: Token) {
        self.handed_over.insert(token);
    }

    /// Whether a lock may go on although its client does not use it.
    pub(crate) fn outlives_its_use(&self, token: Token) -> bool {
        self.handed_over.contains(&token)
    }

    /// The client's process is dead, and its guards with it.
    pub(crate) fn crashed(&mut self, client: usize) {
        self.end_holds(|hold| hold.client == client && hold.ends_with_its_process());
    }

    fn end_holds(&mut self, is_over: impl Fn(&Hold) -> bool) {
        for hold in self.holds.extract_if(.., |hold| is_over(hold)) {
            self.recorder.refresh(&hold);
            for name in hold.names() {
                self.recorder.ended(hold.client, name, hold.fence());
            }
        }
    }
}

/// The names for people.
pub(crate) fn listed(names: &[Name]) -> String {
    names.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")
}
