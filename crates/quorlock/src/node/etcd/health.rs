//! What is known of a cluster without asking it, and how much waits for it.

use crate::context::mutex::Mutex;
use crate::node::{Health, NodeError};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// The most releases that are kept to be tried again, for all names together; the locks of others end with their ttl.
const MOST_OWED: usize = 4096;

/// What is known of the cluster, for whoever asks.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedHealth(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    queued: AtomicUsize,
    owed: AtomicUsize,
    is_closed: AtomicBool,
    health: Mutex<Health>,
}

impl SharedHealth {
    /// One more waits, until what is returned is dropped.
    pub(crate) fn count(&self) -> Counted {
        self.0.queued.fetch_add(1, Ordering::Relaxed);
        Counted(self.clone())
    }

    /// One more release is to be tried again, until what is returned is dropped; `None` if there are too many.
    pub(crate) fn owe(&self) -> Option<UnsentRelease> {
        let more = |owed| (owed < MOST_OWED).then_some(owed + 1);
        self.0.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(UnsentRelease(self.clone()))
    }

    /// The node is gone.
    pub(crate) fn close(&self) {
        self.0.is_closed.store(true, Ordering::Relaxed);
    }

    /// Whether the node is still there.
    pub(crate) fn is_open(&self) -> bool {
        !self.0.is_closed.load(Ordering::Relaxed)
    }

    pub(crate) fn note_well(&self, took: Duration) {
        let mut health = self.lock();
        health.trouble = None;
        health.round_trip = Some(took);
    }

    pub(crate) fn note_trouble(&self, error: &NodeError) {
        self.lock().trouble = Some(error.clone());
    }

    pub(crate) fn note_version(&self, version: &str) {
        self.lock().version = Some(format!("etcd {version}"));
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

/// One of those that wait.
#[derive(Debug)]
pub(crate) struct Counted(SharedHealth);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.queued.fetch_sub(1, Ordering::Relaxed);
    }
}

/// One of the releases that are to be tried again.
#[derive(Debug)]
pub(crate) struct UnsentRelease(SharedHealth);

impl Drop for UnsentRelease {
    fn drop(&mut self) {
        self.0.0.owed.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_releases_are_owed_and_no_more_until_one_is_paid() {
        let health = SharedHealth::default();
        let mut owed: Vec<_> = (0..MOST_OWED).map(|_| health.owe().unwrap()).collect();
        assert!(health.owe().is_none() && health.owe().is_none());
        owed.pop();
        assert!(health.owe().is_some());
    }
}
