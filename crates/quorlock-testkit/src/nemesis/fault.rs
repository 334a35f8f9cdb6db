//! Trouble: what can go wrong, when it does, and how it ends.

use super::TTL;
use super::cast::{Cast, Voter};
use super::gate::{how, strike_gate};
use crate::world::Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Replies are late.
    Delay,
    /// Nothing passes in either direction for a while.
    Hold,
    /// Requests arrive, replies wait.
    HoldReplies,
    /// Requests disappear, then the connection breaks.
    Swallow,
    /// Requests arrive, replies disappear, then the connection breaks.
    SwallowReplies,
    /// Replies are nonsense, then the connection breaks.
    Garbage,
    /// Replies come byte by byte.
    Drip,
    /// The connection breaks and no new one is accepted.
    Refuse,
    /// The connection breaks.
    Cut,
    /// A server stands still (SIGSTOP) and goes on (SIGCONT).
    Stop,
    /// A server is killed (SIGKILL) and comes back without its memory.
    Amnesia,
    /// A server is killed (SIGKILL) and comes back with its memory.
    Crash,
    /// A server forgets everything (FLUSHALL) while its connections stay.
    Flush,
    /// A client stands still between reading and writing until its lock is over.
    ClientPause,
    /// A client dies and another starts in its place.
    ClientCrash,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; 15] = [
        Fault::Delay,
        Fault::Hold,
        Fault::HoldReplies,
        Fault::Swallow,
        Fault::SwallowReplies,
        Fault::Garbage,
        Fault::Drip,
        Fault::Refuse,
        Fault::Cut,
        Fault::Stop,
        Fault::Amnesia,
        Fault::Crash,
        Fault::Flush,
        Fault::ClientPause,
        Fault::ClientCrash,
    ];

    fn wipes(self) -> bool {
        matches!(self, Fault::Amnesia | Fault::Flush)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// How often each kind of trouble came.
pub type Counts = BTreeMap<Fault, u64>;

/// How long a server that forgot may be without a vote: its time down, and the quarantine of ttl and 10 s.
const RECOVERY: Duration = Duration::from_secs(14);

/// From one loss of memory to the next, divided by how many may be missing: so a majority can vote most of the time.
const BETWEEN_WIPES: Duration = Duration::from_secs(20);

/// Makes trouble until `end`: all kinds in random order, then all again. Returns when every trouble is over.
pub(super) async fn torment(cast: Cast, rng: Rng, end: Instant) {
    let minority = (cast.voters().len() - 1) / 2;
    let outages = Arc::new(Semaphore::new(minority));
    let mut nemesis = Nemesis {
        cast,
        rng,
        minority,
        outages,
        wipes: Vec::new(),
        last_wipe: None,
        troubles: JoinSet::new(),
    };
    let mut deck = Vec::new();
    while Instant::now() < end {
        sleep(nemesis.rng.span(Duration::from_millis(150), Duration::from_millis(850))).await;
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
    /// When servers lost their memory, as long as they may be without a vote.
    wipes: Vec<Instant>,
    last_wipe: Option<Instant>,
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
            Fault::Stop | Fault::Amnesia | Fault::Crash | Fault::Flush => return self.strike_server(fault),
            Fault::ClientPause => {
                // Counted by the client when it happens.
                self.cast.ask_for_pause(client);
                return true;
            }
            Fault::ClientCrash => {
                let cast = self.cast.clone();
                self.troubles.spawn(async move { cast.crash(client).await });
            }
            _ => return self.strike_gates(fault, client),
        }
        self.cast.count(fault);
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
        let share = *self.rng.pick(&[20, 50, 100]);
        let nodes: Vec<usize> = (0..self.cast.voters().len()).filter(|_| self.rng.chance(share)).collect();
        if !self.trouble(fault, client, &nodes, span) {
            return false;
        }
        if fault == Fault::Delay && self.rng.chance(50) {
            // Slow grants that are then used to their end: the deadline must count from before the first send.
            self.cast.ask_for_pause(client);
        }
        self.cast.count(fault);
        true
    }

    /// Parts the servers at the pivot, and the clients. One side reaches those from the pivot on that are a majority; the
    /// other side reaches the rest, and with `overlap` the pivot, so that both sides have a majority.
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
        let gates = self.cast.gates(client);
        let mut struck = Vec::new();
        for &node in nodes {
            let Ok(turn) = gates[node].turn.clone().try_acquire_owned() else { continue };
            let trouble = how(fault, &mut self.rng);
            self.troubles.spawn(strike_gate(gates[node].clone(), turn, trouble, span));
            struck.push(node);
        }
        let what = format!("{fault} between client {client} and servers {struck:?} for {span:?}");
        self.cast.history().tell(&what);
        !struck.is_empty()
    }

    fn strike_server(&mut self, fault: Fault) -> bool {
        if fault.wipes() && !self.may_wipe() {
            return false;
        }
        let suits = |voter: &Voter| match fault {
            Fault::Amnesia => !voter.is_durable,
            Fault::Crash => voter.is_durable,
            _ => true,
        };
        let voters = self.cast.voters().iter().enumerate();
        let suitable: Vec<usize> =
            voters.filter(|(_, voter)| suits(voter)).map(|(number, _)| number).collect();
        let number = *self.rng.pick(&suitable);
        let cast = self.cast.clone();
        let voter = &cast.voters()[number];
        let Ok(turn) = voter.turn.clone().try_acquire_owned() else { return false };
        let Ok(outage) = self.outages.clone().try_acquire_owned() else { return false };
        let server = voter.server.clone();
        let span = self.rng.span(TTL / 20, TTL + TTL / 5);
        let delay = if fault.wipes() { self.prepare_wipe(number) } else { Duration::ZERO };
        self.cast.count(fault);
        self.cast.history().tell(&format!("{fault} of server {number} for {span:?}"));
        self.troubles.spawn_blocking(move || {
            thread::sleep(delay);
            let mut server = server.lock().unwrap();
            match fault {
                Fault::Stop => {
                    server.pause();
                    thread::sleep(span);
                    server.resume();
                }
                Fault::Flush => server.flushall(),
                _ => {
                    server.kill();
                    thread::sleep(span);
                    server.restart();
                }
            }
            drop((turn, outage));
        });
        true
    }

    /// The worst moment to forget: both sides of a split have a majority only with this server, and somebody on one side
    /// sits on a lock. Returns how long to wait for that moment.
    fn prepare_wipe(&mut self, number: usize) -> Duration {
        self.wipes.push(Instant::now());
        self.last_wipe = Some(Instant::now());
        self.split(Fault::Hold, number, true, TTL);
        let client = self.number(self.cast.clients());
        self.cast.ask_for_pause(client);
        TTL / 4
    }

    /// At most a minority is without memory at the same time: more is beyond every promise.
    fn may_wipe(&mut self) -> bool {
        self.wipes.retain(|when| when.elapsed() < RECOVERY);
        let gap = BETWEEN_WIPES / u32::try_from(self.minority).unwrap();
        self.wipes.len() < self.minority && self.last_wipe.is_none_or(|when| when.elapsed() > gap)
    }

    fn number(&mut self, end: usize) -> usize {
        usize::try_from(self.rng.below(end as u64)).unwrap()
    }
}
