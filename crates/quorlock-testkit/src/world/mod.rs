//! A simulated world: the shipped lock on simulated machines, with trouble, on one seeded schedule.
//!
//! Everything runs on one thread with paused time, so a seed repeats a run exactly. The lock, guard, watchdog, waiting
//! and retry code is the shipped one; servers, network and clocks are simulated.

mod agenda;
mod cast;
mod client;
mod fault;
mod history;
mod hold;
mod link;
mod node_list;
mod parcel;
mod plant;
mod rng;
mod server;
mod settings;
mod time;
mod weather;

pub use fault::{Counts, Fault};
pub use history::{History, Mood, Uses};
pub use plant::Plant;
pub use rng::Rng;

use cast::Cast;
use client::Client;
use quorlock::{Builder, InjectedBug, Name};
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
/// After the storm every client must have had its turn within this: quarantine, ttl, and a wait or two.
const QUIET: Duration = Duration::from_secs(60);
/// Parts the stream of the less common behaviour from that of the rest.
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
    /// How long the storm lasts, in simulated time.
    pub storm: Duration,
    /// A bug to be found.
    pub plant: Option<Plant>,
    /// Clients only acquire, hold and let go, all with the same settings and nodes, and counters do not vanish: for
    /// comparisons with other ways to lock.
    pub plain: bool,
}

impl Setting {
    /// The usual world of `seed`.
    pub fn new(seed: u64) -> Self {
        Self { seed, nodes: 5, clients: 3, storm: Duration::from_secs(60), plant: None, plain: false }
    }
}

/// What came of a world.
#[derive(Debug)]
pub struct Outcome {
    /// What happened.
    pub history: History,
    /// Which trouble came how often.
    pub faults: Counts,
    /// Simulated time.
    pub lasted: Duration,
}

/// Runs the world of `setting` to its end.
pub fn run(setting: &Setting) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime without IO").block_on(live(setting))
}

/// A world as those who make trouble see it.
#[derive(Clone)]
struct World {
    cast: Cast,
    names: Vec<Name>,
    mood: Mood,
    is_plain: bool,
    faults: Arc<Mutex<Counts>>,
}

impl World {
    fn cast(&self) -> Cast {
        self.cast.clone()
    }

    fn names(&self) -> Vec<Name> {
        self.names.clone()
    }

    fn mood(&self) -> Mood {
        self.mood
    }

    fn is_plain(&self) -> bool {
        self.is_plain
    }

    fn count(&self, fault: Fault) {
        *self.faults.lock().unwrap().entry(fault).or_default() += 1;
    }
}

async fn live(setting: &Setting) -> Outcome {
    let mut rng = Rng::new(setting.seed);
    let mood = Mood::drawn(&mut rng);
    let history = History::new(mood);
    // What plain worlds do not do has a stream of its own, so that it changes nothing in them.
    let mut variety = (!setting.plain).then(|| Rng::new(setting.seed ^ VARIETY));
    let cast = Cast::assemble(setting, &mut rng, variety.as_mut(), history);
    let agenda = tokio::spawn(cast.agenda.clone().run());
    let names: Vec<Name> = ["a", "b"].map(|name| Name::new(name).expect("a good name")).into();
    let (is_plain, faults) = (setting.plain, Arc::default());
    let world = World { cast: cast.clone(), names: names.clone(), mood, is_plain, faults };
    let client =
        |number, rng, variety| Client { cast: cast.clone(), number, rng, variety, names: names.clone() };

    let end = Instant::now() + setting.storm;
    let mut tasks: Vec<_> = (0..setting.clients)
        .map(|number| tokio::spawn(client(number, rng.fork(), variety.as_mut().map(Rng::fork)).work(end)))
        .collect();
    tasks.push(tokio::spawn(fault::torment(world.clone(), rng.fork(), end)));
    // Every list takes counters away, so fences survive changes only with clocks that are right.
    if let Some(rng) = variety.as_mut().filter(|_| mood == Mood::Tame) {
        tasks.push(tokio::spawn(node_list::change(world.clone(), rng.fork(), end)));
    }
    for task in tasks {
        task.await.expect("nobody panics");
    }

    cast.tell("the storm is over");
    for name in &names {
        let turns = (0..setting.clients)
            .map(|number| client(number, rng.fork(), None).take_turn(name.clone(), QUIET));
        let turns: Vec<_> = turns.map(tokio::spawn).collect();
        for (number, turn) in turns.into_iter().enumerate() {
            if turn.await.expect("nobody panics").is_none() {
                let what = format!("L3: client {number} did not get {name} within {QUIET:?} of quiet");
                cast.history.lock().unwrap().violate(cast.now(), &what);
            }
        }
    }
    agenda.abort();
    let lasted = cast.now();
    let history = std::mem::replace(&mut *cast.history.lock().unwrap(), History::new(mood));
    let faults = world.faults.lock().unwrap().clone();
    Outcome { history, faults, lasted }
}

/// Switches a bug in the shipped code on, where it cannot be brought in from outside.
pub(crate) fn plant_in(builder: Builder, plant: Option<Plant>) -> Builder {
    match plant {
        Some(Plant::LateDeadline) => builder.inject_bug(InjectedBug::LateDeadline),
        Some(Plant::ReachableMajority) => builder.inject_bug(InjectedBug::ReachableMajority),
        Some(Plant::LossByAnswer) => builder.inject_bug(InjectedBug::LossByAnswer),
        Some(Plant::AdoptUnasked) => builder.inject_bug(InjectedBug::AdoptUnasked),
        Some(Plant::ForceAnyHolder) => builder.inject_bug(InjectedBug::ForceAnyHolder),
        Some(Plant::ExtendGone) => builder.inject_bug(InjectedBug::ExtendGone),
        _ => builder,
    }
}
