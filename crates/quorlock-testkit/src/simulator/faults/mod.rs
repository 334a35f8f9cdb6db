//! Injection: what can go wrong in a world, when it does, and how it endpoints.

use super::Simulation;
use super::participants::Participants;
use super::history::WorldKind;
use super::link::Link;
use super::node_list::shuffled;
use super::bug::InjectedBug;
use super::rng::Rng;
use super::conditions::NetworkConditions;
use quorlock::Name;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// A kind of injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// All messages of one link are late.
    Delay,
    /// One connection breaks; what was on its way arrives or not.
    Cut,
    /// Requests are executed twice, the second time late.
    Duplicate,
    /// A client is cut off from some servers in both directions.
    Partition,
    /// Requests arrive, replies do not.
    OneWay,
    /// A server restarts with its memory.
    Crash,
    /// A server restarts without its memory.
    Amnesia,
    /// A server forgets everything while its connections stay.
    Flush,
    /// A server takes commands and neither executes nor answers for a while.
    Stop,
    /// A server's wall clock goes back a little.
    ServerClockBack,
    /// A server's wall clock jumps ahead. Wild worlds only.
    ServerClockAhead,
    /// A server drops one lock. Wild worlds only.
    Evict,
    /// A client stands still; its clocks go on.
    Pause,
    /// A client's machine sleeps.
    Suspend,
    /// A client's wall clock jumps.
    ClientClock,
    /// A client dies and starts anew.
    ClientCrash,
    /// The fence counter of one name vanishes on a minority of servers. Wild worlds only.
    LoseCounter,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Fault; 17] = [
        Fault::Delay,
        Fault::Cut,
        Fault::Duplicate,
        Fault::Partition,
        Fault::OneWay,
        Fault::Crash,
        Fault::Amnesia,
        Fault::Flush,
        Fault::Stop,
        Fault::ServerClockBack,
        Fault::ServerClockAhead,
        Fault::Evict,
        Fault::Pause,
        Fault::Suspend,
        Fault::ClientClock,
        Fault::ClientCrash,
        Fault::LoseCounter,
    ];

    /// Those of plain worlds.
    const PLAIN: usize = 16;
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{self:?}");
        f.pad(&name)
    }
}

/// How often each kind of injection came.
pub type Counts = BTreeMap<Fault, u64>;

/// Makes injection until `end`, one after another, some at the same time.
pub(crate) async fn run_fault_schedule(world: Simulation, mut rng: Rng, end: Instant) {
    while Instant::now() < end {
        sleep(rng.span(Duration::from_millis(50), Duration::from_millis(2_500))).await;
        world.participants().check_servers();
        let kinds = if world.is_plain() { &Fault::ALL[..Fault::PLAIN] } else { &Fault::ALL };
        let mut fault = *rng.pick(kinds);
        let is_wild = matches!(fault, Fault::ServerClockAhead | Fault::Evict | Fault::LoseCounter);
        if world.kind() == WorldKind::Tame && is_wild {
            fault = Fault::Cut;
        }
        // Fences survive wild worlds only while a majority keeps its counters.
        if world.kind() == WorldKind::Wild && matches!(fault, Fault::Amnesia | Fault::Flush) {
            fault = Fault::Crash;
        }
        if world.participants().injected_bug() == Some(InjectedBug::CounterLoss) && world.kind() == WorldKind::Wild {
            let (participants, names, fault) = (world.participants(), world.names(), Fault::LoseCounter);
            Injection { participants, names, fault, rng: rng.fork() }.lose_counters();
        }
        let injection = Injection { participants: world.participants(), names: world.names(), fault, rng: rng.fork() };
        if matches!(fault, Fault::Amnesia | Fault::Flush) {
            let participants = world.participants();
            participants.history.lock().unwrap().forgets(participants.now());
        }
        if injection.inject() {
            world.count(fault);
        }
    }
}

struct Injection {
    participants: Participants,
    names: Vec<Name>,
    fault: Fault,
    rng: Rng,
}

impl Injection {
    /// Begins, and plans its own end. `false` if it found nothing to do.
    fn inject(mut self) -> bool {
        let node = *self.rng.pick(&self.participants.list(0));
        let client = usize::try_from(self.rng.below(self.participants.clients() as u64)).unwrap();
        self.participants.record(&format!("fault {} at server {node}, client {client}", self.fault));
        match self.fault {
            Fault::Delay => self.disturb_links(client, |conditions, rng| {
                conditions.delay.1 = rng.span(Duration::from_millis(20), Duration::from_millis(400));
            }),
            Fault::Duplicate => self.disturb_links(client, |conditions, _| conditions.duplicates = 30),
            Fault::Partition => self.disturb_links(client, |conditions, _| {
                conditions.no_requests = true;
                conditions.no_replies = true;
            }),
            Fault::OneWay => self.disturb_links(client, |conditions, _| conditions.no_replies = true),
            Fault::Cut => self.participants.link(client, node).iter().for_each(Link::cut),
            Fault::Crash | Fault::Amnesia => self.crash(node),
            Fault::Flush => self.participants.servers[node].lock().unwrap().flush(),
            Fault::Stop => self.stop(node),
            Fault::ServerClockBack => self.jump_server(node, false),
            Fault::ServerClockAhead => self.jump_server(node, true),
            Fault::Evict => return self.participants.servers[node].lock().unwrap().evict(),
            Fault::Pause => self.wait_while_paused(client, false),
            Fault::Suspend => self.wait_while_paused(client, true),
            Fault::ClientClock => self.jump_client(client),
            Fault::ClientCrash => self.participants.crash(client),
            Fault::LoseCounter => return self.lose_counters(),
        }
        true
    }

    /// Changes the conditions between a client and some servers, for a while.
    fn disturb_links(&mut self, client: usize, change: impl Fn(&mut NetworkConditions, &mut Rng)) {
        let span = self.rng.span(Duration::from_millis(100), Duration::from_secs(6));
        for link in self.participants.links(client) {
            if !self.rng.chance(60) {
                continue;
            }
            let mut conditions = link.conditions();
            change(&mut conditions, &mut self.rng);
            link.set_conditions(conditions);
            self.participants.events.schedule(Instant::now() + span, move || link.set_conditions(NetworkConditions::HEALTHY));
        }
    }

    fn crash(&mut self, node: usize) {
        let keeps_memory = self.fault == Fault::Crash;
        let span = self.rng.span(Duration::from_millis(10), Duration::from_secs(4));
        self.participants.servers[node].lock().unwrap().is_up = false;
        self.participants.cut_all(node);
        let participants = self.participants.clone();
        self.participants.events.schedule(Instant::now() + span, move || {
            participants.servers[node].lock().unwrap().restart(keeps_memory);
        });
    }

    fn stop(&mut self, node: usize) {
        let span = self.rng.span(Duration::from_millis(20), Duration::from_secs(4));
        self.participants.servers[node].lock().unwrap().is_stopped = true;
        let participants = self.participants.clone();
        self.participants.events.schedule(Instant::now() + span, move || {
            let stalled = participants.servers[node].lock().unwrap().resume();
            stalled.into_iter().for_each(|action| action());
        });
    }

    /// Drops the counter of a name on a minority of servers, while a majority keeps the highest number that any has.
    fn lose_counters(&mut self) -> bool {
        let (list, name) = (self.participants.initial_list(), self.rng.pick(&self.names).clone());
        let counter = |node: usize| self.participants.servers[node].lock().unwrap().counter(&name);
        let highest = list.iter().filter_map(|node| counter(*node)).max();
        let is_careless = self.participants.injected_bug() == Some(InjectedBug::CounterLoss);
        let knows = |node: usize| counter(node) == highest || is_careless;
        let mut lost = 0;
        for node in shuffled(&list, &mut self.rng) {
            let kept = list.iter().filter(|other| **other != node && knows(**other)).count();
            let minority = (list.len() - 1) / 2;
            if lost < minority && kept > list.len() / 2 {
                lost += usize::from(self.participants.servers[node].lock().unwrap().lose_counter(&name));
            }
        }
        lost > 0
    }

    fn jump_server(&mut self, node: usize, ahead: bool) {
        let micros = i64::try_from(self.rng.below(if ahead { 4_000_000 } else { 500_000 })).unwrap();
        let server = self.participants.servers[node].lock().unwrap();
        server.clock.jump_wall(if ahead { micros } else { -micros });
    }

    fn wait_while_paused(&mut self, client: usize, asleep: bool) {
        let span = self.rng.span(Duration::from_millis(50), Duration::from_secs(6));
        self.participants.pause(client, span, asleep);
    }

    fn jump_client(&mut self, client: usize) {
        // Within the tolerance of 5 s between clients, so that fences survive memory loss.
        let micros = i64::try_from(self.rng.below(1_000_000)).unwrap() - 500_000;
        self.participants.clock(client).jump_wall(micros);
    }
}
