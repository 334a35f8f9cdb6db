//! The fault schedule of a world: which fault comes when, and how it ends.

use crate::rng::Rng;
use crate::simulator::faults::Fault;
use crate::simulator::faults::node_list::shuffled;
use crate::simulator::history::WorldKind;
use crate::simulator::network::Path;
use crate::simulator::network::network_conditions::NetworkConditions;
use crate::simulator::participants::Participants;
use crate::simulator::redis_server::RedisServer;
use crate::simulator::server::Host;
use crate::simulator::{InjectedBug, Simulation};
use quorlock::{Clock, Name};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Within this, a client that is not disturbed has read the epoch of a server that restarted.
const SEEN_WITHIN: Duration = Duration::from_secs(4);
/// More than any quarantine.
const QUARANTINE_JUMP_MICROS: i64 = 30_000_000;

/// How often, and how many times after each fault, counters vanish if that is the bug to be found.
const CARELESS_INTERVAL: Duration = Duration::from_millis(100);
const CARELESS_LOSSES: u32 = 10;

/// Injects faults until `end`, one after another; some last at the same time.
pub(crate) async fn run(simulation: Simulation, mut rng: Rng, end: Instant) {
    let Simulation { participants, names, traits, .. } = simulation.clone();
    let kind = traits.kind;
    let injection =
        |fault, rng| Injection { participants: participants.clone(), names: names.clone(), fault, rng };
    while Instant::now() < end {
        sleep(rng.span(Duration::from_millis(50), Duration::from_millis(1_900))).await;
        participants.check_servers();
        let kinds = if traits.is_plain { &Fault::ALL[..Fault::PLAIN] } else { &Fault::ALL };
        let mut fault = *rng.pick(kinds);
        let provoking = participants.injected_bug().map_or(&[][..], InjectedBug::provoked_by);
        if !provoking.is_empty() && rng.chance(50) {
            fault = *rng.pick(provoking);
        }
        let is_wild = matches!(fault, Fault::ServerClockAhead | Fault::Evict | Fault::LoseCounter);
        if kind == WorldKind::Tame && is_wild {
            fault = Fault::Cut;
        }
        if traits.has_jumps && (fault.forgets() || fault == Fault::ClientCrash) {
            fault = Fault::JumpInQuarantine;
        } else if fault == Fault::JumpInQuarantine {
            fault = Fault::Amnesia;
        }
        // A durable server loses no writes.
        if participants.is_durable() && matches!(fault, Fault::LostTail | Fault::Failover) {
            fault = Fault::PowerLoss;
        }
        // Without a guard a server that forgot would vote at once.
        if traits.is_unguarded && fault.forgets() {
            fault = Fault::Cut;
        }
        // Fences survive wild worlds only while a majority keeps its counters.
        if kind == WorldKind::Wild && fault.forgets() {
            fault = Fault::Split;
        }
        if participants.injected_bug() == Some(InjectedBug::CounterLoss) && kind == WorldKind::Wild {
            // Between one grant and the next.
            for step in 0..CARELESS_LOSSES {
                let mut injection = injection(Fault::LoseCounter, rng.fork());
                let lose = move || {
                    injection.lose_counters();
                };
                participants.events.schedule(Instant::now() + step * CARELESS_INTERVAL, lose);
            }
        }
        let injection = injection(fault, rng.fork());
        if fault.forgets() {
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
            Fault::Delay => self.disturb_paths(client, |conditions, rng| {
                conditions.delay.1 = rng.span(Duration::from_millis(20), Duration::from_millis(400));
            }),
            Fault::Duplicate => self.disturb_paths(client, |conditions, _| conditions.duplicates = 30),
            Fault::Split => self.disturb_paths(client, |conditions, _| conditions.splits = 60),
            Fault::HalfReply => self.disturb_paths(client, |conditions, _| conditions.half_replies = 20),
            Fault::RepeatedReply => {
                let is_sought = self.participants.injected_bug() == Some(InjectedBug::RepeatedReply);
                let percent = if is_sought { 100 } else { 20 };
                self.disturb_paths(client, |conditions, _| conditions.repeats = percent);
            }
            Fault::FullSocket => self.disturb_paths(client, |conditions, _| conditions.is_full = true),
            Fault::Partition => self.disturb_paths(client, |conditions, _| {
                conditions.no_requests = true;
                conditions.no_replies = true;
            }),
            Fault::OneWay => self.disturb_paths(client, |conditions, _| conditions.no_replies = true),
            Fault::Cut => self.participants.path(client, node).iter().for_each(Path::cut),
            Fault::Crash | Fault::Amnesia | Fault::PowerLoss | Fault::LostTail | Fault::Failover => {
                self.crash(node);
            }
            Fault::JumpInQuarantine => self.jump_in_quarantine(node),
            Fault::Flush => self.change(node, RedisServer::flush_all),
            Fault::ScriptFlush => self.change(node, RedisServer::flush_scripts),
            Fault::Stop => self.stop(node),
            Fault::Loading => self.change_for_a_while(node, RedisServer::set_loading),
            Fault::Busy => self.change_for_a_while(node, RedisServer::set_busy),
            Fault::OutOfMemory => self.change_for_a_while(node, RedisServer::set_out_of_memory),
            Fault::ReadOnly => self.change_for_a_while(node, |redis, is_replica| match is_replica {
                true => redis.become_replica(),
                false => redis.become_primary(),
            }),
            Fault::NoPermission => self.revoke(node),
            Fault::ServerClockBack => self.jump_server(node, false),
            Fault::ServerClockAhead => self.jump_server(node, true),
            Fault::Evict => return self.evict(node),
            Fault::Pause => self.pause(client, false),
            Fault::Suspend => self.pause(client, true),
            Fault::ClientClock => self.jump_client(client),
            Fault::ClientCrash => self.participants.crash(client),
            Fault::LoseCounter => return self.lose_counters(),
        }
        true
    }

    /// Changes the network between a client and some servers, for a while.
    fn disturb_paths(&mut self, client: usize, change: impl Fn(&mut NetworkConditions, &mut Rng)) {
        let span = self.rng.span(Duration::from_millis(100), Duration::from_secs(6));
        for path in self.participants.paths(client) {
            if !self.rng.chance(60) {
                continue;
            }
            let mut conditions = path.conditions();
            change(&mut conditions, &mut self.rng);
            path.set_conditions(conditions);
            self.participants
                .events
                .schedule(Instant::now() + span, move || path.set_conditions(NetworkConditions::HEALTHY));
        }
    }

    fn host(&self, node: usize) -> &Host {
        &self.participants.servers[node]
    }

    fn change(&self, node: usize, change: impl FnOnce(&mut RedisServer)) {
        self.host(node).change(change);
    }

    /// Sets a state of a server, and ends it later.
    fn change_for_a_while(&mut self, node: usize, set: fn(&mut RedisServer, bool)) {
        let span = self.rng.span(Duration::from_millis(50), Duration::from_secs(4));
        let host = self.host(node).clone();
        host.begin_fault(|redis| set(redis, true));
        self.participants
            .events
            .schedule(Instant::now() + span, move || host.end_fault(|redis| set(redis, false)));
    }

    /// Takes the right to one command away, for a while.
    fn revoke(&mut self, node: usize) {
        let command = *self.rng.pick(&["set", "evalsha", "zadd", "getrange", "subscribe", "del", "info"]);
        let span = self.rng.span(Duration::from_millis(50), Duration::from_secs(4));
        let host = self.host(node).clone();
        host.begin_fault(|redis| redis.revoke_command(command));
        self.participants
            .events
            .schedule(Instant::now() + span, move || host.end_fault(RedisServer::grant_all));
    }

    fn crash(&mut self, node: usize) {
        let fault = self.fault;
        let span = self.rng.span(Duration::from_millis(10), Duration::from_secs(4));
        let lost = self.rng.span(Duration::ZERO, Duration::from_secs(2));
        self.host(node).go_down(fault != Fault::PowerLoss);
        let (host, clock) = (self.host(node).clone(), self.host(node).lock().clock.clone());
        self.participants.events.schedule(Instant::now() + span, move || {
            host.come_up(|redis| match fault {
                Fault::Amnesia => redis.restart_empty(),
                Fault::LostTail => redis.restart_without_writes_since(clock.now() - lost),
                Fault::Failover => redis.fail_over(lost),
                _ => redis.restart(),
            });
        });
    }

    fn jump_in_quarantine(&mut self, node: usize) {
        let host = self.host(node).clone();
        host.go_down(true);
        host.come_up(RedisServer::restart_empty);
        let participants = self.participants.clone();
        self.participants.events.schedule(Instant::now() + SEEN_WITHIN, move || {
            // A client that did not see it young could not know that it is.
            let all_saw_it = (0..participants.clients()).all(|client| {
                participants.path(client, node).is_some_and(|path| path.is_connected_for(SEEN_WITHIN / 2))
            });
            if all_saw_it {
                participants.record(&format!("the clock of server {node} jumps ahead"));
                host.lock().clock.jump_wall(QUARANTINE_JUMP_MICROS);
            }
        });
    }

    fn stop(&mut self, node: usize) {
        let span = self.rng.span(Duration::from_millis(20), Duration::from_secs(4));
        self.host(node).lock().is_stopped = true;
        let (host, mut rng) = (self.host(node).clone(), self.rng.fork());
        self.participants.events.schedule(Instant::now() + span, move || host.resume(&mut rng));
    }

    fn evict(&mut self, node: usize) -> bool {
        let number = self.rng.draw();
        self.host(node).lock().redis.evict(number).is_some()
    }

    /// Drops the counter of a name on a minority of servers, while a majority keeps the highest
    /// number that any has.
    fn lose_counters(&mut self) -> bool {
        let (list, name) = (self.participants.initial_list(), self.rng.pick(&self.names).clone());
        let database = self.participants.login.database();
        let counter = |node: usize| {
            self.participants.servers[node]
                .lock()
                .redis
                .fence_counter(database, name.as_str())
                .map(|counter| counter as u64)
        };
        let highest = list.iter().filter_map(|node| counter(*node)).max();
        let is_careless = self.participants.injected_bug() == Some(InjectedBug::CounterLoss);
        let knows = |node: usize| counter(node) == highest || is_careless;
        let mut lost = 0;
        for node in shuffled(&list, &mut self.rng) {
            let kept = list.iter().filter(|other| **other != node && knows(**other)).count();
            let minority = (list.len() - 1) / 2;
            if lost < minority && kept > list.len() / 2 {
                let key = format!("quorlock:fence:{{{name}}}");
                lost += usize::from(
                    self.participants.servers[node].lock().redis.drop_key(database, key.as_bytes()),
                );
            }
        }
        lost > 0
    }

    fn jump_server(&mut self, node: usize, ahead: bool) {
        let micros = i64::try_from(self.rng.below(if ahead { 4_000_000 } else { 500_000 })).unwrap();
        let server = self.participants.servers[node].lock();
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
