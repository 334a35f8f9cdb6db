//! Trouble: what can go wrong, when it does, and how it ends.

use super::TTL;
use super::cast::{Cast, Gate, Voter};
use crate::proxy;
use crate::world::Rng;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
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
        sleep(nemesis.rng.span(Duration::from_millis(100), Duration::from_millis(700))).await;
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
    /// All kinds in random order; those of `leftover` come first, which is at the end.
    fn shuffle(&mut self, leftover: &[Fault]) -> Vec<Fault> {
        let mut deck: Vec<_> = Fault::ALL.iter().map(|fault| (self.rng.draw(), *fault)).collect();
        deck.sort_by_key(|(order, fault)| (leftover.contains(fault), *order));
        deck.into_iter().map(|(_, fault)| fault).collect()
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

    /// Troubles the ways from one client to some servers, sometimes to all.
    fn strike_gates(&mut self, fault: Fault, client: usize) -> bool {
        let span = self.rng.span(TTL / 20, TTL + TTL / 5);
        let share = *self.rng.pick(&[20, 50, 100]);
        let mut struck = Vec::new();
        for (node, gate) in self.cast.gates(client).into_iter().enumerate() {
            let Ok(turn) = gate.turn.clone().try_acquire_owned() else { continue };
            if self.rng.chance(share) {
                let trouble = how(fault, &mut self.rng);
                self.troubles.spawn(strike_gate(gate, turn, trouble, span));
                struck.push(node);
            }
        }
        if struck.is_empty() {
            return false;
        }
        self.cast.count(fault);
        self.cast
            .history()
            .tell(&format!("{fault} between client {client} and servers {struck:?} for {span:?}"));
        true
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
        let voter = &self.cast.voters()[number];
        let Ok(turn) = voter.turn.clone().try_acquire_owned() else { return false };
        let Ok(outage) = self.outages.clone().try_acquire_owned() else { return false };
        let server = voter.server.clone();
        let span = self.rng.span(TTL / 20, TTL + TTL / 5);
        if fault.wipes() {
            self.wipes.push(Instant::now());
            self.last_wipe = Some(Instant::now());
        }
        self.cast.count(fault);
        self.cast.history().tell(&format!("{fault} of server {number} for {span:?}"));
        self.troubles.spawn_blocking(move || {
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

/// What the proxy does; `None` for a mere cut.
fn how(fault: Fault, rng: &mut Rng) -> Option<proxy::Fault> {
    Some(match fault {
        Fault::Delay => proxy::Fault::Delay(rng.span(Duration::from_millis(5), Duration::from_millis(300))),
        Fault::Hold => proxy::Fault::Hold,
        Fault::HoldReplies => proxy::Fault::HoldReplies,
        Fault::Swallow => proxy::Fault::Swallow,
        Fault::SwallowReplies => proxy::Fault::SwallowReplies,
        Fault::Garbage => proxy::Fault::Garbage,
        Fault::Drip => proxy::Fault::Drip(rng.span(Duration::from_millis(1), Duration::from_millis(10))),
        Fault::Refuse => proxy::Fault::Refuse,
        _ => return None,
    })
}

/// Troubles one way and clears it again, unless its client has died meanwhile and took it along.
async fn strike_gate(
    gate: Arc<Gate>,
    _turn: OwnedSemaphorePermit,
    trouble: Option<proxy::Fault>,
    span: Duration,
) {
    let Some(trouble) = trouble else { return gate.proxy.cut() };
    gate.proxy.set(trouble).await;
    if trouble == proxy::Fault::Refuse {
        gate.proxy.cut();
    }
    let gate = {
        let left = Arc::downgrade(&gate);
        drop(gate);
        sleep(span).await;
        left
    };
    let Some(gate) = gate.upgrade() else { return };
    if matches!(trouble, proxy::Fault::Swallow | proxy::Fault::SwallowReplies | proxy::Fault::Garbage) {
        // TCP never goes on after a gap: a connection that lost bytes must end before others pass.
        gate.proxy.set(proxy::Fault::Hold).await;
        gate.proxy.cut();
        sleep(Duration::from_millis(20)).await;
    }
    gate.proxy.set(proxy::Fault::Pass).await;
}
