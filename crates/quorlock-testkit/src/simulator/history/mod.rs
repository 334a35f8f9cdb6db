//! What happened in a world, and whether it may have happened.

mod token;

use super::hold::{Hold, Right};
use super::rng::Rng;
use super::{DRIFT_PERCENT, LONGEST_USED_TTL};
use quorlock::{Lease, Name, Token};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::time::Duration;

/// Which promises the world's troubles leave standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorldKind {
    /// Clocks run within the drift factor and memory loss is seen: all promises hold.
    Tame,
    /// Server clocks jump ahead, single locks are evicted and single counters vanish: exclusion is not promised, fences
    /// are.
    Wild,
}

impl WorldKind {
    /// The first thing that a world draws.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        if rng.chance(75) { WorldKind::Tame } else { WorldKind::Wild }
    }
}

/// How long it may take until a server that was made to forget has restarted.
const FORGETS_WITHIN: Duration = Duration::from_secs(10);

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
    /// Tokens of locks that a majority of nodes let go by force, and when that was confirmed.
    taken: HashMap<Token, Duration>,
    /// When a server was last made to forget. It may take [`FORGETS_WITHIN`] until it does.
    forgot: Option<Duration>,
    fences: BTreeMap<Name, Fences>,
    values: BTreeMap<Name, ProtectedValue>,
    /// Locks that were granted.
    pub acquisitions: u64,
    /// Acquire calls that ended without a lock.
    pub refusals: u64,
    /// Grants for which somebody else had been waiting or holding.
    pub contended: u64,
    /// Locks that were lost while held.
    pub losses: u64,
    /// Writes that an unprotected resource lost.
    pub lost_updates: u64,
    /// Writes that a resource with fences refused.
    pub fenced_off: u64,
    /// Writes lost at a resource that knows no fences.
    pub lost_unfenced: u64,
    /// Writes lost at a resource that checks the fence at the read, too.
    pub lost_fenced: u64,
    /// What clients did besides acquiring, holding and letting go.
    pub uses: Uses,
    /// Who held together, by name and fences.
    pairs: BTreeSet<(Name, u64, u64)>,
    /// The same where one of them was released by force.
    forced_pairs: BTreeSet<(Name, u64, u64)>,
}

/// How often clients did each of the less common things.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Acquire calls that tried once.
    pub tries: u64,
    /// Locks that were given away by a handle.
    pub handles: u64,
    /// Locks that were taken over.
    pub adoptions: u64,
    /// Extensions that a client asked its guard for.
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
            ("handles given away", self.handles),
            ("adoptions", self.adoptions),
            ("extensions by hand", self.extensions),
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

/// A protected value: who wrote last, with which fence, and how often it was read and written.
#[derive(Debug, Default)]
struct ProtectedValue {
    value: u64,
    fence: u64,
    /// The same value where no fence is asked for.
    unfenced: u64,
    /// The same value where the read shows its fence, too, and the highest fence shown.
    fenced: (u64, u64),
}

/// What a client read, at each kind of resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    value: u64,
    unfenced: u64,
    fenced: u64,
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
            taken: HashMap::new(),
            forgot: None,
            fences: BTreeMap::new(),
            values: BTreeMap::new(),
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

    /// How often two clients held a name together, in worlds of any kind, though neither was released by force.
    pub fn double_holds(&self) -> u64 {
        self.pairs.len() as u64
    }

    /// How often a client still held a name that was released by force, together with another.
    pub fn forced_double_holds(&self) -> u64 {
        self.forced_pairs.len() as u64
    }

    /// What was promised and broken.
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

    /// A grant: checks fence order and uniqueness, then exclusion.
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
        // While exclusion holds, fences follow the order of holding; otherwise only that of return and call.
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
        // Only a planted bug grants a token again; the first grant stays.
        self.grants.entry(token).or_insert(Granted { at: now, fence });
        let endpoints = max_hold.map(|hold| now + hold + hold * DRIFT_PERCENT / 100);
        self.holds.push(Hold { client, right: Right::Guarded(held), granted: now, endpoints, was_lost: false });
        self.check(now);
    }

    pub(crate) fn let_go(&mut self, client: usize, name: &Name) {
        self.holds.retain(|hold| hold.client != client || hold.name() != name);
    }

    /// The client's process is gone, and its guards with it.
    pub(crate) fn crashed(&mut self, client: usize) {
        self.holds.retain(|hold| hold.client != client || !hold.ends_with_its_process());
    }

    /// Checks exclusion, that lost is final and that no hold outlasts its limit, at this very moment.
    pub(crate) fn check(&mut self, now: Duration) {
        let mut found = Vec::new();
        for hold in &mut self.holds {
            let is_lost = hold.is_lost();
            if hold.was_lost && !is_lost {
                found.push(format!("S6: client {} holds a lost lock again", hold.client));
            }
            hold.was_lost |= is_lost;
            if hold.endpoints.is_some_and(|endpoints| now > endpoints) && hold.is_held() {
                found.push(format!("L2: client {} holds {} beyond its limit", hold.client, hold.name()));
            }
        }
        found.extend(self.check_taken(now));
        found.extend(self.check_exclusion(now));
        for what in found {
            self.violate(now, &what);
        }
    }

    /// A lock that was taken by force is lost within its ttl, and its holder does not get it back. A node that forgets in
    /// between forgets that as well.
    fn check_taken(&self, now: Duration) -> Option<String> {
        let limit = LONGEST_USED_TTL + LONGEST_USED_TTL * DRIFT_PERCENT / 100;
        let came_back = |hold: &&Hold| {
            let Some(at) = self.taken.get(&hold.token()).copied() else { return false };
            let forgot = self.forgot.is_some_and(|forgot| forgot + FORGETS_WITHIN >= at);
            !forgot && now > at + limit && hold.is_held()
        };
        let hold = self.holds.iter().filter(|_| self.kind == WorldKind::Tame).find(came_back)?;
        Some(format!("S1: client {} still holds {}, which was taken by force", hold.client, hold.name()))
    }

    fn check_exclusion(&mut self, now: Duration) -> Vec<String> {
        let mut found = Vec::new();
        for (at, hold) in self.holds.iter().enumerate().filter(|(_, hold)| hold.is_held()) {
            let same = |other: &&Hold| other.name() == hold.name() && other.is_held();
            for other in self.holds[..at].iter().filter(same) {
                let pair = (hold.name().clone(), other.fence(), hold.fence());
                let is_tame = self.kind == WorldKind::Tame;
                let both = format!("clients {} and {} both hold {}", other.client, hold.client, hold.name());
                if !self.is_forced(hold.token()) && !self.is_forced(other.token()) {
                    self.pairs.insert(pair);
                    found.extend(is_tame.then(|| format!("S1: {both}")));
                    continue;
                }
                self.forced_pairs.insert(pair);
                // Who was released by force cannot extend once another has a majority.
                let shared = now.saturating_sub(hold.granted.max(other.granted));
                if is_tame && shared > LONGEST_USED_TTL + LONGEST_USED_TTL * DRIFT_PERCENT / 100 {
                    found.push(format!("S1: {both} {shared:?} after a forced release"));
                }
            }
        }
        found
    }

    /// Reads the protected value.
    pub(crate) fn read(&mut self, name: &Name, fence: u64) -> Read {
        let value = self.values.entry(name.clone()).or_default();
        value.fenced.1 = value.fenced.1.max(fence);
        Read { value: value.value, unfenced: value.unfenced, fenced: value.fenced.0 }
    }

    /// Writes one more than was read; the resource refuses an outdated fence. `false` if it did.
    pub(crate) fn write(&mut self, now: Duration, name: &Name, read: Read, fence: u64) -> bool {
        let value = self.values.entry(name.clone()).or_default();
        self.lost_unfenced += u64::from(value.unfenced != read.unfenced);
        value.unfenced += 1;
        if fence >= value.fenced.1 {
            self.lost_fenced += u64::from(value.fenced.0 != read.fenced);
            value.fenced = (value.fenced.0 + 1, fence);
        }
        if fence < value.fence {
            self.fenced_off += 1;
            self.record(now, &format!("the resource {name} refuses fence {fence}"));
            return false;
        }
        let is_lost = value.value != read.value;
        let same_holder = fence == value.fence;
        value.fence = fence;
        value.value = read.value.max(value.value) + 1;
        if is_lost {
            self.lost_updates += 1;
        }
        if is_lost && !same_holder && self.kind == WorldKind::Tame {
            // A paused holder may write before the next one has: that is not promised. After it: never.
            self.record(now, &format!("an update of {name} was overwritten by fence {fence}"));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two holders read, then both write. What each kind of resource loses.
    fn losses(first: u64, second: u64) -> (u64, u64) {
        let (mut history, name) = (History::new(WorldKind::Tame), Name::new("a").unwrap());
        let reads = [first, second].map(|fence| (history.read(&name, fence), fence));
        for (read, fence) in reads {
            history.write(Duration::ZERO, &name, read, fence);
        }
        (history.lost_unfenced, history.lost_fenced)
    }

    #[test]
    fn fences_at_the_read_save_an_update_unless_two_holders_share_one() {
        assert_eq!(losses(1, 2), (1, 0));
        assert_eq!(losses(2, 1), (1, 0));
        assert_eq!(losses(1, 1), (1, 1));
    }
}
