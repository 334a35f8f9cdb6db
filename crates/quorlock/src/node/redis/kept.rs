//! Names whose fence counter was told lately how long to be kept, so that not every release tells it again.

use super::run::hash;
use quorlock_core::{Moment, Name};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::Duration;

/// The most names that are remembered; when there are more, all are forgotten.
const MOST: usize = 16 * 1024;
/// How long telling once is enough: a counter is kept for a week.
const LATELY: Duration = Duration::from_secs(3600);

/// The names whose counters one connection has told to be kept.
#[derive(Debug, Default)]
pub(super) struct Kept {
    names: HashSet<u64, BuildHasherDefault<Same>>,
    since: Option<Moment>,
}

impl Kept {
    /// Notes that the counter of `name` is told now; `false` if that was done lately.
    ///
    /// Two names with the same 64 bits of hash are taken for one: a counter may then be kept for ever.
    pub(super) fn tell(&mut self, name: &Name) -> bool {
        if self.names.len() >= MOST {
            self.names.clear();
        }
        self.names.insert(hash(name))
    }

    /// Forgets what was told too long ago.
    pub(super) fn age(&mut self, now: Moment) {
        if self.since.is_none_or(|since| now.since(since) >= LATELY) {
            self.forget();
            self.since = Some(now);
        }
    }

    /// Forgets everything: the server may have, too.
    pub(super) fn forget(&mut self) {
        self.names.clear();
    }
}

/// Hashes a number that is a hash already to itself.
#[derive(Debug, Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_told_once_an_hour_and_after_the_server_forgot() {
        let at = |seconds| Moment::from_boot(Duration::from_secs(seconds));
        let name = Name::new("a").unwrap();
        let mut kept = Kept::default();
        kept.age(at(10));
        assert!(kept.tell(&name) && !kept.tell(&name));
        assert!(kept.tell(&Name::new("b").unwrap()));
        kept.age(at(3000));
        assert!(!kept.tell(&name));
        kept.age(at(3700));
        assert!(kept.tell(&name));
        kept.forget();
        assert!(kept.tell(&name));
    }

    #[test]
    fn only_so_many_names_are_remembered() {
        let mut kept = Kept::default();
        for number in 0..3 * MOST {
            kept.tell(&Name::new(format!("n{number}")).unwrap());
        }
        assert!(kept.names.len() <= MOST);
    }
}
