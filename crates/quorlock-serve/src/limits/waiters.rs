//! Counts the calls that wait for a lock, by name and in all.

use crate::problem::Problem;
use quorlock::Name;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The calls that wait, at most `limit`.
#[derive(Clone, Debug)]
pub(crate) struct Waiters {
    limit: usize,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    total: usize,
    by_name: HashMap<Name, usize>,
}

/// Permission for one call to wait, until it is dropped.
#[derive(Debug)]
pub(crate) struct WaiterPermit {
    waiters: Waiters,
    names: Vec<Name>,
}

impl Waiters {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, counts: Arc::default() }
    }

    /// Permits one more call to wait for all of `names`.
    pub(crate) fn permit(&self, names: &[Name]) -> Result<WaiterPermit, Problem> {
        let mut counts = self.counts();
        if counts.total >= self.limit {
            return Err(Problem::too_many_waiters(format!(
                "{} calls wait for locks here already; try later, or ask another sidecar",
                counts.total
            )));
        }
        counts.total += 1;
        for name in names {
            *counts.by_name.entry(name.clone()).or_default() += 1;
        }
        Ok(WaiterPermit { waiters: self.clone(), names: names.to_vec() })
    }

    /// How many calls wait in all.
    pub(crate) fn total(&self) -> usize {
        self.counts().total
    }

    /// How many calls wait for `name`.
    pub(crate) fn count(&self, name: &Name) -> usize {
        self.counts().by_name.get(name).copied().unwrap_or_default()
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaiterPermit {
    fn drop(&mut self) {
        let mut counts = self.waiters.counts();
        counts.total -= 1;
        for name in &self.names {
            if let Some(count) = counts.by_name.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    counts.by_name.remove(name);
                }
            }
        }
    }
}
