//! The participants of a world: servers, client machines, the links between them, and the history.

pub(crate) mod handed_over;
pub(crate) mod settings;

use crate::rng::Rng;
use crate::simulator::entropy::SimEntropy;
use crate::simulator::event_queue::EventQueue;
use crate::simulator::history::History;
use crate::simulator::machine_clock::{MachineClock, WorldStart};
use crate::simulator::network::{CLOCK_TOLERANCE, Endpoints, Link};
use crate::simulator::server::{Origin, Server};
use crate::simulator::{InjectedBug, Setting, inject_bug};
use handed_over::HandedOverLocks;
use quorlock::node::Node;
use quorlock::{Event, Locker, RestartGuard};
use settings::Settings;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// Servers that are started with the others and are in no list at first.
pub(crate) const SPARES: usize = 2;

/// The numbers of the servers that a process knows as its nodes.
pub(crate) type NodeList = Arc<[usize]>;

/// All participants. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Participants {
    pub(crate) servers: Arc<[Arc<Mutex<Server>>]>,
    pub(crate) events: EventQueue,
    history: Arc<Mutex<History>>,
    pub(crate) handed_over: Arc<Mutex<HandedOverLocks>>,
    start: WorldStart,
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
        let (start, injected_bug) = (WorldStart::now(), setting.injected_bug);
        // Clock rates within half of the drift factor of 1 %, wall clocks within 2 s of each other.
        let clock = |rng: &mut Rng, stops_in_sleep| {
            let drift = i64::try_from(rng.below(9_000)).unwrap() - 4_500;
            let wall = i64::try_from(rng.below(2_000_000)).unwrap() - 1_000_000;
            Arc::new(MachineClock::new(start, drift, wall, stops_in_sleep))
        };
        let server = |rng: &mut Rng| Arc::new(Mutex::new(Server::new(clock(rng, false), injected_bug)));
        let mut servers: Vec<_> = (0..setting.nodes).map(|_| server(rng)).collect();
        if let Some(rng) = variety.as_mut() {
            servers.extend((0..SPARES).map(|_| server(rng)));
        }
        let stops_in_sleep = injected_bug == Some(InjectedBug::SleepyClock);
        let clocks: Vec<_> = (0..setting.clients).map(|_| clock(rng, stops_in_sleep)).collect();
        let mut participants = Self {
            servers: servers.into(),
            events: EventQueue::default(),
            history: Arc::new(Mutex::new(history)),
            handed_over: Arc::default(),
            start,
            injected_bug,
            initial_list: (0..setting.nodes).collect(),
            machines: Arc::from(Vec::new()),
        };
        let machines = clocks.into_iter().enumerate();
        let machines: Vec<_> = machines
            .map(|(client, clock)| {
                Mutex::new(participants.machine(
                    client,
                    clock,
                    rng.fork(),
                    variety.as_mut().map(|rng| rng.fork()),
                ))
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
        let quarantine = settings.longest_ttl + 2 * CLOCK_TOLERANCE;
        let link = |node: &usize| {
            let (id, server) = (format!("node{node}"), self.servers[*node].clone());
            let endpoints = Endpoints { id, client, server, clock: clock.clone(), quarantine };
            (*node, Link::new(endpoints, self.events.clone(), self.injected_bug, rng.fork()))
        };
        let links: BTreeMap<usize, Link> = list.iter().map(link).collect();
        let repeats = self.injected_bug == Some(InjectedBug::TokenReuse);
        let (history, start) = (self.history.clone(), self.start);
        let mut builder = settings
            .apply(Locker::builder())
            .clock(clock.clone())
            .entropy(Arc::new(SimEntropy::new(rng.fork(), repeats)))
            .restart_guard(RestartGuard::Strict)
            .owner(format!("client{client}@sim"))
            .observer(move |event: &Event| observe(event, client, &history, start));
        for link in links.values() {
            builder = builder.node(Arc::new(link.clone()) as Arc<dyn Node>);
        }
        let builder = inject_bug(builder, self.injected_bug);
        Process { links, locker: builder.build().expect("the world is configured well"), settings }
    }

    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap()
    }

    pub(crate) fn record(&self, what: &str) {
        self.history().record(self.now(), what);
    }

    pub(crate) fn clients(&self) -> usize {
        self.machines.len()
    }

    pub(crate) fn injected_bug(&self) -> Option<InjectedBug> {
        self.injected_bug
    }

    /// The nodes of all clients when the world starts.
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

    /// The current process of a client: its locker, and its incarnation.
    pub(crate) fn current_process(&self, client: usize) -> (Locker, u64) {
        let machine = self.machines[client].lock().unwrap();
        (machine.process.locker.clone(), machine.incarnation)
    }

    /// How the current process of a client is configured.
    pub(crate) fn settings(&self, client: usize) -> Settings {
        self.machines[client].lock().unwrap().process.settings
    }

    /// Until when the client's machine is paused, if it is.
    pub(crate) fn paused_until(&self, client: usize) -> Option<Instant> {
        self.machines[client].lock().unwrap().paused_until.filter(|until| *until > Instant::now())
    }

    /// Breaks all connections to a server.
    pub(crate) fn cut_all(&self, node: usize) {
        for client in 0..self.clients() {
            self.link(client, node).iter().for_each(Link::cut);
        }
    }

    /// Pauses a client for `span`: no message leaves or reaches it.
    pub(crate) fn pause(&self, client: usize, span: Duration, is_suspended: bool) {
        if self.paused_until(client).is_some() {
            return;
        }
        let until = Instant::now() + span;
        self.machines[client].lock().unwrap().paused_until = Some(until);
        self.links(client).iter().for_each(|link| link.pause(until));
        if is_suspended {
            let clock = self.clock(client);
            clock.suspend();
            self.events.schedule(until, move || clock.resume());
        }
    }

    /// Checks what the servers store, which no client can see: an extend never creates a lock (S6),
    /// and a released lock does not stay on a server that could be reached (S8).
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
                        let since = server.undisturbed_since;
                        if link.is_some_and(|link| link.should_be_gone(token, connection, since)) {
                            found.push(format!("S8: server {node} did not get the release of {name}"));
                        }
                    }
                    Origin::Duplicate => {}
                }
            }
        }
        let mut history = self.history();
        found.iter().for_each(|what| history.violate(self.now(), what));
    }

    /// Restarts a client with other nodes.
    pub(crate) fn set_node_list(&self, client: usize, list: NodeList) {
        self.machines[client].lock().unwrap().list = list;
        self.crash(client);
    }

    /// Kills a client's process and starts another: what it held is not released.
    pub(crate) fn crash(&self, client: usize) {
        self.history().crashed(client);
        let mut guard = self.machines[client].lock().unwrap();
        let machine = &mut *guard;
        machine.process.links.values().for_each(Link::kill);
        machine.incarnation += 1;
        let mut rng = machine.rng.fork();
        machine.process =
            self.process(client, &machine.clock, &mut rng, machine.variety.as_mut(), &machine.list);
    }
}

/// Checks the promises whenever a deadline moves.
fn observe(event: &Event, client: usize, history: &Mutex<History>, start: WorldStart) {
    let mut history = history.lock().unwrap();
    match event {
        Event::Extended { .. } => history.check(start.elapsed()),
        Event::Lost { name, fence, reason, .. } => {
            history.losses += 1;
            history.record(start.elapsed(), &format!("client {client} lost {name} ({fence}): {reason}"));
        }
        _ => {}
    }
}
