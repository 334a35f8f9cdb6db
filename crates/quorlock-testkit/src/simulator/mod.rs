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

pub use faults::{Counts, Fault};
pub use history::{History, Uses, WorldKind};
pub use injected_bug::InjectedBug;
pub(crate) use injected_bug::inject_bug;

use crate::rng::Rng;
use clients::Client;
use faults::{fault_schedule, node_list};
use participants::Participants;
use quorlock::Name;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::{Instant, sleep};

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
/// How often that may take longer. The first hint may come before other servers have executed the release.
const MAX_LATE: u32 = 1;
/// How long that may take: the hint, and the attempt after it. A waiter that gets no hint polls later.
const HAND_OFF_LIMIT: Duration = Duration::from_millis(60);
/// Separates the stream of the less common behaviour from that of the rest.
const VARIETY: u64 = 0x6c62_272e_07bb_0142;
/// Separates the choice of worlds in which clocks jump after memory loss.
const JUMPS: u64 = 0x1f83_d9ab_fb41_bd6b;

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
        let fault_phase = Duration::from_secs(60);
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
    kind: WorldKind,
    is_plain: bool,
    /// Whether server clocks jump ahead after memory loss, and no process starts later.
    has_jumps: bool,
    faults: Arc<Mutex<Counts>>,
}

impl Simulation {
    fn count(&self, fault: Fault) {
        *self.faults.lock().unwrap().entry(fault).or_default() += 1;
    }
}

async fn simulate(setting: &Setting) -> Outcome {
    let mut rng = Rng::new(setting.seed);
    let kind = WorldKind::draw(&mut rng);
    let percent = if setting.injected_bug == Some(InjectedBug::ServerClockQuarantine) { 100 } else { 20 };
    let has_jumps = kind == WorldKind::Tame && Rng::new(setting.seed ^ JUMPS).chance(percent);
    let history = History::new(kind);
    // What plain worlds do not do has a stream of its own, so that it changes nothing in them.
    let mut variety = (!setting.plain).then(|| Rng::new(setting.seed ^ VARIETY));
    let participants = Participants::start(setting, &mut rng, variety.as_mut(), history);
    let events = tokio::spawn(participants.events.clone().run());
    participants.init_nodes().await;
    let names: Vec<Name> = ["a", "b"].map(|name| Name::new(name).expect("a good name")).into();
    let simulation = Simulation {
        participants: participants.clone(),
        names: names.clone(),
        kind,
        is_plain: setting.plain,
        has_jumps,
        faults: Arc::default(),
    };
    let client = |number, rng, variety| Client {
        participants: participants.clone(),
        number,
        rng,
        variety,
        names: names.clone(),
    };

    let end = Instant::now() + setting.fault_phase;
    let mut tasks: Vec<_> = (0..setting.clients)
        .map(|number| tokio::spawn(client(number, rng.fork(), variety.as_mut().map(Rng::fork)).work(end)))
        .collect();
    tasks.push(tokio::spawn(fault_schedule::run(simulation.clone(), rng.fork(), end)));
    // Every list takes counters away, so fences survive changes only with clocks that are right.
    if let Some(rng) = variety.as_mut().filter(|_| kind == WorldKind::Tame && !has_jumps) {
        tasks.push(tokio::spawn(node_list::change(participants.clone(), rng.fork(), end)));
    }
    for task in tasks {
        task.await.expect("no task panics");
    }

    participants.record("the fault phase is over");
    for name in &names {
        let turns = (0..setting.clients)
            .map(|number| client(number, rng.fork(), None).acquire_once(name.clone(), RECOVERY_LIMIT));
        let turns: Vec<_> = turns.map(tokio::spawn).collect();
        for (number, turn) in turns.into_iter().enumerate() {
            if turn.await.expect("no task panics").is_none() {
                let what = format!(
                    "L3: client {number} did not get {name} within {RECOVERY_LIMIT:?} without faults"
                );
                participants.history().violate(participants.now(), &what);
            }
        }
    }
    sleep(SETTLED_AFTER).await;
    let mut late = 0;
    for turn in 0..if setting.clients > 1 { HAND_OFFS } else { 0 } {
        let (holder, waiter) = (turn % setting.clients, (turn + 1) % setting.clients);
        let (holder, waiter) = (client(holder, rng.fork(), None), client(waiter, rng.fork(), None));
        let took = holder.hand_off(waiter, names[turn % names.len()].clone()).await;
        late += u32::from(took.is_none_or(|took| took > HAND_OFF_LIMIT));
    }
    if late > MAX_LATE {
        let what = format!("L4: {late} of {HAND_OFFS} waiters got their lock too late after its release");
        participants.history().violate(participants.now(), &what);
    }
    events.abort();
    let lasted = participants.now();
    let history = std::mem::replace(&mut *participants.history(), History::new(kind));
    let faults = simulation.faults.lock().unwrap().clone();
    let (bytes, digest) = (participants.traffic.bytes(), participants.traffic.digest());
    Outcome { history, faults, lasted, bytes, digest }
}
