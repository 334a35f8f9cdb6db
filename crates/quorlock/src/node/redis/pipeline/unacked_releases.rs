//! Releases that the server has not acknowledged, kept to be sent again.

use crate::node::redis::pipeline::pending::PendingRelease;
use quorlock_core::{Moment, Name, Token};
use std::collections::{HashSet, VecDeque};
use std::time::Duration;

/// The most releases that are kept; the oldest are dropped first, and their locks expire by themselves.
const UNACKED_LIMIT: usize = 4096;

/// Releases to be sent again, each until the lock would have expired anyway.
#[derive(Debug, Default)]
pub(crate) struct UnackedReleases {
    releases: VecDeque<PendingRelease>,
    /// Names, by their numbers, and tokens of acquires that were refused without being sent, so that the releases that follow them
    /// displace none that matters. At most as many as releases; when there are more, all are dropped.
    unsent: HashSet<(u64, Token)>,
}

impl UnackedReleases {
    /// Keeps `release`; if it failed for the first time, for `keep` from `now`.
    pub(crate) fn add(&mut self, mut release: PendingRelease, now: Moment, keep: Duration) {
        release.until.get_or_insert(now + keep);
        release.batch = 0;
        release.sends_script = false;
        release.is_fast = false;
        if self.releases.len() >= UNACKED_LIMIT {
            self.releases.pop_front();
        }
        self.releases.push_back(release);
    }

    /// Records that an acquire of `name` with `token` was never sent.
    pub(crate) fn record_unsent(&mut self, name: &Name, token: Token) {
        if self.unsent.len() >= UNACKED_LIMIT {
            self.unsent.clear();
        }
        self.unsent.insert((name.number(), token));
    }

    /// Whether the server cannot hold `name` with `token`, because it never received that.
    pub(crate) fn is_unsent(&self, name: &Name, token: Token) -> bool {
        self.unsent.contains(&(name.number(), token))
    }

    /// Called when a connection begins: from now on commands are sent.
    pub(crate) fn forget_unsent(&mut self) {
        self.unsent.clear();
    }

    /// Takes the oldest whose lock would not have expired.
    pub(crate) fn take(&mut self, now: Moment) -> Option<PendingRelease> {
        while let Some(release) = self.releases.pop_front() {
            if release.until.is_none_or(|until| until > now) {
                return Some(release);
            }
        }
        None
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.releases.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(number: usize) -> PendingRelease {
        let name = Name::new(format!("n{number}")).unwrap();
        PendingRelease::without_reply(name, Token::from_random([0; 16]))
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn a_release_is_kept_until_its_lock_is_over_however_often_it_fails() {
        let mut unacked = UnackedReleases::default();
        unacked.add(release(1), at(10), Duration::from_secs(5));
        let again = unacked.take(at(14)).unwrap();
        unacked.add(again, at(14), Duration::from_secs(5));
        assert!(unacked.take(at(15)).is_none());
    }

    #[test]
    fn when_too_many_are_kept_the_oldest_is_dropped() {
        let mut unacked = UnackedReleases::default();
        for number in 0..=UNACKED_LIMIT {
            unacked.add(release(number), at(1), Duration::from_secs(5));
        }
        assert_eq!(unacked.take(at(1)).unwrap().name().as_str(), "n1");
        assert_eq!(unacked.releases.len(), UNACKED_LIMIT - 1);
    }
}
