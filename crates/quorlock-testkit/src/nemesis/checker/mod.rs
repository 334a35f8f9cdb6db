//! Checks the history of a run against the promises, once it is complete.

mod exclusion;
mod fences;
pub(crate) mod history;
pub(crate) mod hold;
mod operations;
pub(crate) mod promise;
pub(crate) mod report;
mod uses;

use crate::nemesis::TTL;
use history::History;
use hold::Hold;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a server's unseen loss of memory matters: what it forgot is over after a ttl, and
/// clocks are read some moments apart.
pub(crate) const AFTERMATH: Duration = TTL.saturating_add(Duration::from_millis(50));

impl History {
    /// Searches for holders that exclude each other, for fences that are not unique or go back, for too
    /// many permits, for values that changed under readers, and for holders that were refused.
    pub(crate) fn check(&mut self) {
        for (name, mut holds) in self.by_name() {
            holds.sort_by_key(Hold::noted);
            self.check_exclusion(&name, &holds);
            self.check_fences(&name, &holds);
            self.check_adoptions(&name, &holds);
        }
        self.check_permits();
        self.check_reads();
        self.check_refused_holders();
    }

    /// The holds of each name. One of several names is in the list of each.
    fn by_name(&self) -> BTreeMap<String, Vec<Hold>> {
        let mut by_name: BTreeMap<String, Vec<Hold>> = BTreeMap::new();
        for hold in &self.holds {
            for name in &hold.names {
                by_name.entry(name.clone()).or_default().push(hold.clone());
            }
        }
        by_name
    }

    /// Whether between these moments a server may have forgotten a lock unseen.
    pub(crate) fn is_wild(&self, from: Duration, until: Duration) -> bool {
        self.wild.iter().any(|(start, end)| from <= *end + AFTERMATH && *start <= until)
    }

    /// Whether `name` may have been released from the holder by force before that moment.
    fn is_forced(&self, name: &str, hold: &Hold, at: Duration) -> bool {
        self.forced_at(name, hold).is_some_and(|forced| forced <= at)
    }

    /// When `name` may first have been released from the holder by force.
    pub(crate) fn forced_at(&self, name: &str, hold: &Hold) -> Option<Duration> {
        self.forced.get(&(name.to_owned(), hold.token.clone())).copied()
    }
}

#[cfg(test)]
mod testing;
