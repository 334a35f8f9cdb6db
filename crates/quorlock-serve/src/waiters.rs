//! Counts the calls that wait for a lock, by name and in all.

use crate::problem::Problem;
use quorlock::Name;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Who waits for what.
#[derive(Clone, Debug)]
pub(crate) struct Waiters {
    limit: usize,
    line: Arc<Mutex<Line>>,
}

#[derive(Debug, Default)]
struct Line {
    total: usize,
    names: HashMap<Name, usize>,
}

/// A place among those who wait, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    line: Arc<Mutex<Line>>,
    name: Name,
}

impl Waiters {
    pub(crate) fn up_to(limit: usize) -> Self {
        Self { limit, line: Arc::default() }
    }

    /// A place for one more.
    pub(crate) fn join(&self, name: &Name) -> Result<Place, Problem> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.total >= self.limit {
            let detail = format!(
                "{} calls wait for locks here already; try later, or ask another sidecar",
                line.total
            );
            return Err(Problem::crowded(detail));
        }
        line.total += 1;
        *line.names.entry(name.clone()).or_default() += 1;
        Ok(Place { line: self.line.clone(), name: name.clone() })
    }

    /// How many wait in all.
    pub(crate) fn total(&self) -> usize {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// How many wait for `name`.
    pub(crate) fn of(&self, name: &Name) -> usize {
        let line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.names.get(name).copied().unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.total -= 1;
        if let Some(count) = line.names.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                line.names.remove(&self.name);
            }
        }
    }
}
