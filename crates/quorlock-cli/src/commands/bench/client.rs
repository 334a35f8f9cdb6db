//! One client of the benchmark: takes a lock and releases it, again and again.

use super::times::Times;
use crate::args::Names;
use quorlock::{CancellationToken, Locker, Release};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// What the names of all locks begin with.
pub(super) const PREFIX: &str = "quorlock-bench:";
/// How long a client rests that failed, so that a dead node is not asked without end.
const REST: Duration = Duration::from_millis(20);

/// Which locks are taken.
pub(super) struct Load {
    names: Names,
    /// Sets this run apart from others on the same nodes.
    run: u32,
}

impl Load {
    pub(super) fn new(names: Names) -> Self {
        Self { names, run: std::process::id() }
    }

    /// The lock of client `number`.
    pub(super) fn name(&self, number: u32) -> String {
        match self.names {
            Names::Own => format!("{PREFIX}{}:{number}", self.run),
            Names::One => format!("{PREFIX}{}", self.run),
        }
    }
}

/// What all clients counted.
#[derive(Debug, Default)]
pub(super) struct Score {
    cycles: AtomicU64,
    stop: CancellationToken,
    acquires: Mutex<Times>,
    failures: Mutex<BTreeMap<&'static str, u64>>,
}

impl Score {
    pub(super) fn cycles(&self) -> u64 {
        self.cycles.load(Ordering::Relaxed)
    }

    /// Ends all clients early, also those that wait.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    pub(super) fn acquires(&self) -> MutexGuard<'_, Times> {
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

/// Takes the lock `name` and releases it until `end`.
pub(super) async fn work(locker: Locker, name: String, end: Instant, score: Arc<Score>) {
    let Ok(lock) = locker.named(&name) else { return };
    let lock = lock.cancel_on(score.stop.clone());
    let mut acquires = Times::default();
    while !score.is_over(end) {
        let left = end.saturating_duration_since(Instant::now());
        let start = Instant::now();
        match lock.clone().wait_timeout(left).acquire().await {
            Ok(guard) => {
                acquires.add(start.elapsed());
                match guard.release().await {
                    Release::Unconfirmed { .. } => fail(&score, "release_unconfirmed"),
                    _ => {
                        score.cycles.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            // The time was over while it waited: no failure.
            Err(_) if score.is_over(end) => {}
            Err(error) => {
                fail(&score, error.kind());
                sleep(REST).await;
            }
        }
    }
    score.acquires().merge(&acquires);
}

fn fail(score: &Score, kind: &'static str) {
    *score.failures().entry(kind).or_default() += 1;
}
