//! What is known of a store without asking it, and how many commands wait for it.

use crate::context::mutex::Mutex;
use crate::node::{Health, NodeError};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// The most releases that are kept to be tried again, for all names together; the locks of further ones
/// end with their ttl.
const MAX_FAILED_RELEASES: usize = 4096;

/// What is known of the store.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedHealth(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    queued: AtomicUsize,
    failed_releases: AtomicUsize,
    is_closed: AtomicBool,
    health: Mutex<Health>,
}

impl SharedHealth {
    /// Counts one more waiting command, until the returned value is dropped.
    pub(crate) fn count_queued(&self) -> QueuedCount {
        self.0.queued.fetch_add(1, Ordering::Relaxed);
        QueuedCount(self.clone())
    }

    /// Counts one more release to be tried again, until the returned value is dropped; `None` if there
    /// are too many.
    pub(crate) fn count_failed_release(&self) -> Option<FailedReleaseCount> {
        let more = |count| (count < MAX_FAILED_RELEASES).then_some(count + 1);
        self.0.failed_releases.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(FailedReleaseCount(self.clone()))
    }

    /// Records that the node was dropped.
    pub(crate) fn close(&self) {
        self.0.is_closed.store(true, Ordering::Relaxed);
    }

    /// Whether the node still exists.
    pub(crate) fn is_open(&self) -> bool {
        !self.0.is_closed.load(Ordering::Relaxed)
    }

    pub(crate) fn record_success(&self, took: Duration) {
        let mut health = self.lock();
        health.trouble = None;
        health.round_trip = Some(took);
    }

    pub(crate) fn record_failure(&self, error: &NodeError) {
        self.lock().trouble = Some(error.clone());
    }

    pub(crate) fn set_version(&self, version: String) {
        self.lock().version = Some(version);
    }

    pub(crate) fn health(&self) -> Health {
        Health { queued: self.queued(), ..self.lock().clone() }
    }

    /// How many commands wait.
    pub(crate) fn queued(&self) -> usize {
        self.0.queued.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Health> {
        self.0.health.lock()
    }
}

/// One waiting command.
#[derive(Debug)]
pub(crate) struct QueuedCount(SharedHealth);

impl Drop for QueuedCount {
    fn drop(&mut self) {
        self.0.0.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One release that is to be tried again.
#[derive(Debug)]
pub(crate) struct FailedReleaseCount(SharedHealth);

impl Drop for FailedReleaseCount {
    fn drop(&mut self) {
        self.0.0.failed_releases.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_releases_are_kept_up_to_the_bound_and_more_once_one_is_done() {
        let health = SharedHealth::default();
        let mut counts: Vec<_> =
            (0..MAX_FAILED_RELEASES).map(|_| health.count_failed_release().unwrap()).collect();
        assert!(health.count_failed_release().is_none() && health.count_failed_release().is_none());
        counts.pop();
        assert!(health.count_failed_release().is_some());
    }
}
