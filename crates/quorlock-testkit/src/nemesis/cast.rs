//! Who takes part in a storm: servers, client processes, the proxies between them, and what the locks protect.

use super::fault::{Counts, Fault};
use super::gate::Gate;
use super::history::{History, Promise, Sleep};
use super::line::Line;
use super::process::Process;
use super::resource::{Ledger, Resource};
use super::script::Script;
use super::stopwatch::now;
use super::voter::Voter;
use super::{Setting, lockers};
use crate::world::Rng;
use quorlock::NodeOutcome;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// Everybody, cheap to clone. Ends only with [`Cast::dismiss`].
#[derive(Clone)]
pub(super) struct Cast(Arc<Members>);

struct Members {
    setting: Setting,
    voters: Vec<Voter>,
    actors: Vec<Actor>,
    resource: Resource,
    history: Mutex<History>,
    faults: Mutex<Counts>,
}

/// One client after another in the same place.
struct Actor {
    gates: Vec<Arc<Gate>>,
    process: Mutex<Option<Process>>,
    /// What shall befall it as soon as it has a lock.
    awaited: Mutex<Option<(Fault, Duration)>>,
}

/// From the news of a grant to the trouble: time to read, so that the trouble comes before the write.
const READING: Duration = Duration::from_millis(1);

impl Cast {
    /// Starts servers and clients.
    pub(super) async fn assemble(setting: &Setting, rng: &mut Rng) -> Self {
        let voters: Vec<_> = (0..setting.nodes).map(|number| Voter::start(setting.binary, number)).collect();
        // The real addresses, and an honest client.
        let urls = voters.iter().map(|voter| voter.url(voter.port)).collect();
        let locker = lockers(urls, None).build().expect("a good configuration");
        for report in locker.init_fresh_nodes().await {
            assert!(matches!(report.outcome, NodeOutcome::Yes), "{report}");
        }
        let mut actors = Vec::new();
        for _ in 0..setting.clients {
            let mut gates = Vec::new();
            for voter in &voters {
                gates.push(Gate::open(voter.port).await);
            }
            actors.push(Actor { gates, process: Mutex::default(), awaited: Mutex::default() });
        }
        let cast = Self(Arc::new(Members {
            setting: setting.clone(),
            voters,
            actors,
            resource: Resource::start(setting.binary),
            history: Mutex::new(History::new(setting.clients)),
            faults: Mutex::default(),
        }));
        for client in 0..setting.clients {
            *cast.process(client) = Some(cast.be_born(client, 0, rng.fork()));
        }
        cast
    }

    pub(super) fn voters(&self) -> &[Voter] {
        &self.0.voters
    }

    pub(super) fn clients(&self) -> usize {
        self.0.actors.len()
    }

    pub(super) fn gates(&self, client: usize) -> &[Arc<Gate>] {
        &self.0.actors[client].gates
    }

    pub(super) fn history(&self) -> MutexGuard<'_, History> {
        self.0.history.lock().unwrap()
    }

    pub(super) fn count(&self, fault: Fault) {
        *self.0.faults.lock().unwrap().entry(fault).or_default() += 1;
    }

    pub(super) fn faults(&self) -> Counts {
        self.0.faults.lock().unwrap().clone()
    }

    /// Strikes a client as soon as it has a lock. What it awaited before does not come.
    pub(super) fn await_lock(&self, client: usize, fault: Fault, span: Duration) {
        *self.0.actors[client].awaited.lock().unwrap() = Some((fault, span));
    }

    /// Sets a client's wall clock.
    pub(super) fn set_clock(&self, client: usize, ahead_ms: i64) {
        if let Some(process) = self.process(client).as_mut() {
            process.set_wall(ahead_ms);
        }
    }

    /// Kills a client, whatever it holds, and starts another in its place. What it had sent may still arrive.
    pub(super) fn crash(&self, client: usize, rng: Rng) {
        let mut process = self.process(client);
        let life = process.as_ref().map_or(0, |process| process.life);
        let at = now();
        // Dead and heard to the end, before its last hold is closed.
        *process = None;
        self.history().tell(format!("client {client} was killed"));
        self.history().end(client, at);
        *process = Some(self.be_born(client, life + 1, rng));
    }

    /// Tells all clients that the storm is over.
    pub(super) fn quieten(&self) {
        self.history().tell("the storm is over".to_owned());
        for client in 0..self.clients() {
            self.process(client).as_mut().expect("born").quieten();
        }
    }

    /// Ends everything and gives what is known. Clients that ended by themselves break a promise.
    pub(super) fn dismiss(&self) -> (History, Ledger) {
        for client in 0..self.clients() {
            let has_ended = self.process(client).as_mut().expect("born").has_ended();
            *self.process(client) = None;
            if has_ended {
                let what = format!("client {client} ended by itself");
                self.history().violate(Promise::Recovery, now(), what);
            }
        }
        let mut history = self.history().clone();
        history.judge();
        let ledger = self.0.resource.close();
        for what in &ledger.fenced_losses {
            history.violate(Promise::NoFencedLoss, now(), what.clone());
        }
        (history, ledger)
    }

    fn process(&self, client: usize) -> MutexGuard<'_, Option<Process>> {
        self.0.actors[client].process.lock().unwrap()
    }

    fn be_born(&self, client: usize, life: u64, mut rng: Rng) -> Process {
        let gates = self.gates(client).iter().zip(self.voters());
        let script = Script {
            id: format!("{client}.{life}"),
            seed: rng.draw(),
            resource: self.0.resource.socket(),
            plant: self.0.setting.plant,
            urls: gates.map(|(gate, voter)| voter.url(gate.proxy.port())).collect(),
        };
        let cast = self.clone();
        Process::start(&self.0.setting.program, &script, life, move |line| {
            let is_grant = matches!(line, Line::Granted { .. } | Line::Adopted { .. });
            if let Line::GivenAway { handle } = &line {
                cast.deliver(client, handle.clone());
            }
            cast.history().hear(client, line);
            if is_grant {
                cast.strike_holder(client, life);
            }
        })
    }

    /// Gives a lock that a client gave away to the next one, on a thread of its own.
    fn deliver(&self, from: usize, handle: String) {
        let cast = self.clone();
        thread::spawn(move || {
            let to = (from + 1) % cast.clients();
            if let Some(process) = cast.process(to).as_mut() {
                process.give(&handle);
            }
        });
    }

    /// Lets happen what awaits this client, on a thread of its own: whoever listens to a client must never wait for it.
    fn strike_holder(&self, client: usize, life: u64) {
        let Some((fault, span)) = self.0.actors[client].awaited.lock().unwrap().take() else { return };
        let cast = self.clone();
        thread::spawn(move || {
            thread::sleep(READING);
            if fault == Fault::ClientSuspend {
                return cast.suspend(client, span);
            }
            let freeze = |process: &Process| process.freeze();
            if cast.with_life(client, life, freeze) {
                cast.count(fault);
                cast.history().tell(format!("client {client} stands still for {span:?}"));
                thread::sleep(span);
                cast.with_life(client, life, Process::thaw);
            }
        });
    }

    /// The client's machine sleeps. For the true time it takes a moment only.
    fn suspend(&self, client: usize, by: Duration) {
        let process = self.process(client);
        let Some(process) = process.as_ref() else { return };
        process.freeze();
        let sleep = Sleep { client, at: now(), by };
        process.sleep(by);
        process.thaw();
        let mut history = self.history();
        history.sleeps.push(sleep);
        history.tell(format!("the machine of client {client} slept for {by:?}"));
        drop(history);
        self.count(Fault::ClientSuspend);
    }

    /// Does something to a client unless it died meanwhile.
    fn with_life(&self, client: usize, life: u64, deed: impl FnOnce(&Process)) -> bool {
        let process = self.process(client);
        let alive = process.as_ref().filter(|process| process.life == life);
        alive.map(deed).is_some()
    }
}
