//! Everybody in a world: servers, client machines, the network between them and the record.

use super::Setting;
use super::events::EventQueue;
use super::history::History;
use super::link::{Endpoints, Link, TOLERANCE};
use super::node_list::{NodeList, SPARES};
use super::handed_over::HandedOverLocks;
use super::bug::InjectedBug;
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
pub(crate) struct Participants {
    pub(crate) servers: Arc<[Arc<Mutex<Server>>]>,
    pub(crate) events: EventQueue,
    pub(crate) history: Arc<Mutex<History>>,
    pub(crate) handed_over: Arc<Mutex<HandedOverLocks>>,
    pub(crate) epoch: Epoch,
    injected_bug: Option<InjectedBug>,
    initial_list: NodeList,
    machines: Arc<[Mutex<Machine>]>,
}

/// A client's machine and the process on it.
struct Machine {
    clock: Arc<MachineClock>,
    process: Process,
    /// The nodes of the next process.
    list: NodeList,
    /// How often the process was started.
    incarnation: u64,
    paused_until: Option<Instant>,
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

impl Participants {
    pub(crate) fn start(
        setting: &Setting,
        rng: &mut Rng,
        mut variety: Option<&mut Rng>,
        history: History,
    ) -> Self {
        let (epoch, bug) = (Epoch::begin(), setting.injected_bug);
        // Clock rates within half of the drift factor of 1 %, wall clocks within 2 s of each other.
        let clock = |rng: &mut Rng, stops_in_sleep| {
            let drift = i64::try_from(rng.below(9_000)).unwrap() - 4_500;
            let wall = i64::try_from(rng.below(2_000_000)).unwrap() - 1_000_000;
            Arc::new(MachineClock::new(epoch, drift, wall, stops_in_sleep))
        };
        let server = |rng: &mut Rng| Arc::new(Mutex::new(Server::new(clock(rng, false), bug)));
        let mut servers: Vec<_> = (0..setting.nodes).map(|_| server(rng)).collect();
        if let Some(rng) = variety.as_mut() {
            servers.extend((0..SPARES).map(|_| server(rng)));
        }
        let stops_in_sleep = bug == Some(InjectedBug::SleepyClock);
        let clocks: Vec<_> = (0..setting.clients).map(|_| clock(rng, stops_in_sleep)).collect();
        let mut participants = Self {
            servers: servers.into(),
            events: EventQueue::default(),
            history: Arc::new(Mutex::new(history)),
            handed_over: Arc::default(),
            epoch,
            bug,
            initial_list: (0..setting.nodes).collect(),
            machines: Arc::from(Vec::new()),
        };
        let machines = clocks.into_iter().enumerate();
        let machines: Vec<_> = machines
            .map(|(client, clock)| {
                Mutex::new(participants.machine(client, clock, rng.fork(), variety.as_mut().map(|rng| rng.fork())))
            })
            .collect();
        participants.machines = machines.into();
        participants
    }

    fn machine(
        &self,
        client: usize,
        clock: Arc<MachineClock>,
        mut rng: Rng,
        mut variety: Option<Rng>,
    ) -> Machine {
        let list = self.initial_list.clone();
        let process = self.process(client, &clock, &mut rng, variety.as_mut(), &list);
        Machine { clock, process, list, incarnation: 1, paused_until: None, rng, variety }
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
        let settings = variety.map_or(Settings::PLAIN, Settings::draw);
        let quarantine = settings.longest_ttl + 2 * TOLERANCE;
        let link = |node: &usize| {
            let (id, server) = (format!("node{node}"), self.servers[*node].clone());
            let endpoints = Endpoints { id, client, server, clock: clock.clone(), quarantine };
            (*node, Link::new(endpoints, self.events.clone(), self.injected_bug, rng.fork()))
        };
        let links: BTreeMap<usize, Link> = list.iter().map(link).collect();
        let repeats = self.injected_bug == Some(InjectedBug::TokenReuse);
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
        let builder = crate::simulator::inject_bug(builder, self.injected_bug);
        Process { links, locker: builder.build().expect("the world is configured well"), settings }
    }

    pub(crate) fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    pub(crate) fn record(&self, what: &str) {
        self.history.lock().unwrap().record(self.now(), what);
    }

    pub(crate) fn clients(&self) -> usize {
        self.machines.len()
    }

    pub(crate) fn bug(&self) -> Option<InjectedBug> {
        self.injected_bug
    }

    /// The nodes of all clients when the world begins.
    pub(crate) fn initial_list(&self) -> NodeList {
        self.initial_list.clone()
    }

    /// The nodes of a client.
    pub(crate) fn list(&self, client: usize) -> NodeList {
        self.machines[client].lock().unwrap().list.clone()
    }

    pub(crate) fn links(&self, client: usize) -> Vec<Link> {
        self.machines[client].lock().unwrap().process.links.values().cloned().collect()
    }

    /// The link of a client to a server, if that is one of its nodes.
    pub(crate) fn link(&self, client: usize, node: usize) -> Option<Link> {
        self.machines[client].lock().unwrap().process.links.get(&node).cloned()
    }

    pub(crate) fn clock(&self, client: usize) -> Arc<MachineClock> {
        self.machines[client].lock().unwrap().clock.clone()
    }

    /// The present process of a client: its locker, and which incarnation it is.
    pub(crate) fn incarnation(&self, client: usize) -> (Locker, u64) {
        let machine = self.machines[client].lock().unwrap();
        (machine.process.locker.clone(), machine.incarnation)
    }

    /// How the present process of a client is configured.
    pub(crate) fn settings(&self, client: usize) -> Settings {
        self.machines[client].lock().unwrap().process.settings
    }

    /// Until when the client's machine stands still, if it does.
    pub(crate) fn paused_until(&self, client: usize) -> Option<Instant> {
        self.machines[client].lock().unwrap().paused_until.filter(|until| *until > Instant::now())
    }

    /// Breaks all connections to a server.
    pub(crate) fn cut_all(&self, node: usize) {
        for client in 0..self.clients() {
            self.link(client, node).iter().for_each(Link::cut);
        }
    }

    /// Stops a client: nothing leaves or reaches it for a while.
    pub(crate) fn pause(&self, client: usize, span: Duration, asleep: bool) {
        if self.paused_until(client).is_some() {
            return;
        }
        let until = Instant::now() + span;
        self.machines[client].lock().unwrap().paused_until = Some(until);
        self.links(client).iter().for_each(|link| link.pause(until));
        if asleep {
            let clock = self.clock(client);
            clock.suspend();
            self.events.schedule(until, move || clock.wake());
        }
    }

    /// Looks at what the servers store, as no client can: an extend never creates a lock (S6), and what was released
    /// does not stay where nothing is in the way (S8).
    pub(crate) fn check_servers(&self) {
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
                        let calm = server.undisturbed_since;
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
    pub(crate) fn set_node_list(&self, client: usize, list: NodeList) {
        self.machines[client].lock().unwrap().list = list;
        self.crash(client);
    }

    /// Kills a client's process and starts it anew: nothing that it held is released.
    pub(crate) fn crash(&self, client: usize) {
        self.history.lock().unwrap().crashed(client);
        let mut guard = self.machines[client].lock().unwrap();
        let machine = &mut *guard;
        machine.process.links.values().for_each(Link::kill);
        machine.incarnation += 1;
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
            history.record(epoch.elapsed(), &format!("client {client} lost {name} ({fence}): {reason}"));
        }
        _ => {}
    }
}
