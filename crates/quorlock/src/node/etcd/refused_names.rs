//! Names that were not available when they were last asked for.

use crate::context::mutex::Mutex;
use quorlock_core::Name;
use std::collections::BTreeSet;

/// How many names are remembered; all are forgotten when there are more.
const MAX_NAMES: usize = 4096;

/// Names that other clients had.
#[derive(Debug, Default)]
pub(crate) struct RefusedNames(Mutex<BTreeSet<Name>>);

impl RefusedNames {
    pub(crate) fn insert(&self, name: &Name) {
        let mut names = self.0.lock();
        if names.len() >= MAX_NAMES {
            names.clear();
        }
        names.insert(name.clone());
    }

    pub(crate) fn remove(&self, name: &Name) {
        self.0.lock().remove(name);
    }

    pub(crate) fn contains(&self, name: &Name) -> bool {
        self.0.lock().contains(name)
    }
}
