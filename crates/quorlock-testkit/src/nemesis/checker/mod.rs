//! Checks the history of a run against the promises, once it is complete.

pub(crate) mod history;
mod operations;
pub(crate) mod report;

use crate::nemesis::TTL;
use history::{History, Hold, Promise, Sleep};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long a server's unseen loss of memory matters: what it forgot is over after a ttl, and
/// clocks are read some moments apart.
pub(crate) const AFTERMATH: Duration = TTL.saturating_add(Duration::from_millis(50));

impl History {
    /// Searches for two holders, for fences that are not unique or go back, and for holders that
    /// were refused.
    pub(crate) fn check(&mut self) {
        let mut by_name: BTreeMap<String, Vec<Hold>> = BTreeMap::new();
        for hold in &self.holds {
            by_name.entry(hold.name.clone()).or_default().push(hold.clone());
        }
        for mut holds in by_name.into_values() {
            holds.sort_by_key(Hold::noted);
            self.check_exclusion(&holds);
            self.check_fences(&holds);
            self.check_adoptions(&holds);
        }
        for (client, at, hold) in self.refused_holders.clone() {
            let is_forced = hold.is_some_and(|hold| self.is_forced(&self.holds[hold], at));
            if !is_forced && !self.is_wild(at, at) {
                let what = format!("client {client} holds a lock and its fence is refused");
                self.violate(Promise::NoHolderRefused, at, what);
            }
        }
    }

    /// Whether between these moments a server may have forgotten a lock unseen.
    pub(crate) fn is_wild(&self, from: Duration, until: Duration) -> bool {
        self.wild.iter().any(|(start, end)| from <= *end + AFTERMATH && *start <= until)
    }

    /// Whether its lock may have been released by force before that moment.
    fn is_forced(&self, hold: &Hold, at: Duration) -> bool {
        self.forced.get(&hold.token).is_some_and(|forced| *forced <= at)
    }

    /// An adopted lock has the fence that it was granted with, and no other was granted between.
    fn check_adoptions(&mut self, holds: &[Hold]) {
        let grants = || holds.iter().filter(|hold| !hold.is_adopted);
        for adopted in holds.iter().filter(|hold| hold.is_adopted) {
            let (at, fence, name) = (adopted.noted(), adopted.fence, &adopted.name);
            let Some(first) = grants().find(|grant| grant.token == adopted.token) else {
                // Its first holder was killed before it reported its grant.
                continue;
            };
            if first.fence != fence {
                let what = format!("{name} was granted with fence {} and adopted with {fence}", first.fence);
                self.violate(Promise::UniqueFences, at, what);
            }
            let is_promised = !self.is_forced(adopted, at) && !self.is_wild(first.noted(), at);
            let newer = grants().find(|grant| grant.fence > fence && grant.noted() < adopted.called);
            if let Some(newer) = newer.filter(|_| is_promised) {
                let what = format!("{name} with fence {fence} was adopted after fence {}", newer.fence);
                self.violate(Promise::FinalLoss, at, what);
            }
        }
    }

    fn check_exclusion(&mut self, holds: &[Hold]) {
        let mut open: Vec<(&Hold, Duration)> = Vec::new();
        for hold in holds {
            let (from, until) = (hold.noted(), hold.until(&self.sleeps));
            open.retain(|(_, end)| *end > from);
            if until <= from {
                continue;
            }
            for (other, end) in &open {
                let shared = until.min(*end) - from;
                if self.is_wild(from, until.min(*end)) {
                    self.excused += 1;
                    continue;
                }
                // A client that was released by force cannot extend once another has a majority.
                let is_forced = self.is_forced(other, from) || self.is_forced(hold, from);
                if is_forced && shared <= AFTERMATH {
                    self.forced_double_holds += 1;
                    continue;
                }
                let what = format!(
                    "clients {} (fence {}) and {} (fence {}) both hold {} for {:?}",
                    other.client, other.fence, hold.client, hold.fence, hold.name, shared
                );
                self.violate(Promise::Exclusion, from, what);
            }
            open.push((hold, until));
        }
    }

    fn check_fences(&mut self, holds: &[Hold]) {
        let mut all = BTreeSet::new();
        // When each grant was noted, and the highest fence up to it.
        let mut highest: Vec<(Duration, u64)> = Vec::new();
        for hold in holds.iter().filter(|hold| !hold.is_adopted) {
            let (noted, fence, name) = (hold.noted(), hold.fence, &hold.name);
            let is_excused = self.is_wild(noted, noted) || self.is_forced(hold, noted);
            let is_held = hold.until(&self.sleeps) > noted && !is_excused;
            // A client that holds the lock now got it after all others. A grant that was over
            // before it could be noted only follows those that were noted before its call.
            let before = if is_held { noted } else { hold.called };
            let count = highest.partition_point(|(at, _)| *at < before);
            let top = highest[..count].last().map_or(0, |(_, top)| *top);
            if !all.insert(fence) {
                let what = format!("fence {fence} of {name} was handed out twice");
                self.violate(Promise::UniqueFences, noted, what);
            } else if fence < top {
                self.violate(
                    Promise::IncreasingFences,
                    noted,
                    format!("fence {fence} of {name} after {top}"),
                );
            }
            let top = highest.last().map_or(fence, |(_, top)| fence.max(*top));
            highest.push((noted, top));
        }
    }
}

impl Hold {
    /// When the client knew that it had the lock.
    pub(crate) fn noted(&self) -> Duration {
        self.beliefs[0].noted
    }

    /// Until when it believed to have it, in true time. A sleep takes from what was believed
    /// before.
    pub(crate) fn until(&self, sleeps: &[Sleep]) -> Duration {
        let mut until = Duration::ZERO;
        for belief in &self.beliefs {
            let mine = sleeps.iter().filter(|sleep| sleep.client == self.client && sleep.at > belief.noted);
            let believed = mine.fold(belief.until, |until, sleep| match until > sleep.at {
                true => until.saturating_sub(sleep.by).max(sleep.at),
                false => until,
            });
            until = until.max(believed);
        }
        self.end.map_or(until, |end| until.min(end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nemesis::client::report_line::{Belief, ReportLine};

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn grant(history: &mut History, client: usize, fence: u64, noted: u64, until: u64) {
        let belief = Belief { noted: ms(noted), until: ms(until) };
        let (name, token, called) = ("a".to_owned(), format!("t{fence}"), ms(noted - 5));
        history.record_line(client, ReportLine::Granted { name, fence, token, called, belief });
    }

    /// Adopts the lock that was granted with the fence `granted`.
    fn adopt(history: &mut History, client: usize, granted: u64, fence: u64, noted: u64) {
        let belief = Belief { noted: ms(noted), until: ms(noted + 1_000) };
        let (name, token, called) = ("a".to_owned(), format!("t{granted}"), ms(noted - 5));
        history.record_line(client, ReportLine::Adopted { name, fence, token, called, belief });
    }

    fn force(history: &mut History, client: usize, fence: u64, at: u64) {
        history.record_line(client, ReportLine::Forced { token: format!("t{fence}"), at: ms(at) });
    }

    #[test]
    fn an_adopted_lock_is_the_same_hold_with_a_new_owner() {
        let mut history = History::new(3);
        grant(&mut history, 0, 1, 1_000, 2_000);
        history.record_line(0, ReportLine::Releasing { at: ms(1_200), over: false });
        adopt(&mut history, 1, 1, 1, 1_300);
        assert_eq!(broken(history.clone()), []);
        grant(&mut history, 2, 2, 1_400, 2_400);
        assert_eq!(broken(history), [Promise::Exclusion]);
    }

    #[test]
    fn a_lock_that_is_adopted_after_another_had_it_is_found() {
        let mut history = History::new(2);
        grant(&mut history, 0, 1, 1_000, 2_000);
        history.record_line(0, ReportLine::Releasing { at: ms(1_200), over: false });
        grant(&mut history, 1, 2, 3_000, 4_000);
        history.record_line(1, ReportLine::Releasing { at: ms(3_100), over: false });
        adopt(&mut history, 0, 1, 1, 3_200);
        assert_eq!(broken(history), [Promise::FinalLoss]);
    }

    #[test]
    fn a_lock_that_is_adopted_with_another_fence_is_found() {
        let mut history = History::new(1);
        grant(&mut history, 0, 1, 1_000, 2_000);
        history.record_line(0, ReportLine::Releasing { at: ms(1_200), over: false });
        adopt(&mut history, 0, 1, 2, 1_300);
        assert_eq!(broken(history), [Promise::UniqueFences]);
    }

    #[test]
    fn a_holder_that_was_released_by_force_may_share_the_lock_for_a_ttl_and_not_longer() {
        let shared_for = |until| {
            let mut history = History::new(3);
            grant(&mut history, 0, 1, 1_000, until);
            force(&mut history, 2, 1, 1_100);
            grant(&mut history, 1, 2, 1_200, 4_000);
            history.check();
            (history.forced_double_holds, history.violations().len())
        };
        assert_eq!((shared_for(2_000), shared_for(3_000)), ((1, 0), (0, 1)));
    }

    #[test]
    fn two_at_once_before_the_forced_release_are_not_excused() {
        let mut history = History::new(3);
        grant(&mut history, 0, 1, 1_000, 2_000);
        grant(&mut history, 1, 2, 1_200, 2_200);
        force(&mut history, 2, 1, 1_300);
        assert_eq!(broken(history), [Promise::Exclusion]);
    }

    fn broken(mut history: History) -> Vec<Promise> {
        history.check();
        history.violations().iter().map(|violation| violation.promise).collect()
    }

    #[test]
    fn two_at_once_are_found_although_their_lines_come_late() {
        let mut history = History::new(2);
        grant(&mut history, 1, 2, 1_500, 2_500);
        grant(&mut history, 0, 1, 1_000, 2_000);
        assert_eq!(broken(history), [Promise::Exclusion]);
    }

    #[test]
    fn one_after_another_is_fine_whether_let_go_or_over() {
        let mut history = History::new(3);
        grant(&mut history, 0, 1, 1_000, 2_000);
        history.record_line(0, ReportLine::Releasing { at: ms(1_200), over: false });
        grant(&mut history, 1, 2, 1_300, 2_300);
        grant(&mut history, 2, 3, 2_301, 3_301);
        assert_eq!(broken(history), []);
    }

    #[test]
    fn an_extension_counts() {
        let mut history = History::new(2);
        grant(&mut history, 0, 1, 1_000, 2_000);
        history.record_line(0, ReportLine::Extended(Belief { noted: ms(1_500), until: ms(2_500) }));
        grant(&mut history, 1, 2, 2_200, 3_200);
        assert_eq!(broken(history), [Promise::Exclusion]);
    }

    #[test]
    fn a_client_that_slept_knows_that_its_lock_is_over() {
        let mut history = History::new(2);
        grant(&mut history, 0, 1, 1_000, 2_000);
        history.sleeps.push(Sleep { client: 0, at: ms(1_100), by: ms(5_000) });
        grant(&mut history, 1, 2, 1_101, 2_000);
        assert_eq!(broken(history), []);
    }

    #[test]
    fn two_at_once_are_excused_while_a_server_forgets_unseen_and_fences_are_not() {
        let mut history = History::new(2);
        history.wild.push((ms(1_100), ms(1_100)));
        grant(&mut history, 0, 2, 1_000, 2_000);
        grant(&mut history, 1, 2, 1_500, 2_500);
        history.check();
        assert_eq!(history.excused, 1);
        assert_eq!(history.violations()[0].promise, Promise::UniqueFences);
    }

    #[test]
    fn a_refused_holder_is_excused_only_while_a_server_forgets_unseen() {
        let mut history = History::new(1);
        history.record_line(0, ReportLine::FencedOff { at: ms(1_000), held: true });
        history.record_line(0, ReportLine::FencedOff { at: ms(5_000), held: true });
        history.record_line(0, ReportLine::FencedOff { at: ms(6_000), held: false });
        history.wild.push((ms(900), ms(900)));
        assert_eq!(broken(history), [Promise::NoHolderRefused]);
    }

    #[test]
    fn a_fence_that_goes_back_is_found() {
        let mut history = History::new(2);
        grant(&mut history, 0, 2, 1_000, 1_100);
        grant(&mut history, 1, 1, 1_200, 1_300);
        assert_eq!(broken(history), [Promise::IncreasingFences]);
    }

    #[test]
    fn a_grant_that_is_noted_when_it_is_over_may_have_the_lower_fence() {
        let mut history = History::new(2);
        grant(&mut history, 1, 2, 1_200, 1_300);
        let belief = Belief { noted: ms(5_000), until: ms(5_000) };
        let (name, token) = ("a".to_owned(), "t1".to_owned());
        let late = ReportLine::Granted { name, fence: 1, token, called: ms(900), belief };
        history.record_line(0, late);
        assert_eq!(broken(history), []);
    }
}
