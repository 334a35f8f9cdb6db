//! The shipped lock on simulated machines, with faults, on one seeded schedule.
//!
//! Everything runs on one thread with paused time, so a seed repeats a run exactly. The lock,
//! guard, watchdog, waiting and retry code is the shipped one; servers, network and clocks are
//! simulated. One run is called a world.
//!
//! # Layout
//! | module | job |
//! |---|---|
//! | `event_queue`, `machine_clock`, `entropy` | time and randomness of the simulated machines |
//! | `server`, `network` | simulated servers, and the links of clients to them |
//! | [`redis_server`] | a Redis or Valkey server that speaks RESP, for the shipped link |
//! | `history` | what happened, and the checker of the promises |
//! | `participants` | all of them together: servers, client machines, links and the history |
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
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(2);
/// The longest that any client uses; the `longest_ttl` of every client covers it.
const LONGEST_USED_TTL: Duration = Duration::from_secs(3);
/// The longest `longest_ttl` of any client.
const LONGEST_TTL: Duration = Duration::from_secs(6);
/// How far the rates of two clocks may differ.
const DRIFT_PERCENT: u32 = 1;
const WAIT: Duration = Duration::from_secs(4);
const NODE_TIMEOUT: Duration = Duration::from_millis(150);
/// After the last fault every client must get every lock within this: quarantine, ttl, and a wait
/// or two.
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);
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
}

impl Setting {
    /// The usual world of `seed`.
    pub fn new(seed: u64) -> Self {
        let fault_phase = Duration::from_secs(60);
        Self { seed, nodes: 5, clients: 3, fault_phase, injected_bug: None, plain: false }
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
    let history = History::new(kind);
    // What plain worlds do not do has a stream of its own, so that it changes nothing in them.
    let mut variety = (!setting.plain).then(|| Rng::new(setting.seed ^ VARIETY));
    let participants = Participants::start(setting, &mut rng, variety.as_mut(), history);
    let events = tokio::spawn(participants.events.clone().run());
    let names: Vec<Name> = ["a", "b"].map(|name| Name::new(name).expect("a good name")).into();
    let simulation = Simulation {
        participants: participants.clone(),
        names: names.clone(),
        kind,
        is_plain: setting.plain,
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
    if let Some(rng) = variety.as_mut().filter(|_| kind == WorldKind::Tame) {
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
    events.abort();
    let lasted = participants.now();
    let history = std::mem::replace(&mut *participants.history(), History::new(kind));
    let faults = simulation.faults.lock().unwrap().clone();
    Outcome { history, faults, lasted }
}
