//! What happened in a world.

mod checker;
pub(crate) mod hold;
mod protected_value;
mod recorder;
mod token;

use crate::rng::Rng;
use crate::simulator::DRIFT_PERCENT;
use crate::simulator::machine_clock::WorldStart;
use hold::{Claim, Hold};
use protected_value::ProtectedValue;
use quorlock::{Lease, Name, Token};
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
    /// Tokens that a client released by force, or tried to.
    forced: HashSet<Token>,
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

/// How often clients did each of the less common things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Acquire calls that tried once.
    pub tries: u64,
    /// Locks that were handed over by a handle.
    pub handles: u64,
    /// Locks that were adopted.
    pub adoptions: u64,
    /// Extensions through the guard, without the watchdog.
    pub extensions: u64,
    /// Extensions by token.
    pub token_extensions: u64,
    /// Releases by token.
    pub token_releases: u64,
    /// Forced releases of what an inspection showed.
    pub forced_releases: u64,
    /// Changes of the node list, all clients each.
    pub list_changes: u64,
}

impl Uses {
    /// Each with its name.
    pub fn list(&self) -> [(&'static str, u64); 8] {
        [
            ("tries", self.tries),
            ("handles handed over", self.handles),
            ("adoptions", self.adoptions),
            ("extensions by guard", self.extensions),
            ("extensions by token", self.token_extensions),
            ("releases by token", self.token_releases),
            ("forced releases", self.forced_releases),
            ("node list changes", self.list_changes),
        ]
    }

    /// Adds those of another world.
    pub fn add(&mut self, other: &Uses) {
        self.tries += other.tries;
        self.handles += other.handles;
        self.adoptions += other.adoptions;
        self.extensions += other.extensions;
        self.token_extensions += other.token_extensions;
        self.token_releases += other.token_releases;
        self.forced_releases += other.forced_releases;
        self.list_changes += other.list_changes;
    }
}

/// The grant of a token.
#[derive(Clone, Copy, Debug)]
struct Granted {
    at: Duration,
    fence: u64,
}

#[derive(Debug, Default)]
struct Fences {
    all: BTreeSet<u64>,
    /// When each grant was returned, and its fence.
    returned: Vec<(Duration, u64)>,
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
        let (name, fence, token) = (held.name().clone(), held.fence().get(), held.token());
        self.acquisitions += 1;
        self.record(now, &format!("client {client} holds {name} with fence {fence}"));
        // While exclusion holds, fences follow the order of holding; otherwise only that of return
        // and call.
        let by_holding = self.kind == WorldKind::Tame && !self.is_forced(token);
        let fences = self.fences.entry(name.clone()).or_default();
        let is_new = fences.all.insert(fence);
        let before = fences.returned.iter().filter(|(at, _)| by_holding || *at < called);
        let highest = before.map(|(_, fence)| *fence).max().unwrap_or_default();
        fences.returned.push((now, fence));
        if !is_new {
            self.violate(now, &format!("S2: fence {fence} of {name} was handed out twice"));
        } else if fence < highest {
            self.violate(now, &format!("S3: fence {fence} of {name} after {highest}"));
        }
        self.recorder.acquired(client, called, &name, fence);
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

    pub(crate) fn released(&mut self, client: usize, name: &Name) {
        self.end_holds(|hold| hold.client == client && hold.name() == name);
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
            self.recorder.ended(hold.client, hold.name(), hold.fence());
        }
    }
}
