//! What happened in a storm, checked while it happens.

use quorlock::{Held, Name, Standing};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

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

/// The record of one storm.
#[derive(Clone, Debug)]
pub struct History {
    start: Instant,
    /// How often each client has died: what its earlier lives report is void.
    lives: Vec<u64>,
    holds: Vec<Hold>,
    fences: BTreeMap<Name, Fences>,
    resources: BTreeMap<Name, Resource>,
    recent: VecDeque<String>,
    violations: Vec<(Promise, String)>,
    evidence: Vec<String>,
    /// Locks that were granted.
    pub acquisitions: u64,
    /// Acquire calls that ended without a lock.
    pub refusals: u64,
    /// Extensions of held locks.
    pub extensions: u64,
    /// Locks that were lost while held.
    pub losses: u64,
    /// Writes by clients whose lock was over.
    pub late_writes: u64,
    /// Updates that the unprotected value lost.
    pub lost_updates: u64,
    /// Writes that the value with fences accepted.
    pub fenced_writes: u64,
    /// Writes that the value with fences refused.
    pub fenced_off: u64,
}

#[derive(Clone, Debug)]
struct Hold {
    client: usize,
    held: Held,
    was_lost: bool,
}

#[derive(Clone, Debug, Default)]
struct Fences {
    all: BTreeSet<u64>,
    /// When each grant was noted, and the highest fence up to it.
    highest: Vec<(Instant, u64)>,
}

/// What a lock protects: one value for whoever comes, one that compares fences.
#[derive(Clone, Debug, Default)]
struct Resource {
    plain: u64,
    fenced: u64,
    /// The highest fence that read or wrote `fenced`. Reads count, or a newer holder could overwrite the late write of an older
    /// one that it never saw.
    seen: u64,
    /// The highest fence whose write was accepted.
    written: u64,
}

/// Both values, as a client read them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    plain: u64,
    /// `None` if the fence was outdated already.
    fenced: Option<u64>,
}

/// Lines kept as evidence before a violation.
const RECENT: usize = 60;

impl History {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            start: Instant::now(),
            lives: vec![0; clients],
            holds: Vec::new(),
            fences: BTreeMap::new(),
            resources: BTreeMap::new(),
            recent: VecDeque::new(),
            violations: Vec::new(),
            evidence: Vec::new(),
            acquisitions: 0,
            refusals: 0,
            extensions: 0,
            losses: 0,
            late_writes: 0,
            lost_updates: 0,
            fenced_writes: 0,
            fenced_off: 0,
        }
    }

    /// What was promised and broken.
    pub fn violations(&self) -> &[(Promise, String)] {
        &self.violations
    }

    /// What happened just before the first violation, one line each.
    pub fn evidence(&self) -> &[String] {
        &self.evidence
    }

    pub(super) fn tell(&mut self, what: &str) {
        self.recent.push_back(format!("{:>10.4}s  {what}", self.start.elapsed().as_secs_f64()));
        if self.recent.len() > RECENT {
            self.recent.pop_front();
        }
    }

    pub(super) fn violate(&mut self, promise: Promise, what: String) {
        self.tell(&format!("VIOLATION {promise:?}: {what}"));
        if self.violations.is_empty() {
            self.evidence = self.recent.iter().cloned().collect();
        }
        self.violations.push((promise, what));
    }

    /// A grant: checks the fence, then exclusion. `false` if the client died meanwhile.
    pub(super) fn granted(&mut self, (client, life): (usize, u64), called: Instant, held: Held) -> bool {
        if self.lives[client] != life {
            return false;
        }
        let (name, fence) = (held.name().clone(), held.fence());
        self.acquisitions += 1;
        self.tell(&format!("client {client} holds {name} with fence {fence}, {:?} left", held.remaining()));
        let fences = self.fences.entry(name.clone()).or_default();
        let is_new = fences.all.insert(fence);
        // Whoever holds the lock now got it after all others. A grant that was over before it could be noted only
        // follows those that were noted before its call.
        let before = match held.is_held() {
            true => fences.highest.len(),
            false => fences.highest.partition_point(|(noted, _)| *noted < called),
        };
        let highest = fences.highest[..before].last().map_or(0, |(_, highest)| *highest);
        let top = fences.highest.last().map_or(fence, |(_, top)| fence.max(*top));
        fences.highest.push((Instant::now(), top));
        if !is_new {
            self.violate(Promise::UniqueFences, format!("fence {fence} of {name} was handed out twice"));
        } else if fence < highest {
            self.violate(Promise::IncreasingFences, format!("fence {fence} of {name} after {highest}"));
        }
        self.holds.push(Hold { client, held, was_lost: false });
        self.check();
        true
    }

    pub(super) fn extended(&mut self) {
        self.extensions += 1;
        self.check();
    }

    /// The client is about to let go: from here on others may hold the lock.
    pub(super) fn let_go(&mut self, client: usize, held: &Held) {
        if matches!(held.standing(), Standing::Lost(_)) {
            self.losses += 1;
        }
        self.tell(&format!("client {client} lets {} go: {:?}", held.name(), held.standing()));
        self.holds.retain(|hold| hold.client != client);
    }

    pub(super) fn crashed(&mut self, client: usize, life: u64) {
        self.tell(&format!("client {client} dies"));
        self.lives[client] = life;
        self.holds.retain(|hold| hold.client != client);
    }

    /// Checks exclusion and that lost is final, at this very moment.
    ///
    /// A hold is noted after its grant and struck out before its release, so what is seen here is held by no doubt.
    fn check(&mut self) {
        let mut found = Vec::new();
        let mut holders: BTreeMap<Name, (usize, u64)> = BTreeMap::new();
        for hold in &mut self.holds {
            let (client, name, fence) = (hold.client, hold.held.name(), hold.held.fence());
            let standing = hold.held.standing();
            let is_lost = matches!(standing, Standing::Lost(_));
            if hold.was_lost && !is_lost {
                found.push((Promise::FinalLoss, format!("client {client} holds lost {name} again")));
            }
            hold.was_lost |= is_lost;
            if !matches!(standing, Standing::Held { .. }) {
                continue;
            }
            if let Some((other, first)) = holders.insert(name.clone(), (client, fence)) {
                let what =
                    format!("clients {other} (fence {first}) and {client} (fence {fence}) both hold {name}");
                found.push((Promise::Exclusion, what));
            }
        }
        for (promise, what) in found {
            self.violate(promise, what);
        }
    }

    /// Reads both values. `None` if the client died meanwhile.
    pub(super) fn read(&mut self, (client, life): (usize, u64), held: &Held) -> Option<Seen> {
        if self.lives[client] != life {
            return None;
        }
        let resource = self.resources.entry(held.name().clone()).or_default();
        let fenced = (held.fence() >= resource.seen).then_some(resource.fenced);
        resource.seen = resource.seen.max(held.fence());
        let (plain, is_refused) = (resource.plain, fenced.is_none());
        if is_refused {
            self.refuse(client, held);
        }
        Some(Seen { plain, fenced })
    }

    /// Writes one more than was read to both values. `false` if the client died, or its fence is outdated.
    ///
    /// An update is *lost* if it is overwritten by somebody who had not read it. With fences there is also the weaker
    /// rule that the write of an older holder is never accepted after that of a newer one.
    pub(super) fn write(&mut self, (client, life): (usize, u64), held: &Held, seen: Seen) -> bool {
        if self.lives[client] != life {
            return false;
        }
        let (name, fence) = (held.name().clone(), held.fence());
        self.late_writes += u64::from(!held.is_held());
        let resource = self.resources.entry(name.clone()).or_default();
        self.lost_updates += u64::from(resource.plain != seen.plain);
        resource.plain = seen.plain + 1;
        let Some(read) = seen.fenced else { return false };
        if fence < resource.seen {
            self.refuse(client, held);
            return false;
        }
        let (is_lost, newest) = (resource.fenced != read, resource.written);
        resource.fenced = read + 1;
        resource.seen = fence;
        resource.written = newest.max(fence);
        self.fenced_writes += 1;
        if is_lost {
            let what = format!("client {client} overwrote {name} with fence {fence} without having read it");
            self.violate(Promise::NoFencedLoss, what);
        }
        if fence < newest {
            let what = format!("a write of {name} with fence {fence} was accepted after {newest}");
            self.violate(Promise::NoFencedLoss, what);
        }
        true
    }

    fn refuse(&mut self, client: usize, held: &Held) {
        let (name, fence) = (held.name(), held.fence());
        self.fenced_off += 1;
        self.tell(&format!("the resource {name} refuses client {client} with fence {fence}"));
        if held.is_held() {
            let what = format!("client {client} holds {name} and its fence {fence} is refused");
            self.violate(Promise::NoHolderRefused, what);
        }
    }
}
