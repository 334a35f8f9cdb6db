//! The shipped lock on simulated machines, with faults, on one seeded schedule.
//!
//! Everything runs on one thread with paused time, so a seed repeats a run exactly. The lock,
//! guard, watchdog, waiting and retry code is the shipped one, and so is the link to a server, with
//! its scripts. Servers, byte streams and clocks are simulated. One run is called a world.
//!
//! # Layout
//! | module | job |
//! |---|---|
//! | `event_queue`, `machine_clock`, `entropy` | time and randomness of the simulated machines |
//! | [`redis_server`] | a Redis or Valkey server in memory |
//! | `server`, `network` | the machines of servers, and the byte streams to them |
//! | `history` | what happened, and the checker of the promises |
//! | `participants` | all of them together: servers, client machines, paths and the history |
//! | `clients` | what clients do with locks |
//! | `world_traits` | what is special about a world |
//! | `faults` | the kinds of faults, their schedule, and changes of the node list |

mod clients;
mod entropy;
mod event_queue;
mod faults;
mod history;
mod injected_bug;
mod machine_clock;
mod network;
mod participants;
pub mod redis_server;
mod server;
mod world_traits;

pub use faults::{Counts, Fault};
pub use history::{History, Uses, WorldKind};
pub use injected_bug::InjectedBug;
pub(crate) use injected_bug::inject_bug;

use crate::rng::Rng;
use clients::Client;
use clients::handoff::HandOff;
use clients::wanted::Wanted;
use faults::{fault_schedule, node_list};
use history::listed;
use participants::Participants;
use quorlock::Name;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use world_traits::WorldTraits;

const TTL: Duration = Duration::from_secs(2);
/// The longest that any client uses; the `longest_ttl` of every client covers it.
const LONGEST_USED_TTL: Duration = Duration::from_secs(3);
/// The longest `longest_ttl` of any client.
const LONGEST_TTL: Duration = Duration::from_secs(6);
/// Clock tolerance between machines, as the library has it.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);
/// How far the rates of two clocks may differ.
const DRIFT_PERCENT: u32 = 1;
const WAIT: Duration = Duration::from_secs(4);
const NODE_TIMEOUT: Duration = Duration::from_millis(150);
/// After the last fault every client must get every lock within this: quarantine, ttl, and a wait
/// or two.
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);
/// After the last fault every link is connected again within this.
const SETTLED_AFTER: Duration = Duration::from_secs(10);
/// How often a lock is handed from client to client at the end.
const HAND_OFFS: usize = 8;
/// How long that may take: the hint, and the attempt after it. A waiter that gets no hint polls later.
const HAND_OFF_LIMIT: Duration = Duration::from_millis(60);
/// How many slots the semaphore has.
const SLOTS: u32 = 2;
/// Separates the stream of the less common behaviour from that of the rest.
const VARIETY: u64 = 0x6c62_272e_07bb_0142;

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Repeats a world exactly.
    pub seed: u64,
    /// How many servers vote.
    pub nodes: usize,
    /// How many machines contend.
    pub clients: usize,
    /// How long faults are injected, in simulated time. The recovery phase follows.
    pub fault_phase: Duration,
    /// A bug to be found.
    pub injected_bug: Option<InjectedBug>,
    /// Clients only acquire, hold and release, all with the same settings and nodes, and counters
    /// do not vanish: for comparisons with other ways to lock.
    pub plain: bool,
    /// Whether the history has every segment.
    pub shows_bytes: bool,
}

impl Setting {
    /// The usual world of `seed`.
    pub fn new(seed: u64) -> Self {
        let fault_phase = Duration::from_secs(37);
        Self { seed, nodes: 5, clients: 3, fault_phase, injected_bug: None, plain: false, shows_bytes: false }
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What happened.
    pub history: History,
    /// How often each kind of fault was injected.
    pub faults: Counts,
    /// Simulated time.
    pub lasted: Duration,
    /// How many bytes clients wrote and read.
    pub bytes: u64,
    /// The same for two worlds only if all these bytes were the same, in the same order.
    pub digest: u64,
}

/// Runs the world of `setting` to its end.
pub fn run(setting: &Setting) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without IO").block_on(simulate(setting))
}

/// A running world as the fault schedule sees it.
#[derive(Clone)]
struct Simulation {
    participants: Participants,
    names: Vec<Name>,
    traits: WorldTraits,
    faults: Arc<Mutex<Counts>>,
}

async fn simulate(setting: &Setting) -> Outcome {
    let mut rng = Rng::new(setting.seed);
    let kind = WorldKind::draw(&mut rng);
    let traits = WorldTraits::draw(setting, kind);
    // What plain worlds do not do has a stream of its own, so that it changes nothing in them.
    let mut variety = (!setting.plain).then(|| Rng::new(setting.seed ^ VARIETY));
    let participants = Participants::start((setting, traits), &mut rng, variety.as_mut(), History::new(kind));
    let events = tokio::spawn(participants.events.clone().run());
    participants.init_nodes().await;
    let names = ["a", "b"].map(|name| Name::new(name).expect("a good name")).into();
    let simulation = Simulation { participants, names, traits, faults: Arc::default() };
    simulation.fault_phase(setting, &mut rng, variety.as_mut()).await;
    simulation.participants.record("the fault phase is over");
    simulation.recovery_phase(&mut rng).await;
    sleep(SETTLED_AFTER).await;
    simulation.hand_off_phase(&mut rng).await;
    events.abort();

    let Simulation { participants, faults, .. } = simulation;
    let lasted = participants.now();
    let history = std::mem::replace(&mut *participants.history(), History::new(kind));
    let faults = faults.lock().unwrap().clone();
    let (bytes, digest) = (participants.traffic.bytes(), participants.traffic.digest());
    participants.events.end();
    participants.servers.iter().for_each(server::Host::forget_clients);
    Outcome { history, faults, lasted, bytes, digest }
}

impl Simulation {
    fn count(&self, fault: Fault) {
        *self.faults.lock().unwrap().entry(fault).or_default() += 1;
    }

    fn client(&self, number: usize, rng: Rng, variety: Option<Rng>) -> Client {
        let is_impatient = self.traits.is_impatient && variety.is_some();
        let (participants, names) = (self.participants.clone(), self.names.clone());
        let has_modes = self.traits.has_modes;
        Client { participants, number, rng, variety, names, is_impatient, has_modes, semaphore: None }
    }

    /// Clients work, faults come, and an operator changes the list of nodes.
    async fn fault_phase(&self, setting: &Setting, rng: &mut Rng, mut variety: Option<&mut Rng>) {
        let end = Instant::now() + setting.fault_phase;
        let mut tasks = Vec::new();
        for number in 0..setting.clients {
            let client = self.client(number, rng.fork(), variety.as_mut().map(|variety| variety.fork()));
            tasks.push(tokio::spawn(client.work(end)));
        }
        tasks.push(tokio::spawn(fault_schedule::run(self.clone(), rng.fork(), end)));
        if let Some(rng) = variety.filter(|_| self.traits.changes_lists()) {
            tasks.push(tokio::spawn(node_list::change(self.participants.clone(), rng.fork(), end)));
        }
        for task in tasks {
            task.await.expect("no task panics");
        }
    }

    /// Every client gets every lock, and a writer gets its turn among readers.
    async fn recovery_phase(&self, rng: &mut Rng) {
        let mut all: Vec<Wanted> = self.names.iter().cloned().map(Wanted::exclusive).collect();
        if self.traits.has_modes {
            all.extend([Wanted::all_names(&self.names), Wanted::Permits(SLOTS as usize)]);
        }
        for wanted in all {
            let turn = |number| {
                let client = self.client(number, rng.fork(), None);
                tokio::spawn(client.acquire_once(wanted.clone(), RECOVERY_LIMIT))
            };
            let turns: Vec<_> = (0..self.participants.clients()).map(turn).collect();
            for (number, turn) in turns.into_iter().enumerate() {
                let took = turn.await.expect("no task panics");
                self.check_turn(took, number, &wanted);
            }
        }
        if self.traits.has_modes {
            self.write_among_readers(rng).await;
        }
    }

    /// One client waits to write while all others read without a gap.
    async fn write_among_readers(&self, rng: &mut Rng) {
        let (name, is_over) = (&self.names[0], Arc::new(AtomicBool::new(false)));
        let reader = |number| {
            let client = self.client(number, rng.fork(), None);
            tokio::spawn(client.keep_reading(name.clone(), is_over.clone()))
        };
        let readers: Vec<_> = (1..self.participants.clients()).map(reader).collect();
        let wanted = Wanted::exclusive(name.clone());
        let writer = self.client(0, rng.fork(), None);
        let took = writer.acquire_once(wanted.clone(), RECOVERY_LIMIT).await;
        self.check_turn(took, 0, &wanted);
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            reader.await.expect("no task panics");
        }
    }

    fn check_turn(&self, took: Option<Duration>, number: usize, wanted: &Wanted) {
        if took.is_none() {
            let (limit, names) = (RECOVERY_LIMIT, listed(&wanted.names()));
            let what = format!("L3: client {number} did not get {names} within {limit:?} without faults");
            self.participants.history().violate(self.participants.now(), &what);
        }
    }

    /// Locks go from client to client without delay.
    async fn hand_off_phase(&self, rng: &mut Rng) {
        let clients = self.participants.clients();
        let mut late = 0;
        for turn in 0..if clients > 1 { HAND_OFFS } else { 0 } {
            let (holder, waiter) = (turn % clients, (turn + 1) % clients);
            let (holder, waiter) =
                (self.client(holder, rng.fork(), None), self.client(waiter, rng.fork(), None));
            let took = holder.hand_off(waiter, self.hand_off(turn)).await;
            late += u32::from(took.is_none_or(|took| took > HAND_OFF_LIMIT));
        }
        if late > 0 {
            let what = format!("L4: {late} of {HAND_OFFS} waiters got their lock too late after its release");
            self.participants.history().violate(self.participants.now(), &what);
        }
    }

    /// What is handed off in this turn.
    fn hand_off(&self, turn: usize) -> HandOff {
        let name = self.names[turn % self.names.len()].clone();
        let (exclusive, shared) = (Wanted::exclusive(name.clone()), Wanted::shared(name));
        let permits = Wanted::Permits(SLOTS as usize);
        let (held, wanted, downgrades) = match turn {
            _ if !self.traits.has_modes => (exclusive.clone(), exclusive, false),
            0 | 1 => (exclusive, shared, false),
            2 | 3 => (shared, exclusive, false),
            4 => (exclusive, shared, true),
            5 => (permits, Wanted::Permits(1), false),
            _ => (exclusive.clone(), exclusive, false),
        };
        HandOff { held, wanted, downgrades }
    }
}
