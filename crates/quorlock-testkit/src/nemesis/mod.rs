//! Real servers, real client processes and the shipped lock in real time, with disturb on a seeded schedule.
//!
//! The seed decides which disturb comes in which order to whom. What comes of it depends on the machine: real time
//! cannot be repeated.

mod participants;
mod client;
mod fault;
mod link;
mod history;
mod check;
mod line;
mod process;
mod value;
mod report;
mod resource;
mod arguments;
mod settings;
mod monotonic;
mod run;
mod server;

pub use client::be_client;
pub use fault::{Counts, Fault};
pub use history::{History, Promise, Violation};
pub use report::Check;
pub use resource::Ledger;

use crate::servers::builder::Binary;
use crate::world::{InjectedBug, Rng, inject_bug};
use participants::Participants;
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
/// After the fault_phase every client must have had its permit within this: a quarantine of 12 s, ttl, waits, a slow machine.
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

/// What a fault_phase is made of.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Decides the schedule of faults.
    pub seed: u64,
    /// How many servers vote; at least 3.
    pub nodes: usize,
    /// How many client processes contend.
    pub clients: usize,
    /// How long the disturb lasts.
    pub fault_phase: Duration,
    /// Which server program.
    pub binary: Binary,
    /// A bug to be found; see [`Setting::INJECTED_BUGS`].
    pub injected_bug: Option<InjectedBug>,
    /// Whether the report begins with everything that happened.
    pub show: bool,
    /// The program that the clients run: one that calls [`be_client`] with its arguments first of all.
    pub program: PathBuf,
}

impl Setting {
    /// Bugs that can be planted around real servers.
    pub const INJECTED_BUGS: [InjectedBug; 3] = [InjectedBug::ReachableMajority, InjectedBug::LateDeadline, InjectedBug::NoRestartGuard];

    /// The usual fault_phase of `seed`: five servers, six clients, a minute.
    pub fn new(seed: u64, program: PathBuf) -> Self {
        Self {
            seed,
            nodes: 5,
            clients: 6,
            fault_phase: Duration::from_secs(60),
            binary: Binary::Redis,
            injected_bug: None,
            show: false,
            program,
        }
    }
}

/// What came of a fault_phase.
#[derive(Debug)]
pub struct Outcome {
    /// What the clients lines.
    pub history: History,
    /// What the resource saw.
    pub ledger: Ledger,
    /// Which disturb came how often.
    pub faults: Counts,
    /// How long the fault_phase lasted.
    pub fault_phase: Duration,
}

/// Raises the fault_phase of `setting`, then demands that in the quiet after it everybody gets every lock.
pub fn run(setting: &Setting) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(live(setting))
}

async fn live(setting: &Setting) -> Outcome {
    let mut rng = Rng::new(setting.seed);
    let participants = Participants::start(setting, &mut rng).await;
    run::run(participants.clone(), rng.fork(), Instant::now() + setting.fault_phase).await;
    participants.end_faults();
    let quiet = Instant::now();
    // A client counts for itself how long it waits for each lock; whoever is silent for longer is missed below.
    while participants.history().done() < setting.clients && quiet.elapsed() < 5 * RECOVERY_LIMIT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    if participants.history().done() < setting.clients {
        let what = "a client did not end its turns".to_owned();
        participants.history().violate(Promise::Recovery, monotonic::now(), what);
    }
    let (history, ledger) = participants.finish();
    Outcome { history, ledger, faults: participants.faults(), fault_phase: setting.fault_phase }
}

/// How all clients are configured before each changes what it may.
fn lockers(urls: Vec<String>, injected_bug: Option<InjectedBug>) -> Builder {
    let builder = Locker::builder()
        .nodes(urls)
        .ttl(TTL)
        .longest_ttl(LONGEST_TTL)
        .wait_timeout(WAIT)
        .node_timeout(NODE_TIMEOUT);
    match bug {
        Some(InjectedBug::NoRestartGuard) => builder.restart_guard(RestartGuard::Off),
        bug => inject_bug(builder, bug),
    }
}
