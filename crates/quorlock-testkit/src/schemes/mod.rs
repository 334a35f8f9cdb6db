//! Other ways to lock: each scheme in seeded runs, and what it breaks.
//!
//! The checks favour the scheme: a client believes to hold only until its ttl is over, counted from
//! before its request, even where the published scheme does not say so. Double holds are then the
//! fault of the scheme, not of a pause.
//!
//! # Layout
//! | module | job |
//! |---|---|
//! | `scheme`, `steps` | the schemes, and the steps of each |
//! | `store`, `client` | a simulated server with a replica, and a client |
//! | `history` | what happened in a run, and the shortest trace of a flaw |
//! | `scenario` | one run on a single server, or on a master with its replica |
//! | `quorum` | one run of a scheme with a quorum, in the simulator |
//! | `checks`, `table` | what a comparison must show, and its results as text |

mod checks;
mod client;
mod history;
mod quorum;
mod scenario;
mod scheme;
mod steps;
mod store;
mod table;

pub use checks::{Check, checks};
pub use history::Tally;
pub use scheme::{Flaw, Scheme};
pub use table::{promotion_table, result_table};

use scenario::Scenario;
use std::collections::BTreeMap;
use std::time::Duration;

/// The ttl of every lock.
pub const TTL: Duration = Duration::from_secs(2);
/// How many acquisitions one run has.
const ACQUISITIONS_PER_RUN: u64 = 250;

/// The result of a scheme.
#[derive(Clone, Copy, Debug)]
pub struct Finding {
    /// Which scheme.
    pub scheme: Scheme,
    /// What went wrong.
    pub tally: Tally,
}

/// Delayed promotion: what a delay prevents and what it costs.
#[derive(Clone, Copy, Debug)]
pub struct Promotion {
    /// From the death of the master to the promotion of the replica.
    pub delay: Duration,
    /// What went wrong.
    pub tally: Tally,
}

/// Measures all schemes with at least this many acquisitions each.
pub fn measure(seed: u64, acquisitions: u64) -> Vec<Finding> {
    std::thread::scope(|scope| {
        // Quorlock and Redlock with a guard differ in nothing but the fence: one run serves both.
        let run = |scheme| if scheme == Scheme::GuardedRedlock { Scheme::Quorlock } else { scheme };
        let is_run = |scheme: &Scheme| run(*scheme) == *scheme;
        let start = |scheme| (scheme, scope.spawn(move || tally(scheme, seed, acquisitions)));
        let running: Vec<_> = Scheme::ALL.into_iter().filter(is_run).map(start).collect();
        let done =
            running.into_iter().map(|(scheme, tally)| (scheme, tally.join().expect("no scheme panics")));
        let done: BTreeMap<Scheme, Tally> = done.collect();
        Scheme::ALL.map(|scheme| Finding { scheme, tally: done[&run(scheme)] }).into()
    })
}

/// Measures failover with promotion after a quarter of the ttl, a half, and so on.
pub fn measure_promotion(seed: u64, acquisitions: u64) -> Vec<Promotion> {
    let delays = [TTL / 4, TTL / 2, TTL * 3 / 4, TTL, TTL * 2];
    std::thread::scope(|scope| {
        let start = |delay| {
            let tally = move || on_single_server(Scheme::Failover, Some(delay), seed, acquisitions);
            scope.spawn(move || Promotion { delay, tally: tally() })
        };
        let running: Vec<_> = delays.into_iter().map(start).collect();
        running.into_iter().map(|promotion| promotion.join().expect("no run panics")).collect()
    })
}

/// The shortest trace of the scheme's flaw in `runs` seeds from `seed` on.
pub fn explain(scheme: Scheme, seed: u64, runs: u64) -> Option<Vec<String>> {
    let seeds = seed..seed.saturating_add(runs);
    let explained = Some(scheme.flaw());
    let scenario = |seed| Scenario {
        scheme,
        seed,
        acquisitions: ACQUISITIONS_PER_RUN,
        promotion: promotion(scheme),
        explained,
    };
    let traces = seeds.filter_map(|seed| match scheme.uses_quorum() {
        true => quorum::trace(scheme, seed),
        false => scenario::run(scenario(seed)).1,
    });
    traces.min_by_key(Vec::len)
}

fn tally(scheme: Scheme, seed: u64, acquisitions: u64) -> Tally {
    match scheme.uses_quorum() {
        true => quorum::tally(scheme, seed, acquisitions),
        false => on_single_server(scheme, promotion(scheme), seed, acquisitions),
    }
}

fn on_single_server(scheme: Scheme, promotion: Option<Duration>, seed: u64, acquisitions: u64) -> Tally {
    let mut sum = Tally::default();
    let mut seed = seed;
    while sum.acquisitions < acquisitions {
        let acquisitions = ACQUISITIONS_PER_RUN.min(acquisitions - sum.acquisitions);
        sum.add(&scenario::run(Scenario { scheme, seed, acquisitions, promotion, explained: None }).0);
        seed = seed.wrapping_add(1);
    }
    sum
}

fn promotion(scheme: Scheme) -> Option<Duration> {
    match scheme {
        Scheme::Failover => Some(TTL / 4),
        Scheme::DelayedFailover => Some(TTL),
        _ => None,
    }
}
