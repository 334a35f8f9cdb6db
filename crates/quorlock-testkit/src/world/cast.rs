//! Everybody in a world: servers, client machines, the network between them and the record.

use super::agenda::Agenda;
use super::history::History;
use super::link::{Ends, Link, TOLERANCE};
use super::plant::Plant;
use super::rng::{Rng, SimEntropy};
use super::server::{Origin, Server};
use super::time::{Epoch, MachineClock};
use super::{LONGEST_TTL, NODE_TIMEOUT, TTL, WAIT};
use quorlock::node::Node;
use quorlock::{Event, Locker, RestartGuard};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Everybody. Cheap to clone.
#[derive(Clone)]
pub(super) struct Cast {
    pub(super) servers: Arc<[Arc<Mutex<Server>>]>,
    pub(super) agenda: Agenda,
    pub(super) history: Arc<Mutex<History>>,
    pub(super) epoch: Epoch,
    plant: Option<Plant>,
    machines: Arc<[Mutex<Machine>]>,
}

/// A client's machine and the process on it.
struct Machine {
    clock: Arc<MachineClock>,
    links: Vec<Link>,
    locker: Locker,
    /// How often the process was started.
    lives: u64,
    still_until: Option<Instant>,
    rng: Rng,
}

impl Cast {
    pub(super) fn assemble(
        servers: usize,
        clients: usize,
        rng: &mut Rng,
        history: History,
        plant: Option<Plant>,
    ) -> Self {
        let epoch = Epoch::begin();
        let agenda = Agenda::default();
        // Clock rates within half of the drift factor of 1 %, wall clocks within 2 s of each other.
        let mut clock = |sleepy| {
            let drift = i64::try_from(rng.below(9_000)).unwrap() - 4_500;
            let wall = i64::try_from(rng.below(2_000_000)).unwrap() - 1_000_000;
            Arc::new(MachineClock::new(epoch, drift, wall, sleepy))
        };
        let servers: Vec<_> =
            (0..servers).map(|_| Arc::new(Mutex::new(Server::new(clock(false), plant)))).collect();
        let sleepy = plant == Some(Plant::SleepyClock);
        let clocks: Vec<_> = (0..clients).map(|_| clock(sleepy)).collect();
        let history = Arc::new(Mutex::new(history));
        let mut cast =
            Self { servers: servers.into(), agenda, history, epoch, plant, machines: Arc::from(Vec::new()) };
        let machines = clocks.into_iter().enumerate();
        let machines: Vec<_> =
            machines.map(|(client, clock)| Mutex::new(cast.machine(client, clock, rng.fork()))).collect();
        cast.machines = machines.into();
        cast
    }

    fn machine(&self, client: usize, clock: Arc<MachineClock>, mut rng: Rng) -> Machine {
        let (links, locker) = self.process(client, &clock, &mut rng);
        Machine { clock, links, locker, lives: 1, still_until: None, rng }
    }

    /// A new process on a client's machine: fresh connections, the shipped locker.
    fn process(&self, client: usize, clock: &Arc<MachineClock>, rng: &mut Rng) -> (Vec<Link>, Locker) {
        let link = |(node, server): (usize, &Arc<Mutex<Server>>)| {
            let quarantine = LONGEST_TTL + 2 * TOLERANCE;
            let id = format!("node{node}");
            let ends = Ends { id, client, server: server.clone(), clock: clock.clone(), quarantine };
            Link::new(ends, self.agenda.clone(), self.plant, rng.fork())
        };
        let links: Vec<Link> = self.servers.iter().enumerate().map(link).collect();
        let repeats = self.plant == Some(Plant::TokenReuse);
        let (history, epoch) = (self.history.clone(), self.epoch);
        let mut builder = Locker::builder()
            .ttl(TTL)
            .longest_ttl(LONGEST_TTL)
            .wait(WAIT)
            .node_timeout(NODE_TIMEOUT)
            .clock(clock.clone())
            .entropy(Arc::new(SimEntropy::new(rng.fork(), repeats)))
            .restart_guard(RestartGuard::Strict)
            .owner(format!("client{client}@sim"))
            .observe(move |event: &Event| observe(event, client, &history, epoch));
        for link in &links {
            builder = builder.node(Arc::new(link.clone()) as Arc<dyn Node>);
        }
        let builder = super::plant_in(builder, self.plant);
        (links, builder.build().expect("the world is configured well"))
    }

    pub(super) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    pub(super) fn tell(&self, what: &str) {
        self.history.lock().unwrap().tell(self.now(), what);
    }

    pub(super) fn clients(&self) -> usize {
        self.machines.len()
    }

    pub(super) fn links(&self, client: usize) -> Vec<Link> {
        self.machines[client].lock().unwrap().links.clone()
    }

    pub(super) fn clock(&self, client: usize) -> Arc<MachineClock> {
        self.machines[client].lock().unwrap().clock.clone()
    }

    /// The present process of a client: its locker, and which life it is.
    pub(super) fn life(&self, client: usize) -> (Locker, u64) {
        let machine = self.machines[client].lock().unwrap();
        (machine.locker.clone(), machine.lives)
    }

    /// Until when the client's machine stands still, if it does.
    pub(super) fn still_until(&self, client: usize) -> Option<Instant> {
        self.machines[client].lock().unwrap().still_until.filter(|until| *until > Instant::now())
    }

    /// Breaks all connections to a server.
    pub(super) fn cut_all(&self, node: usize) {
        for client in 0..self.clients() {
            self.links(client)[node].cut();
        }
    }

    /// Stops a client: nothing leaves or reaches it for a while.
    pub(super) fn freeze(&self, client: usize, span: Duration, asleep: bool) {
        if self.still_until(client).is_some() {
            return;
        }
        let until = Instant::now() + span;
        self.machines[client].lock().unwrap().still_until = Some(until);
        self.links(client).iter().for_each(|link| link.freeze(until));
        if asleep {
            let clock = self.clock(client);
            clock.fall_asleep();
            self.agenda.plan(until, move || clock.wake());
        }
    }

    /// Looks at what the servers store, as no client can: an extend never creates a lock (S6), and what was released
    /// does not stay where nothing is in the way (S8).
    pub(super) fn audit(&self) {
        let mut found = Vec::new();
        for (node, server) in self.servers.iter().enumerate() {
            let server = server.lock().unwrap();
            if !server.is_up || server.is_stopped {
                continue;
            }
            for (name, token, origin) in server.tokens() {
                match origin {
                    Origin::Other => found.push(format!("S6: an extend created {name} on server {node}")),
                    Origin::Vote(client, connection) => {
                        let link = self.links(client)[node].clone();
                        if link.should_be_gone(token, connection, server.calm_since) {
                            found.push(format!("S8: server {node} was not told that {name} is released"));
                        }
                    }
                    Origin::Echo => {}
                }
            }
        }
        let mut history = self.history.lock().unwrap();
        found.iter().for_each(|what| history.violate(self.now(), what));
    }

    /// Kills a client's process and starts it anew: nothing that it held is released.
    pub(super) fn crash(&self, client: usize) {
        self.history.lock().unwrap().crashed(client);
        let mut machine = self.machines[client].lock().unwrap();
        machine.links.iter().for_each(Link::kill);
        machine.lives += 1;
        let (clock, mut rng) = (machine.clock.clone(), machine.rng.fork());
        (machine.links, machine.locker) = self.process(client, &clock, &mut rng);
    }
}

/// Promises are checked whenever a lease moves.
fn observe(event: &Event, client: usize, history: &Mutex<History>, epoch: Epoch) {
    let mut history = history.lock().unwrap();
    match event {
        Event::Extended { .. } => history.check(epoch.elapsed()),
        Event::Lost { name, fence, loss, .. } => {
            history.losses += 1;
            history.tell(epoch.elapsed(), &format!("client {client} lost {name} ({fence}): {loss}"));
        }
        _ => {}
    }
}
