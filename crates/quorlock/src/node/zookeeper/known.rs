//! What our own last write of a name left behind, so that the next one need not read it first.

use crate::context::mutex::Mutex;
use crate::node::zookeeper::stored::Stored;
use quorlock_core::{Moment, Name};
use std::collections::HashMap;
use std::time::Duration;

/// How many names are remembered at least; twice as many at most.
const MIN_NAMES: usize = 2048;
/// For how long. A znode that was deleted because it was idle may have the same version again when it comes
/// back, so this must be far shorter than it stays.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// The znode of a name.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) stored: Stored,
    /// `None` if there is none.
    pub(crate) version: Option<i32>,
    /// The version of the directory, if it must not change either: the znode is so old that it may be deleted
    /// at any time, and have the same version again when it comes back.
    pub(crate) directory: Option<i32>,
}

/// The names that we wrote last, in two generations.
#[derive(Debug, Default)]
pub(crate) struct KnownNames(Mutex<[HashMap<Name, Known>; 2]>);

#[derive(Clone, Debug)]
struct Known {
    found: Found,
    at: Moment,
    /// Whether other clients changed the name lately, so that it is better to read it before it is acquired.
    is_contended: bool,
}

impl KnownNames {
    /// What is known of `name`, and whether other clients changed it lately.
    pub(crate) fn find(&self, name: &Name, now: Moment) -> Option<(Found, bool)> {
        let generations = self.0.lock();
        let known = generations.iter().find_map(|names| names.get(name))?;
        (now.since(known.at) < MAX_AGE).then(|| (known.found.clone(), known.is_contended))
    }

    /// Whether other clients changed `name` since we wrote it, which has `version` now; not if we know nothing
    /// of it.
    pub(crate) fn is_contended(&self, name: &Name, version: Option<i32>) -> bool {
        let generations = self.0.lock();
        let known = generations.iter().find_map(|names| names.get(name));
        known.is_some_and(|known| known.found.version != version)
    }

    pub(crate) fn put(&self, name: &Name, found: Found, now: Moment, is_contended: bool) {
        let mut generations = self.0.lock();
        if generations[0].len() >= MIN_NAMES && !generations[0].contains_key(name) {
            generations[1] = std::mem::take(&mut generations[0]);
        }
        generations[1].remove(name);
        generations[0].insert(name.clone(), Known { found, at: now, is_contended });
    }

    pub(crate) fn forget(&self, name: &Name) {
        self.0.lock().iter_mut().for_each(|names| drop(names.remove(name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_for_a_while_unless_others_change_them() {
        let known = KnownNames::default();
        let (name, start) = (Name::new("a").unwrap(), Moment::from_boot(Duration::from_secs(9)));
        let found = |version| Found { stored: Stored::default(), version: Some(version), directory: None };
        known.put(&name, found(7), start, false);
        assert_eq!(
            known.find(&name, start).map(|(found, is_contended)| (found.version, is_contended)),
            Some((Some(7), false))
        );
        assert!(known.find(&name, start + MAX_AGE).is_none());
        assert_eq!([known.is_contended(&name, Some(7)), known.is_contended(&name, Some(8))], [false, true]);
        known.put(&name, found(8), start, true);
        assert!(known.find(&name, start).is_some_and(|(_, is_contended)| is_contended));
        known.forget(&name);
        assert!(!known.is_contended(&name, None));
    }

    #[test]
    fn the_names_that_were_written_longest_ago_are_forgotten() {
        let known = KnownNames::default();
        let start = Moment::from_boot(Duration::from_secs(9));
        let name = |number: usize| Name::new(number.to_string()).unwrap();
        for number in 0..3 * MIN_NAMES {
            let found = Found { stored: Stored::default(), version: None, directory: None };
            known.put(&name(number), found, start, false);
        }
        assert!(known.find(&name(0), start).is_none());
        assert!(known.find(&name(2 * MIN_NAMES), start).is_some());
        assert!(known.0.lock().iter().map(HashMap::len).sum::<usize>() <= 2 * MIN_NAMES);
    }
}
