//! Real servers, real client processes and the shipped lock in real time, with trouble on a seeded schedule.
//!
//! The seed decides which trouble comes in which order to whom. What comes of it depends on the machine: real time
//! cannot be repeated.

mod cast;
mod client;
mod fault;
mod gate;
mod history;
mod judge;
mod line;
mod process;
mod register;
mod report;
mod resource;
mod script;
mod settings;
mod stopwatch;
mod torment;
mod voter;

pub use client::be_client;
pub use fault::{Counts, Fault};
pub use history::{History, Promise, Violation};
pub use report::Check;
pub use resource::Ledger;

use crate::server_config::Binary;
use crate::world::{Plant, Rng, plant_in};
use cast::Cast;
use quorlock::{Builder, Locker, RestartGuard};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Fewer than clients, so that somebody mostly waits.
const NAMES: [&str; 3] = ["a", "b", "c"];
/// The longest that any client uses.
const TTL: Duration = Duration::from_secs(1);
/// The longest `longest_ttl` of any client; servers are marked with it before the first client comes.
const LONGEST_TTL: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_secs(2);
const NODE_TIMEOUT: Duration = Duration::from_millis(100);
/// After the storm every client must have had its turn within this: a quarantine of 12 s, ttl, waits, a slow machine.
const QUIET: Duration = Duration::from_secs(60);

/// What a storm is made of.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Decides the schedule of faults.
    pub seed: u64,
    /// How many servers vote; at least 3.
    pub nodes: usize,
    /// How many client processes contend.
    pub clients: usize,
    /// How long the trouble lasts.
    pub storm: Duration,
    /// Which server program.
    pub binary: Binary,
    /// A bug to be found; see [`Setting::PLANTS`].
    pub plant: Option<Plant>,
    /// Whether the report begins with everything that happened.
    pub show: bool,
    /// The program that the clients run: one that calls [`be_client`] with its arguments first of all.
    pub program: PathBuf,
}

impl Setting {
    /// Bugs that can be planted around real servers.
    pub const PLANTS: [Plant; 3] = [Plant::ReachableMajority, Plant::LateDeadline, Plant::NoRestartGuard];

    /// The usual storm of `seed`: five servers, six clients, a minute.
    pub fn new(seed: u64, program: PathBuf) -> Self {
        Self {
            seed,
            nodes: 5,
            clients: 6,
            storm: Duration::from_secs(60),
            binary: Binary::Redis,
            plant: None,
            show: false,
            program,
        }
    }
}

/// What came of a storm.
#[derive(Debug)]
pub struct Outcome {
    /// What the clients told.
    pub history: History,
    /// What the resource saw.
    pub ledger: Ledger,
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
    let cast = Cast::assemble(setting, &mut rng).await;
    torment::torment(cast.clone(), rng.fork(), Instant::now() + setting.storm).await;
    cast.quieten();
    let quiet = Instant::now();
    // A client counts for itself how long it waits for each lock; whoever is silent for longer is missed below.
    while cast.history().done() < setting.clients && quiet.elapsed() < 5 * QUIET {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    if cast.history().done() < setting.clients {
        let what = "a client did not end its turns".to_owned();
        cast.history().violate(Promise::Recovery, stopwatch::now(), what);
    }
    let (history, ledger) = cast.dismiss();
    Outcome { history, ledger, faults: cast.faults(), storm: setting.storm }
}

/// How all clients are configured before each changes what it may.
fn lockers(urls: Vec<String>, plant: Option<Plant>) -> Builder {
    let builder = Locker::builder()
        .nodes(urls)
        .ttl(TTL)
        .longest_ttl(LONGEST_TTL)
        .wait_timeout(WAIT)
        .node_timeout(NODE_TIMEOUT);
    match plant {
        Some(Plant::NoRestartGuard) => builder.restart_guard(RestartGuard::Off),
        plant => plant_in(builder, plant),
    }
}
