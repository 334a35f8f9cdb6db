//! The fault schedule: which kind comes next, where, and how many at once.

use crate::nemesis::TTL;
use crate::nemesis::faults::Fault;
use crate::nemesis::faults::link_faults::proxy_fault;
use crate::nemesis::monotonic::now;
use crate::nemesis::participants::{Participants, PendingFault};
use crate::rng::Rng;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Injects faults until `end`: all kinds in random order, then all again. Returns when every fault
/// is over.
pub(crate) async fn run(participants: Participants, rng: Rng, end: Instant) {
    let minority = (participants.members() - 1) / 2;
    let mut nemesis = Nemesis {
        outages: Arc::new(Semaphore::new(minority)),
        members: (0..participants.members()).map(|_| Arc::new(Semaphore::new(1))).collect(),
        participants,
        rng,
        minority,
        wipes: Vec::new(),
        next_wipe: Instant::now(),
        running: JoinSet::new(),
    };
    let mut pending = Vec::new();
    while Instant::now() < end {
        sleep(nemesis.rng.span(Duration::from_millis(150), Duration::from_millis(650))).await;
        // Losses of memory are rare by rule, so they go first as soon as they are allowed.
        pending.sort_by_key(|fault: &Fault| fault.wipes_for().is_some());
        match (0..pending.len()).rev().find(|at| nemesis.start_fault(pending[*at])) {
            Some(started) => drop(pending.remove(started)),
            None => pending = nemesis.shuffle(&pending),
        }
        while let Some(over) = nemesis.running.try_join_next() {
            over.expect("no fault panics");
        }
        nemesis.participants.replace_crashed();
    }
    nemesis.running.join_all().await;
}

struct Nemesis {
    participants: Participants,
    rng: Rng,
    minority: usize,
    /// One fault at a time in each server.
    members: Vec<Arc<Semaphore>>,
    /// Servers that may be down at the same time.
    outages: Arc<Semaphore>,
    /// Servers that lost memory, and until when they may be without a vote.
    wipes: Vec<(usize, Instant)>,
    next_wipe: Instant,
    running: JoinSet<()>,
}

impl Nemesis {
    /// All kinds in random order; those of `leftover` come first, which is at the end, and the
    /// oldest of them at once.
    fn shuffle(&mut self, leftover: &[Fault]) -> Vec<Fault> {
        let fresh = self.participants.kinds().into_iter().filter(|fault| !leftover.contains(fault));
        let mut pending: Vec<_> = fresh.map(|fault| (self.rng.draw(), fault)).collect();
        pending.sort_unstable();
        pending.iter().map(|(_, fault)| fault).chain(leftover).copied().collect()
    }

    /// Starts a fault that ends by itself. `false` if it cannot be injected now.
    fn start_fault(&mut self, fault: Fault) -> bool {
        let client = self.number(self.participants.clients());
        match fault {
            fault if fault.is_of_server() => return self.inject_server_fault(fault),
            // Counted when it is injected.
            Fault::ClientPause => {
                let span = self.until_over();
                self.on_grant(client, fault, span);
            }
            Fault::ClientSuspend => {
                let by = self.rng.span(TTL / 4, 3 * TTL);
                self.on_grant(client, fault, by);
            }
            Fault::ClientCrash => {
                let (participants, rng) = (self.participants.clone(), self.rng.fork());
                self.participants.count(fault);
                self.running.spawn_blocking(move || participants.crash(client, rng));
            }
            Fault::ClientClock => {
                // Any two clients stay within the 5 s that fences need after a loss of memory.
                let ahead_ms = i64::try_from(self.rng.below(4_000)).unwrap() - 2_000;
                self.participants.set_clock(client, ahead_ms);
                self.participants
                    .history()
                    .record(format!("the clock of client {client} is {ahead_ms} ms ahead"));
                self.participants.count(fault);
            }
            _ => return self.disturb_links(fault, client),
        }
        true
    }

    /// Injects a link fault between one client and some servers, sometimes all, or between two
    /// halves of the participants.
    fn disturb_links(&mut self, fault: Fault, client: usize) -> bool {
        // A client under delay must have the time to be granted a lock.
        let shortest = if fault == Fault::Delay { TTL / 2 } else { TTL / 20 };
        let span = self.rng.span(shortest, TTL + TTL / 5);
        if fault != Fault::Delay && self.rng.chance(40) {
            let (pivot, overlap) = (self.number(self.participants.members()), self.rng.chance(50));
            self.split(fault, pivot, overlap, span / 2);
            self.participants.count(fault);
            return true;
        }
        let share = if fault == Fault::Delay { 100 } else { *self.rng.pick(&[20, 50, 100]) };
        let nodes: Vec<usize> = (0..self.participants.members()).filter(|_| self.rng.chance(share)).collect();
        if !self.inject_link_fault(fault, client, &nodes, span) {
            return false;
        }
        if fault == Fault::Delay {
            // Slow grants that are then used to their end: the deadline must count from before the
            // first send.
            self.pause_writer(client);
        }
        self.participants.count(fault);
        true
    }

    /// Splits the servers at the pivot, and the clients. One side reaches those from the pivot on
    /// that are a majority; the other side reaches the rest, and with `overlap` the pivot, so that
    /// both sides have a majority.
    fn split(&mut self, fault: Fault, pivot: usize, overlap: bool, span: Duration) {
        let count = self.participants.members();
        let around = |from: usize, to: usize| (from..to).map(|step| (pivot + step) % count).collect();
        let majority = self.minority + 1;
        let (one, other): (Vec<_>, Vec<_>) =
            (around(majority, count), around(usize::from(overlap), majority));
        for client in 0..self.participants.clients() {
            let unreachable = if client % 2 == 0 { &one } else { &other };
            self.inject_link_fault(fault, client, unreachable, span);
        }
    }

    /// Injects a link fault between one client and those of `nodes` whose link has none.
    fn inject_link_fault(&mut self, fault: Fault, client: usize, nodes: &[usize], span: Duration) -> bool {
        let mut disturbed = Vec::new();
        for &node in nodes {
            let link = self.participants.links(client)[node].clone();
            let Ok(permit) = link.permits.clone().try_acquire_owned() else { continue };
            self.running.spawn(link.inject(permit, proxy_fault(fault, &mut self.rng), span));
            disturbed.push(node);
        }
        let what = format!("{fault} between client {client} and servers {disturbed:?} for {span:?}");
        self.participants.history().record(what);
        !disturbed.is_empty()
    }

    /// Injects a fault into one server, if it has none and enough others are healthy.
    fn inject_server_fault(&mut self, fault: Fault) -> bool {
        if fault.wipes_for().is_some() && !self.may_wipe() {
            return false;
        }
        let participants = self.participants.clone();
        // A server that lost its memory has no lock to lose until it votes again.
        let is_healthy = |number: usize| self.wipes.iter().all(|(wiped, _)| *wiped != number);
        let suitable: Vec<usize> = (0..participants.members())
            .filter(|number| participants.cluster().suits(*number, fault))
            .filter(|number| fault != Fault::Evict || is_healthy(*number))
            .collect();
        let number = *self.rng.pick(&suitable);
        let Ok(permit) = self.members[number].clone().try_acquire_owned() else { return false };
        let outage = self.outages.clone().try_acquire_owned();
        if fault.is_outage() && outage.is_err() {
            return false;
        }
        let (shortest, longest) = fault.spans();
        let span = self.rng.span(shortest, longest);
        let delay = self.prepare_wipe(fault, number);
        let mut rng = self.rng.fork();
        self.running.spawn_blocking(move || {
            thread::sleep(delay);
            participants.history().record(format!("{fault} of server {number} for {span:?}"));
            let start = now();
            if participants.cluster().inject(number, fault, span, &mut rng) {
                participants.count(fault);
            }
            participants.history().record(format!("{fault} of server {number} is over"));
            if fault.is_wild() {
                participants.history().wild.push((start, now()));
            }
            if fault.forgets() {
                participants.history().forgets.push((start, now()));
            }
            drop(permit);
            if fault.is_outage() {
                thread::sleep(participants.cluster().rest());
            }
            drop(outage);
        });
        true
    }

    /// Prepares the worst moment to forget: both sides of a split have a majority only with this
    /// server, and a client on one side is paused with a lock. Returns how long to wait for that
    /// moment.
    fn prepare_wipe(&mut self, fault: Fault, number: usize) -> Duration {
        let Some(recovery) = fault.wipes_for() else { return Duration::ZERO };
        self.wipes.push((number, Instant::now() + recovery));
        self.next_wipe = Instant::now() + recovery / u32::try_from(self.minority).unwrap();
        self.split(Fault::Hold, number, true, TTL);
        let client = self.number(self.participants.clients());
        self.pause_writer(client);
        TTL / 4
    }

    /// At most a minority may be without memory at the same time: more is beyond every promise.
    fn may_wipe(&mut self) -> bool {
        self.wipes.retain(|(_, until)| Instant::now() < *until);
        self.wipes.len() < self.minority && Instant::now() >= self.next_wipe
    }

    /// Injects a fault as soon as the client has any lock.
    fn on_grant(&self, client: usize, fault: Fault, span: Duration) {
        self.participants.inject_on_grant(client, PendingFault { fault, span, needs_writer: false });
    }

    /// Pauses the client as soon as it has a name alone.
    fn pause_writer(&mut self, client: usize) {
        let (fault, span) = (Fault::ClientPause, self.until_over());
        self.participants.inject_on_grant(client, PendingFault { fault, span, needs_writer: true });
    }

    /// Long enough that another client can have the lock when the client resumes.
    fn until_over(&mut self) -> Duration {
        let over = self.participants.cluster().longest_orphan();
        self.rng.span(over + TTL / 10, over + TTL)
    }

    fn number(&mut self, end: usize) -> usize {
        usize::try_from(self.rng.below(end as u64)).unwrap()
    }
}
