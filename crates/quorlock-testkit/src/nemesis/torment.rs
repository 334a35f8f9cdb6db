//! The schedule of trouble: which kind comes next, to whom, and how much at once.

use super::TTL;
use super::cast::Cast;
use super::fault::Fault;
use super::gate::how;
use super::stopwatch::now;
use crate::world::Rng;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Makes trouble until `end`: all kinds in random order, then all again. Returns when every trouble is over.
pub(super) async fn torment(cast: Cast, rng: Rng, end: Instant) {
    let minority = (cast.voters().len() - 1) / 2;
    let mut nemesis = Nemesis {
        outages: Arc::new(Semaphore::new(minority)),
        cast,
        rng,
        minority,
        wipes: Vec::new(),
        next_wipe: Instant::now(),
        troubles: JoinSet::new(),
    };
    let mut deck = Vec::new();
    while Instant::now() < end {
        sleep(nemesis.rng.span(Duration::from_millis(150), Duration::from_millis(650))).await;
        // Losses of memory are rare by rule, so they go first as soon as they may.
        deck.sort_by_key(|fault: &Fault| fault.wipes_for().is_some());
        match (0..deck.len()).rev().find(|at| nemesis.begin(deck[*at])) {
            Some(played) => drop(deck.remove(played)),
            None => deck = nemesis.shuffle(&deck),
        }
        while let Some(over) = nemesis.troubles.try_join_next() {
            over.expect("trouble ends well");
        }
    }
    nemesis.troubles.join_all().await;
}

struct Nemesis {
    cast: Cast,
    rng: Rng,
    minority: usize,
    /// Servers that may be down at the same time.
    outages: Arc<Semaphore>,
    /// Servers that lost memory, and until when they may be without a vote.
    wipes: Vec<(usize, Instant)>,
    next_wipe: Instant,
    troubles: JoinSet<()>,
}

impl Nemesis {
    /// All kinds in random order; those of `leftover` come first, which is at the end, and the oldest of them at once.
    fn shuffle(&mut self, leftover: &[Fault]) -> Vec<Fault> {
        let fresh = Fault::ALL.iter().filter(|fault| !leftover.contains(fault));
        let mut deck: Vec<_> = fresh.map(|fault| (self.rng.draw(), *fault)).collect();
        deck.sort_unstable();
        deck.iter().map(|(_, fault)| fault).chain(leftover).copied().collect()
    }

    /// Begins a trouble that ends by itself. `false` if it cannot be now.
    fn begin(&mut self, fault: Fault) -> bool {
        let client = self.number(self.cast.clients());
        match fault {
            fault if fault.is_of_server() => return self.strike_server(fault),
            // Counted when it happens.
            Fault::ClientPause => self.cast.await_lock(client, fault, over_ttl(&mut self.rng)),
            Fault::ClientSuspend => {
                let by = self.rng.span(TTL / 4, 3 * TTL);
                self.cast.await_lock(client, fault, by);
            }
            Fault::ClientCrash => {
                let (cast, rng) = (self.cast.clone(), self.rng.fork());
                self.cast.count(fault);
                self.troubles.spawn_blocking(move || cast.crash(client, rng));
            }
            Fault::ClientClock => {
                // Any two clients stay within the 5 s that fences need after a loss of memory.
                let ahead_ms = i64::try_from(self.rng.below(4_000)).unwrap() - 2_000;
                self.cast.set_clock(client, ahead_ms);
                self.cast.history().tell(format!("the clock of client {client} is {ahead_ms} ms ahead"));
                self.cast.count(fault);
            }
            _ => return self.strike_gates(fault, client),
        }
        true
    }

    /// Troubles the ways from one client to some servers, sometimes to all, or splits everybody in two.
    fn strike_gates(&mut self, fault: Fault, client: usize) -> bool {
        let span = self.rng.span(TTL / 20, TTL + TTL / 5);
        if fault != Fault::Delay && self.rng.chance(40) {
            let (pivot, overlap) = (self.number(self.cast.voters().len()), self.rng.chance(50));
            self.split(fault, pivot, overlap, span / 2);
            self.cast.count(fault);
            return true;
        }
        let share = if fault == Fault::Delay { 100 } else { *self.rng.pick(&[20, 50, 100]) };
        let nodes: Vec<usize> = (0..self.cast.voters().len()).filter(|_| self.rng.chance(share)).collect();
        if !self.trouble(fault, client, &nodes, span) {
            return false;
        }
        if fault == Fault::Delay && self.rng.chance(70) {
            // Slow grants that are then used to their end: the deadline must count from before the first send.
            self.cast.await_lock(client, Fault::ClientPause, over_ttl(&mut self.rng));
        }
        self.cast.count(fault);
        true
    }

    /// Parts the servers at the pivot, and the clients. One side reaches those from the pivot on that are a majority;
    /// the other side reaches the rest, and with `overlap` the pivot, so that both sides have a majority.
    fn split(&mut self, fault: Fault, pivot: usize, overlap: bool, span: Duration) {
        let count = self.cast.voters().len();
        let around = |from: usize, to: usize| (from..to).map(|step| (pivot + step) % count).collect();
        let majority = self.minority + 1;
        let (one, other): (Vec<_>, Vec<_>) =
            (around(majority, count), around(usize::from(overlap), majority));
        for client in 0..self.cast.clients() {
            let unreachable = if client % 2 == 0 { &one } else { &other };
            self.trouble(fault, client, unreachable, span);
        }
    }

    /// Troubles the ways from one client to `nodes`, as far as they are not in trouble already.
    fn trouble(&mut self, fault: Fault, client: usize, nodes: &[usize], span: Duration) -> bool {
        let mut struck = Vec::new();
        for &node in nodes {
            let gate = self.cast.gates(client)[node].clone();
            let Ok(turn) = gate.turn.clone().try_acquire_owned() else { continue };
            self.troubles.spawn(gate.suffer(turn, how(fault, &mut self.rng), span));
            struck.push(node);
        }
        let what = format!("{fault} between client {client} and servers {struck:?} for {span:?}");
        self.cast.history().tell(what);
        !struck.is_empty()
    }

    /// Troubles one server, if it is free and enough others are well.
    fn strike_server(&mut self, fault: Fault) -> bool {
        if fault.wipes_for().is_some() && !self.may_wipe() {
            return false;
        }
        let cast = self.cast.clone();
        // Who lost memory before has no lock to lose until it votes again.
        let is_well = |number: usize| self.wipes.iter().all(|(wiped, _)| *wiped != number);
        let suitable: Vec<usize> = (0..cast.voters().len())
            .filter(|number| cast.voters()[*number].suits(fault))
            .filter(|number| fault != Fault::Evict || is_well(*number))
            .collect();
        let number = *self.rng.pick(&suitable);
        let Ok(turn) = cast.voters()[number].turn.clone().try_acquire_owned() else { return false };
        let outage = self.outages.clone().try_acquire_owned();
        if fault.is_outage() && outage.is_err() {
            return false;
        }
        // Whoever forgets is back while the locks that it forgot still matter.
        let longest = if fault.wipes_for().is_some() { TTL / 4 } else { TTL + TTL / 5 };
        let span = self.rng.span(TTL / 20, longest);
        let delay = self.prepare_wipe(fault, number);
        let mut rng = self.rng.fork();
        self.troubles.spawn_blocking(move || {
            thread::sleep(delay);
            cast.history().tell(format!("{fault} of server {number} for {span:?}"));
            let begin = now();
            if cast.voters()[number].suffer(fault, span, &mut rng) {
                cast.count(fault);
            }
            cast.history().tell(format!("{fault} of server {number} is over"));
            if fault.is_wild() {
                cast.history().wild.push((begin, now()));
            }
            drop((turn, outage));
        });
        true
    }

    /// The worst moment to forget: both sides of a split have a majority only with this server, and somebody on one
    /// side sits on a lock. Returns how long to wait for that moment.
    fn prepare_wipe(&mut self, fault: Fault, number: usize) -> Duration {
        let Some(recovery) = fault.wipes_for() else { return Duration::ZERO };
        self.wipes.push((number, Instant::now() + recovery));
        self.next_wipe = Instant::now() + recovery / u32::try_from(self.minority).unwrap();
        self.split(Fault::Hold, number, true, TTL);
        let client = self.number(self.cast.clients());
        self.cast.await_lock(client, Fault::ClientPause, over_ttl(&mut self.rng));
        TTL / 4
    }

    /// At most a minority is without memory at the same time: more is beyond every promise.
    fn may_wipe(&mut self) -> bool {
        self.wipes.retain(|(_, until)| Instant::now() < *until);
        self.wipes.len() < self.minority && Instant::now() >= self.next_wipe
    }

    fn number(&mut self, end: usize) -> usize {
        usize::try_from(self.rng.below(end as u64)).unwrap()
    }
}

/// Long enough that the lock is over when the client goes on.
fn over_ttl(rng: &mut Rng) -> Duration {
    rng.span(TTL + TTL / 10, 2 * TTL)
}
