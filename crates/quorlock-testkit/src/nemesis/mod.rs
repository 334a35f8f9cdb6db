//! Real servers, real client processes and the shipped lock in real time, with faults on a seeded
//! schedule.
//!
//! The seed decides which faults come, in which order and where. The effects depend on the machine:
//! real time cannot be repeated.
//!
//! # Layout
//! | module | job |
//! |---|---|
//! | `monotonic` | the one clock on which all processes agree |
//! | `resource` | what the locks protect: a server, and what each client reads and writes there |
//! | `client` | a client process: what it does, what it reports, how the harness controls it |
//! | `faults` | the kinds of faults, and how links get them |
//! | `engines` | the clusters that a storm can run on, and how their servers get faults |
//! | `contestants` | the clients of other libraries that a storm can run |
//! | `checker` | the history of a run, the checker of the promises, and the report |
//! | `comparison` | what a storm did to a contestant, as a row of a table |
//! | `participants`, `fault_schedule` | all of them together, and which fault comes when |

mod checker;
mod client;
mod comparison;
mod contestants;
mod engines;
mod fault_schedule;
mod faults;
mod monotonic;
mod participants;
mod resource;

pub use checker::history::History;
pub use checker::promise::{Promise, Violation};
pub use checker::report::Check;
pub use client::run_client;
pub use comparison::{Row, table};
pub use contestants::Contestant;
pub use engines::Engine;
pub use faults::{Counts, Fault};
pub use resource::Ledger;

use crate::rng::Rng;
use crate::servers::builder::Binary;
use crate::simulator::{InjectedBug, inject_bug};
use participants::Participants;
use quorlock::{Builder, Locker, Name, RestartGuard};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A storm uses as many as its engine says: fewer than clients, so that a client mostly waits.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
/// A semaphore, and how many slots it has: fewer than clients.
const SEMAPHORE: &str = "pool";
const SLOTS: u32 = 3;
/// The longest that any client uses.
const TTL: Duration = Duration::from_secs(1);
/// The longest `longest_ttl` of any client; servers are marked with it before the first client
/// comes.
const LONGEST_TTL: Duration = Duration::from_secs(2);
const WAIT: Duration = Duration::from_secs(2);
const NODE_TIMEOUT: Duration = Duration::from_millis(100);
/// A loaded machine may need long to start all clients.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How far the clock of a server may be behind.
const SERVER_CLOCK_MARGIN: Duration = Duration::from_secs(1);
/// Nothing of idle clients may be on servers after this: a ttl, and a clock that is set back by 3 s; a
/// writer that died may have kept readers out for 3 s.
const IDLE_LIMIT: Duration = Duration::from_secs(10);
/// After the last fault every client must get every lock within this: a quarantine of 12 s, ttl,
/// waits, a slow machine.
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Decides the schedule of faults.
    pub seed: u64,
    /// How many servers vote; at least 3.
    pub nodes: usize,
    /// How many client processes contend.
    pub clients: usize,
    /// How long faults are injected. The recovery phase follows.
    pub fault_phase: Duration,
    /// What the nodes are.
    pub engine: Engine,
    /// The library whose clients only acquire, work and release; `None` for quorlock with all that
    /// it can.
    pub contestant: Option<Contestant>,
    /// Which program the protected values, and on [`Engine::Redis`] the nodes, run on.
    pub binary: Binary,
    /// A bug to be found; see [`Setting::INJECTED_BUGS`].
    pub injected_bug: Option<InjectedBug>,
    /// Whether the report begins with everything that happened.
    pub show: bool,
    /// The program that the clients run: one that calls [`run_client`] with its arguments first of
    /// all.
    pub program: PathBuf,
}

impl Setting {
    /// Bugs that can be injected around real servers.
    pub const INJECTED_BUGS: [InjectedBug; 3] =
        [InjectedBug::ReachableMajority, InjectedBug::LateDeadline, InjectedBug::NoRestartGuard];

    /// The usual run of `seed`: five servers, six clients, a minute of faults.
    pub fn new(seed: u64, program: PathBuf) -> Self {
        Self {
            seed,
            nodes: 5,
            clients: 6,
            fault_phase: Duration::from_secs(60),
            engine: Engine::Redis,
            contestant: None,
            binary: Binary::Redis,
            injected_bug: None,
            show: false,
            program,
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// What the clients reported.
    pub history: History,
    /// What the resource saw.
    pub ledger: Ledger,
    /// What the servers were.
    pub cluster: String,
    /// The kinds of faults that the cluster can be given.
    pub kinds: Vec<Fault>,
    /// How often each kind of fault was injected.
    pub faults: Counts,
    /// How long faults were injected.
    pub fault_phase: Duration,
    /// How many acquisitions a minute must have to mean something.
    pub acquisitions_per_minute: u64,
    /// Locks that were still on servers when all clients had been idle for longer than a ttl.
    pub left_behind: usize,
}

/// Injects the faults of `setting`, then demands that every client gets every lock in the recovery
/// phase.
pub fn run(setting: &Setting) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime").block_on(run_async(setting))
}

async fn run_async(setting: &Setting) -> Outcome {
    let mut rng = Rng::new(setting.seed);
    let participants = Participants::start(setting, &mut rng).await;
    let start = Instant::now();
    // A virtual machine takes seconds to start.
    while !participants.history().all_have_called() && start.elapsed() < START_LIMIT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    fault_schedule::run(participants.clone(), rng.fork(), Instant::now() + setting.fault_phase).await;
    participants.end_faults();
    let recovery = Instant::now();
    // A client itself counts how long it waits for each lock; one that reports nothing for longer
    // is found below.
    while participants.history().done() < setting.clients && recovery.elapsed() < 5 * RECOVERY_LIMIT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    if participants.history().done() < setting.clients {
        let what = "a client did not finish the recovery phase".to_owned();
        participants.history().violate(Promise::Recovery, monotonic::now(), what);
    }
    let cluster = participants.cluster();
    let idle = Instant::now();
    tokio::time::sleep(cluster.longest_orphan() + SERVER_CLOCK_MARGIN).await;
    let mut left_behind = cluster.locks();
    if setting.contestant.is_none() {
        while left_behind > 0 && idle.elapsed() < IDLE_LIMIT {
            tokio::time::sleep(Duration::from_millis(100)).await;
            left_behind = cluster.locks();
        }
        if left_behind > 0 {
            let what = format!("{left_behind} locks after {IDLE_LIMIT:?} without a call");
            participants.history().violate(Promise::NothingLeft, monotonic::now(), what);
        }
    }
    let (history, ledger) = participants.finish();
    Outcome {
        history,
        ledger,
        cluster: cluster.description(),
        kinds: participants.kinds(),
        faults: participants.faults(),
        fault_phase: setting.fault_phase,
        acquisitions_per_minute: setting.engine.acquisitions_per_minute(),
        left_behind,
    }
}

/// The names under which the slots of the semaphore are locked.
fn slot_names() -> Vec<String> {
    let semaphore = Name::new(SEMAPHORE).expect("a good name");
    (0..SLOTS).map(|slot| Name::of_slot(&semaphore, slot).to_string()).collect()
}

/// The configuration of all clients, before each draws its own settings.
fn builder(urls: Vec<String>, injected_bug: Option<InjectedBug>) -> Builder {
    let builder = Locker::builder()
        .nodes(urls)
        .ttl(TTL)
        .longest_ttl(LONGEST_TTL)
        .wait_timeout(WAIT)
        .node_timeout(NODE_TIMEOUT);
    match injected_bug {
        Some(InjectedBug::NoRestartGuard) => builder.restart_guard(RestartGuard::Off),
        bug => inject_bug(builder, bug),
    }
}
