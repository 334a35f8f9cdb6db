//! The fault schedule of a world: which fault comes when, and how it ends.

use crate::rng::Rng;
use crate::simulator::faults::Fault;
use crate::simulator::faults::node_list::shuffled;
use crate::simulator::history::WorldKind;
use crate::simulator::network::Link;
use crate::simulator::network::network_conditions::NetworkConditions;
use crate::simulator::participants::Participants;
use crate::simulator::{InjectedBug, Simulation};
use quorlock::Name;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Injects faults until `end`, one after another; some last at the same time.
pub(crate) async fn run(simulation: Simulation, mut rng: Rng, end: Instant) {
    let Simulation { participants, names, kind, is_plain, .. } = simulation.clone();
    let injection =
        |fault, rng| Injection { participants: participants.clone(), names: names.clone(), fault, rng };
    while Instant::now() < end {
        sleep(rng.span(Duration::from_millis(50), Duration::from_millis(2_500))).await;
        participants.check_servers();
        let kinds = if is_plain { &Fault::ALL[..Fault::PLAIN] } else { &Fault::ALL };
        let mut fault = *rng.pick(kinds);
        let is_wild = matches!(fault, Fault::ServerClockAhead | Fault::Evict | Fault::LoseCounter);
        if kind == WorldKind::Tame && is_wild {
            fault = Fault::Cut;
        }
        // Fences survive wild worlds only while a majority keeps its counters.
        if kind == WorldKind::Wild && matches!(fault, Fault::Amnesia | Fault::Flush) {
            fault = Fault::Crash;
        }
        if participants.injected_bug() == Some(InjectedBug::CounterLoss) && kind == WorldKind::Wild {
            injection(Fault::LoseCounter, rng.fork()).lose_counters();
        }
        let injection = injection(fault, rng.fork());
        if matches!(fault, Fault::Amnesia | Fault::Flush) {
            participants.history().forgets(participants.now());
        }
        if injection.inject() {
            simulation.count(fault);
        }
    }
}

/// One fault.
struct Injection {
    participants: Participants,
    names: Vec<Name>,
    fault: Fault,
    rng: Rng,
}

impl Injection {
    /// Starts the fault and schedules its end. `false` if there was nothing to do.
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
            Fault::Pause => self.pause(client, false),
            Fault::Suspend => self.pause(client, true),
            Fault::ClientClock => self.jump_client(client),
            Fault::ClientCrash => self.participants.crash(client),
            Fault::LoseCounter => return self.lose_counters(),
        }
        true
    }

    /// Changes the network between a client and some servers, for a while.
    fn disturb_links(&mut self, client: usize, change: impl Fn(&mut NetworkConditions, &mut Rng)) {
        let span = self.rng.span(Duration::from_millis(100), Duration::from_secs(6));
        for link in self.participants.links(client) {
            if !self.rng.chance(60) {
                continue;
            }
            let mut conditions = link.conditions();
            change(&mut conditions, &mut self.rng);
            link.set_conditions(conditions);
            self.participants
                .events
                .schedule(Instant::now() + span, move || link.set_conditions(NetworkConditions::HEALTHY));
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

    /// Drops the counter of a name on a minority of servers, while a majority keeps the highest
    /// number that any has.
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

    fn pause(&mut self, client: usize, is_suspended: bool) {
        let span = self.rng.span(Duration::from_millis(50), Duration::from_secs(6));
        self.participants.pause(client, span, is_suspended);
    }

    fn jump_client(&mut self, client: usize) {
        // Within the tolerance of 5 s between clients, so that fences survive memory loss.
        let micros = i64::try_from(self.rng.below(1_000_000)).unwrap() - 500_000;
        self.participants.clock(client).jump_wall(micros);
    }
}
