//! One client of the benchmark: acquires a lock and releases it, again and again.

use super::histogram::Histogram;
use crate::args::Names;
use quorlock::{CancellationToken, Locker, ReleaseOutcome};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The prefix of all lock names.
pub(super) const PREFIX: &str = "quorlock-bench:";
/// How long a client pauses after a failure, so that it does not flood a dead node.
const FAILURE_PAUSE: Duration = Duration::from_millis(20);

/// The names of the locks.
pub(super) struct LockNames {
    names: Names,
    /// Distinguishes this run from others on the same nodes.
    run: u32,
}

impl LockNames {
    pub(super) fn new(names: Names) -> Self {
        Self { names, run: std::process::id() }
    }

    /// The lock of client `number`.
    pub(super) fn of_client(&self, number: u32) -> String {
        match self.names {
            Names::Own => format!("{PREFIX}{}:{number}", self.run),
            Names::One => format!("{PREFIX}{}", self.run),
        }
    }
}

/// The counters of all clients.
#[derive(Debug, Default)]
pub(super) struct Counters {
    cycles: AtomicU64,
    stop: CancellationToken,
    acquires: Mutex<Histogram>,
    failures: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters {
    pub(super) fn cycles(&self) -> u64 {
        self.cycles.load(Ordering::Relaxed)
    }

    /// Ends all clients early, even while they wait.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    pub(super) fn acquires(&self) -> MutexGuard<'_, Histogram> {
        self.acquires.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often each kind of failure happened.
    pub(super) fn failures(&self) -> MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self, end: Instant) -> bool {
        self.stop.is_cancelled() || Instant::now() >= end
    }
}

/// Acquires and releases the lock `name` until `end`.
pub(super) async fn run(locker: Locker, name: String, end: Instant, counters: Arc<Counters>) {
    let Ok(lock) = locker.named(&name) else { return };
    let lock = lock.cancel_on(counters.stop.clone());
    let mut acquires = Histogram::default();
    while !counters.is_over(end) {
        let left = end.saturating_duration_since(Instant::now());
        let start = Instant::now();
        match lock.clone().wait_timeout(left).acquire().await {
            Ok(guard) => {
                acquires.add(start.elapsed());
                match guard.release().await {
                    ReleaseOutcome::Unconfirmed { .. } => count_failure(&counters, "release_unconfirmed"),
                    _ => {
                        counters.cycles.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            // The benchmark ended while it waited: no failure.
            Err(_) if counters.is_over(end) => {}
            Err(error) => {
                count_failure(&counters, error.kind());
                sleep(FAILURE_PAUSE).await;
            }
        }
    }
    counters.acquires().merge(&acquires);
}

fn count_failure(counters: &Counters, kind: &'static str) {
    *counters.failures().entry(kind).or_default() += 1;
}
