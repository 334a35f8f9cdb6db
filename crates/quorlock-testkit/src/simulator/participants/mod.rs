//! The participants of a world: servers, client machines, the paths between them, and the history.

pub(crate) mod handed_over;
mod server_checks;
pub(crate) mod settings;

use crate::rng::Rng;
use crate::simulator::entropy::SimEntropy;
use crate::simulator::event_queue::EventQueue;
use crate::simulator::history::History;
use crate::simulator::machine_clock::{MachineClock, WorldStart};
use crate::simulator::network::Path;
use crate::simulator::network::stream::{LogIn, SimConnector};
use crate::simulator::network::traffic::Traffic;
use crate::simulator::redis_server::{RedisServer, Version};
use crate::simulator::server::Host;
use crate::simulator::world_traits::WorldTraits;
use crate::simulator::{InjectedBug, Setting, inject_bug};
use handed_over::HandedOverLocks;
use quorlock::{Event, Locker, Name, NodeOutcome, RestartGuard};
use server_checks::observe;
use settings::Settings;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::Instant;

/// Servers that are started with the others and are in no list at first.
pub(crate) const SPARES: usize = 2;

/// Separates the choice of worlds with durable servers.
const DURABLE: u64 = 0x9b05_688c_2b3e_6c1f;
/// The servers that a world may have. The oldest is the only one whose scripts see another time.
const VERSIONS: [Version; 4] = [Version::Redis62, Version::Redis7, Version::Redis84, Version::Valkey9];

/// The numbers of the servers that a process knows as its nodes.
pub(crate) type NodeList = Arc<[usize]>;

/// All participants. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Participants {
    pub(crate) servers: Arc<[Host]>,
    pub(crate) events: EventQueue,
    pub(crate) traffic: Traffic,
    history: Arc<Mutex<History>>,
    pub(crate) handed_over: Arc<Mutex<HandedOverLocks>>,
    start: WorldStart,
    injected_bug: Option<InjectedBug>,
    /// Whether all servers sync every write, and clients know it.
    is_durable: bool,
    /// Whether clients have no restart guard.
    is_unguarded: bool,
    /// How clients log in to all servers.
    pub(crate) login: LogIn,
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
    /// Since when the client does not use a name, for those that it does not use.
    idle_since: BTreeMap<Name, Instant>,
}

/// A process of a client.
struct Process {
    /// By the number of the server.
    paths: BTreeMap<usize, Path>,
    locker: Locker,
    settings: Settings,
}

impl Participants {
    pub(crate) fn start(
        (setting, traits): (&Setting, WorldTraits),
        rng: &mut Rng,
        mut variety: Option<&mut Rng>,
        mut history: History,
    ) -> Self {
        let (start, injected_bug) = (WorldStart::now(), setting.injected_bug);
        let is_durable = Rng::new(setting.seed ^ DURABLE).chance(65);
        // Clock rates within half of the drift factor of 1 %, wall clocks within 2 s of each other.
        let clock = |rng: &mut Rng, stops_in_sleep| {
            let drift = i64::try_from(rng.below(9_000)).unwrap() - 4_500;
            let wall = i64::try_from(rng.below(2_000_000)).unwrap() - 1_000_000;
            Arc::new(MachineClock::new(start, drift, wall, stops_in_sleep))
        };
        let server = |rng: &mut Rng| {
            let (version, clock) = (*rng.pick(&VERSIONS), clock(rng, false));
            let mut redis = RedisServer::new(version, clock.clone(), rng.draw());
            redis.set_password(traits.login.password());
            if is_durable {
                redis.set_config("appendonly", "yes");
                redis.set_config("appendfsync", "always");
            }
            if let Some((from, to)) = injected_bug.and_then(InjectedBug::in_scripts) {
                redis.replace_in_scripts(from, to);
            }
            Host::new(redis, clock)
        };
        let mut servers: Vec<_> = (0..setting.nodes).map(|_| server(rng)).collect();
        if let Some(rng) = variety.as_mut() {
            servers.extend((0..SPARES).map(|_| server(rng)));
        }
        let stops_in_sleep = injected_bug == Some(InjectedBug::SleepyClock);
        let clocks: Vec<_> = (0..setting.clients).map(|_| clock(rng, stops_in_sleep)).collect();
        history.recorder.set_clocks(clocks.clone());
        let history = Arc::new(Mutex::new(history));
        let mut participants = Self {
            servers: servers.into(),
            events: EventQueue::default(),
            traffic: Traffic::new(setting.shows_bytes.then(|| (history.clone(), start))),
            history,
            handed_over: Arc::default(),
            start,
            injected_bug,
            is_durable,
            is_unguarded: traits.is_unguarded,
            login: traits.login,
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
        let process = self.process((client, 1), &clock, &mut rng, variety.as_mut(), &list);
        let idle_since = BTreeMap::new();
        Machine { clock, process, list, incarnation: 1, paused_until: None, rng, variety, idle_since }
    }

    /// A new process on a client's machine, with its incarnation: fresh connections, the shipped locker.
    fn process(
        &self,
        (client, incarnation): (usize, u64),
        clock: &Arc<MachineClock>,
        rng: &mut Rng,
        variety: Option<&mut Rng>,
        list: &NodeList,
    ) -> Process {
        // So that a reader's entry says which process made it.
        let process_id = if variety.is_some() { u32::try_from(incarnation).unwrap() } else { 1 };
        let mut settings = variety.map_or(Settings::PLAIN, Settings::draw);
        // An extension would hide that the deadline was too late.
        settings.watchdog &= self.injected_bug != Some(InjectedBug::LateDeadline);
        let path = |node: &usize| {
            let host = self.servers[*node].clone();
            let world = (&self.events, &self.traffic);
            (*node, Path::new((client, incarnation), (*node, host), world, rng.fork()))
        };
        let paths: BTreeMap<usize, Path> = list.iter().map(path).collect();
        let repeats = self.injected_bug == Some(InjectedBug::TokenReuse);
        let is_guarded = self.injected_bug != Some(InjectedBug::NoRestartGuard) && !self.is_unguarded;
        let (history, start, seen) = (self.history.clone(), self.start, paths.clone());
        let builder = settings
            .apply(Locker::builder())
            .clock(clock.clone())
            .entropy(Arc::new(SimEntropy::new(rng.fork(), repeats)))
            .durable(self.is_durable)
            .restart_guard(if is_guarded { RestartGuard::Strict } else { RestartGuard::Off })
            .owner(format!("client{client}@sim"))
            .process_id(process_id)
            .observer(move |event: &Event| observe(event, (client, &seen), &history, start))
            .connector(Arc::new(SimConnector { paths: paths.clone() }))
            .nodes(list.iter().map(|node| self.login.url(*node)));
        let builder = inject_bug(builder, self.injected_bug);
        Process { paths, locker: builder.build().expect("the world is configured well"), settings }
    }

    /// Declares all servers fresh, as an operator does who has just set them up.
    pub(crate) async fn init_nodes(&self) {
        let (locker, _) = self.current_process(0);
        for report in locker.init_fresh_nodes().await {
            assert!(matches!(report.outcome, NodeOutcome::Yes), "{report}");
        }
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

    /// Whether all servers sync every write, and clients know it.
    pub(crate) fn is_durable(&self) -> bool {
        self.is_durable
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

    pub(crate) fn paths(&self, client: usize) -> Vec<Path> {
        self.machines[client].lock().unwrap().process.paths.values().cloned().collect()
    }

    /// The path of a client to a server, if that is one of its nodes.
    pub(crate) fn path(&self, client: usize, node: usize) -> Option<Path> {
        self.machines[client].lock().unwrap().process.paths.get(&node).cloned()
    }

    /// Records that a client begins to use a name, or stops.
    pub(crate) fn set_in_use(&self, client: usize, name: &Name, is_used: bool) {
        let idle_since = &mut self.machines[client].lock().unwrap().idle_since;
        match is_used {
            true => idle_since.remove(name),
            false => idle_since.insert(name.clone(), Instant::now()),
        };
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

    /// Pauses a client for `span`: no message leaves or reaches it.
    pub(crate) fn pause(&self, client: usize, span: Duration, is_suspended: bool) {
        if self.paused_until(client).is_some() {
            return;
        }
        let until = Instant::now() + span;
        self.machines[client].lock().unwrap().paused_until = Some(until);
        self.paths(client).iter().for_each(|path| path.pause(until));
        if is_suspended {
            let clock = self.clock(client);
            clock.suspend();
            self.events.schedule(until, move || clock.resume());
        }
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
        machine.process.paths.values().for_each(Path::kill);
        machine.incarnation += 1;
        let mut rng = machine.rng.fork();
        machine.idle_since.clear();
        let who = (client, machine.incarnation);
        machine.process =
            self.process(who, &machine.clock, &mut rng, machine.variety.as_mut(), &machine.list);
    }
}
