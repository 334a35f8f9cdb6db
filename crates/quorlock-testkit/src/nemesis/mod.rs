//! Real servers and the shipped lock in real time, with trouble on a seeded schedule.
//!
//! The seed decides which trouble comes in which order to whom. What comes of it depends on the machine: real time
//! cannot be repeated.

mod cast;
mod client;
mod fault;
mod gate;
mod history;
mod report;

pub use fault::{Counts, Fault};
pub use history::{History, Promise};
pub use report::Check;

use crate::server_config::Binary;
use crate::world::{Plant, Rng};
use cast::Cast;
use client::Client;
use quorlock::Name;
use std::time::{Duration, Instant};

const TTL: Duration = Duration::from_secs(1);
const WAIT: Duration = Duration::from_secs(2);
const NODE_TIMEOUT: Duration = Duration::from_millis(100);
/// After the storm every client must have had its turn within this: a quarantine of 11 s, ttl, waits, a slow machine.
const QUIET: Duration = Duration::from_secs(60);

/// What a storm is made of.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Decides the schedule of faults.
    pub seed: u64,
    /// How many servers vote; at least 3.
    pub nodes: usize,
    /// How many lockers contend, each on connections of its own.
    pub clients: usize,
    /// How long the trouble lasts.
    pub storm: Duration,
    /// Which server program.
    pub binary: Binary,
    /// A bug to be found; see [`Setting::PLANTS`].
    pub plant: Option<Plant>,
}

impl Setting {
    /// Bugs that can be planted around real servers.
    pub const PLANTS: [Plant; 3] = [Plant::ReachableMajority, Plant::LateDeadline, Plant::NoRestartGuard];

    /// The usual storm of `seed`: five servers, four clients, a minute.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            nodes: 5,
            clients: 4,
            storm: Duration::from_secs(60),
            binary: Binary::Redis,
            plant: None,
        }
    }
}

/// What came of a storm.
#[derive(Debug)]
pub struct Outcome {
    /// What happened.
    pub history: History,
    /// Which trouble came how often.
    pub faults: Counts,
    /// How long the storm lasted.
    pub storm: Duration,
}

/// Raises the storm of `setting`, then demands that in the quiet after it everybody gets every lock.
pub fn run(setting: &Setting) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(live(setting))
}

async fn live(setting: &Setting) -> Outcome {
    let mut rng = Rng::new(setting.seed);
    let cast = Cast::assemble(setting).await;
    let names: Vec<Name> = ["a", "b", "c", "d"].map(|name| Name::new(name).expect("a good name")).into();
    let client = |number, rng| Client { cast: cast.clone(), number, rng, names: names.clone() };

    let end = Instant::now() + setting.storm;
    let mut tasks: Vec<_> =
        (0..setting.clients).map(|number| tokio::spawn(client(number, rng.fork()).work(end))).collect();
    tasks.push(tokio::spawn(fault::torment(cast.clone(), rng.fork(), end)));
    for task in tasks {
        task.await.expect("nobody panics");
    }

    cast.history().tell("the storm is over");
    let turns = (0..setting.clients).map(|number| client(number, rng.fork()).take_turns(QUIET));
    let turns: Vec<_> = turns.map(tokio::spawn).collect();
    for turn in turns {
        turn.await.expect("nobody panics");
    }
    let history = cast.history().clone();
    Outcome { history, faults: cast.faults(), storm: setting.storm }
}
