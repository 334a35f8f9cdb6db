//! Everybody in a world: servers, client machines, the network between them and the record.

use super::Setting;
use super::agenda::Agenda;
use super::history::History;
use super::link::{Ends, Link, TOLERANCE};
use super::node_list::{NodeList, SPARES};
use super::parcel::Parcels;
use super::plant::Plant;
use super::rng::{Rng, SimEntropy};
use super::server::{Origin, Server};
use super::settings::Settings;
use super::time::{Epoch, MachineClock};
use quorlock::node::Node;
use quorlock::{Event, Locker, RestartGuard};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Everybody. Cheap to clone.
#[derive(Clone)]
pub(super) struct Cast {
    pub(super) servers: Arc<[Arc<Mutex<Server>>]>,
    pub(super) agenda: Agenda,
    pub(super) history: Arc<Mutex<History>>,
    pub(super) parcels: Arc<Mutex<Parcels>>,
    pub(super) epoch: Epoch,
    plant: Option<Plant>,
    first_list: NodeList,
    machines: Arc<[Mutex<Machine>]>,
}

/// A client's machine and the process on it.
struct Machine {
    clock: Arc<MachineClock>,
    process: Process,
    /// The nodes of the next process.
    list: NodeList,
    /// How often the process was started.
    lives: u64,
    still_until: Option<Instant>,
    rng: Rng,
    /// Draws the settings of each process, unless the world is plain.
    variety: Option<Rng>,
}

/// A process of a client.
struct Process {
    /// By the number of the server.
    links: BTreeMap<usize, Link>,
    locker: Locker,
    settings: Settings,
}

impl Cast {
    pub(super) fn assemble(
        setting: &Setting,
        rng: &mut Rng,
        mut variety: Option<&mut Rng>,
        history: History,
    ) -> Self {
        let (epoch, plant) = (Epoch::begin(), setting.plant);
        // Clock rates within half of the drift factor of 1 %, wall clocks within 2 s of each other.
        let clock = |rng: &mut Rng, sleepy| {
            let drift = i64::try_from(rng.below(9_000)).unwrap() - 4_500;
            let wall = i64::try_from(rng.below(2_000_000)).unwrap() - 1_000_000;
            Arc::new(MachineClock::new(epoch, drift, wall, sleepy))
        };
        let server = |rng: &mut Rng| Arc::new(Mutex::new(Server::new(clock(rng, false), plant)));
        let mut servers: Vec<_> = (0..setting.nodes).map(|_| server(rng)).collect();
        if let Some(rng) = variety.as_mut() {
            servers.extend((0..SPARES).map(|_| server(rng)));
        }
        let sleepy = plant == Some(Plant::SleepyClock);
        let clocks: Vec<_> = (0..setting.clients).map(|_| clock(rng, sleepy)).collect();
        let mut cast = Self {
            servers: servers.into(),
            agenda: Agenda::default(),
            history: Arc::new(Mutex::new(history)),
            parcels: Arc::default(),
            epoch,
            plant,
            first_list: (0..setting.nodes).collect(),
            machines: Arc::from(Vec::new()),
        };
        let machines = clocks.into_iter().enumerate();
        let machines: Vec<_> = machines
            .map(|(client, clock)| {
                Mutex::new(cast.machine(client, clock, rng.fork(), variety.as_mut().map(|rng| rng.fork())))
            })
            .collect();
        cast.machines = machines.into();
        cast
    }

    fn machine(
        &self,
        client: usize,
        clock: Arc<MachineClock>,
        mut rng: Rng,
        mut variety: Option<Rng>,
    ) -> Machine {
        let list = self.first_list.clone();
        let process = self.process(client, &clock, &mut rng, variety.as_mut(), &list);
        Machine { clock, process, list, lives: 1, still_until: None, rng, variety }
    }

    /// A new process on a client's machine: fresh connections, the shipped locker.
    fn process(
        &self,
        client: usize,
        clock: &Arc<MachineClock>,
        rng: &mut Rng,
        variety: Option<&mut Rng>,
        list: &NodeList,
    ) -> Process {
        let settings = variety.map_or(Settings::PLAIN, Settings::drawn);
        let quarantine = settings.longest_ttl + 2 * TOLERANCE;
        let link = |node: &usize| {
            let (id, server) = (format!("node{node}"), self.servers[*node].clone());
            let ends = Ends { id, client, server, clock: clock.clone(), quarantine };
            (*node, Link::new(ends, self.agenda.clone(), self.plant, rng.fork()))
        };
        let links: BTreeMap<usize, Link> = list.iter().map(link).collect();
        let repeats = self.plant == Some(Plant::TokenReuse);
        let (history, epoch) = (self.history.clone(), self.epoch);
        let mut builder = settings
            .apply(Locker::builder())
            .clock(clock.clone())
            .entropy(Arc::new(SimEntropy::new(rng.fork(), repeats)))
            .restart_guard(RestartGuard::Strict)
            .owner(format!("client{client}@sim"))
            .observer(move |event: &Event| observe(event, client, &history, epoch));
        for link in links.values() {
            builder = builder.node(Arc::new(link.clone()) as Arc<dyn Node>);
        }
        let builder = super::plant_in(builder, self.plant);
        Process { links, locker: builder.build().expect("the world is configured well"), settings }
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

    pub(super) fn plant(&self) -> Option<Plant> {
        self.plant
    }

    /// The nodes of all clients when the world begins.
    pub(super) fn first_list(&self) -> NodeList {
        self.first_list.clone()
    }

    /// The nodes of a client.
    pub(super) fn list(&self, client: usize) -> NodeList {
        self.machines[client].lock().unwrap().list.clone()
    }

    pub(super) fn links(&self, client: usize) -> Vec<Link> {
        self.machines[client].lock().unwrap().process.links.values().cloned().collect()
    }

    /// The link of a client to a server, if that is one of its nodes.
    pub(super) fn link(&self, client: usize, node: usize) -> Option<Link> {
        self.machines[client].lock().unwrap().process.links.get(&node).cloned()
    }

    pub(super) fn clock(&self, client: usize) -> Arc<MachineClock> {
        self.machines[client].lock().unwrap().clock.clone()
    }

    /// The present process of a client: its locker, and which life it is.
    pub(super) fn life(&self, client: usize) -> (Locker, u64) {
        let machine = self.machines[client].lock().unwrap();
        (machine.process.locker.clone(), machine.lives)
    }

    /// How the present process of a client is configured.
    pub(super) fn settings(&self, client: usize) -> Settings {
        self.machines[client].lock().unwrap().process.settings
    }

    /// Until when the client's machine stands still, if it does.
    pub(super) fn still_until(&self, client: usize) -> Option<Instant> {
        self.machines[client].lock().unwrap().still_until.filter(|until| *until > Instant::now())
    }

    /// Breaks all connections to a server.
    pub(super) fn cut_all(&self, node: usize) {
        for client in 0..self.clients() {
            self.link(client, node).iter().for_each(Link::cut);
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
                        let link = self.link(client, node);
                        let calm = server.calm_since;
                        if link.is_some_and(|link| link.should_be_gone(token, connection, calm)) {
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

    /// Restarts a client with other nodes.
    pub(super) fn give_list(&self, client: usize, list: NodeList) {
        self.machines[client].lock().unwrap().list = list;
        self.crash(client);
    }

    /// Kills a client's process and starts it anew: nothing that it held is released.
    pub(super) fn crash(&self, client: usize) {
        self.history.lock().unwrap().crashed(client);
        let mut guard = self.machines[client].lock().unwrap();
        let machine = &mut *guard;
        machine.process.links.values().for_each(Link::kill);
        machine.lives += 1;
        let mut rng = machine.rng.fork();
        machine.process =
            self.process(client, &machine.clock, &mut rng, machine.variety.as_mut(), &machine.list);
    }
}

/// Promises are checked whenever a lease moves.
fn observe(event: &Event, client: usize, history: &Mutex<History>, epoch: Epoch) {
    let mut history = history.lock().unwrap();
    match event {
        Event::Extended { .. } => history.check(epoch.elapsed()),
        Event::Lost { name, fence, reason, .. } => {
            history.losses += 1;
            history.tell(epoch.elapsed(), &format!("client {client} lost {name} ({fence}): {reason}"));
        }
        _ => {}
    }
}
