//! Releases that the server has not acknowledged, kept to be sent again.

use super::slot::Releasing;
use quorlock_core::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// The most releases that are kept; the oldest go first, and their locks expire by themselves.
const OWED_LIMIT: usize = 4096;

/// Releases to be sent again, each until the lock would have expired anyway.
#[derive(Debug, Default)]
pub(super) struct Owed(VecDeque<Releasing>);

impl Owed {
    /// Keeps `release`; if it failed for the first time, for `keep` from `now`.
    pub(super) fn add(&mut self, mut release: Releasing, now: Moment, keep: Duration) {
        release.until.get_or_insert(now + keep);
        release.run = 0;
        release.whole = false;
        if self.0.len() >= OWED_LIMIT {
            self.0.pop_front();
        }
        self.0.push_back(release);
    }

    /// Takes the oldest that is still worth sending.
    pub(super) fn take(&mut self, now: Moment) -> Option<Releasing> {
        while let Some(release) = self.0.pop_front() {
            if release.until.is_none_or(|until| until > now) {
                return Some(release);
            }
        }
        None
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::{Name, Token};

    fn release(number: usize) -> Releasing {
        let name = Name::new(format!("n{number}")).unwrap();
        Releasing::new(name, Token::from_random([0; 16]), None)
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn a_release_is_owed_until_its_lock_is_over_however_often_it_fails() {
        let mut owed = Owed::default();
        owed.add(release(1), at(10), Duration::from_secs(5));
        let again = owed.take(at(14)).unwrap();
        owed.add(again, at(14), Duration::from_secs(5));
        assert!(owed.take(at(15)).is_none());
    }

    #[test]
    fn when_too_many_are_owed_the_oldest_is_dropped() {
        let mut owed = Owed::default();
        for number in 0..=OWED_LIMIT {
            owed.add(release(number), at(1), Duration::from_secs(5));
        }
        assert_eq!(owed.take(at(1)).unwrap().name.as_str(), "n1");
        assert_eq!(owed.0.len(), OWED_LIMIT - 1);
    }
}
