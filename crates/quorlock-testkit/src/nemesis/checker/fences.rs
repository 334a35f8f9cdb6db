//! Checks that fences are unique and ordered, and that a lock that is passed on keeps its own.

use crate::nemesis::checker::history::History;
use crate::nemesis::checker::hold::Hold;
use crate::nemesis::checker::promise::Promise;
use crate::nemesis::client::report_line::Origin;
use quorlock::Mode;
use std::collections::BTreeSet;
use std::time::Duration;

/// The highest fence up to each report of a grant.
#[derive(Default)]
struct Highest(Vec<(Duration, u64)>);

impl Highest {
    fn record(&mut self, noted: Duration, fence: u64) {
        let top = self.0.last().map_or(fence, |(_, top)| fence.max(*top));
        self.0.push((noted, top));
    }

    fn before(&self, at: Duration) -> u64 {
        let count = self.0.partition_point(|(noted, _)| *noted < at);
        self.0[..count].last().map_or(0, |(_, top)| *top)
    }
}

impl History {
    /// `holds` are those of `name`, in the order of their reports.
    ///
    /// A fence is above all that were reported before its call. A client that has the lock now got it
    /// after all that exclude it: a writer's fence is above all that were reported, a reader's above those
    /// of writers. Of a grant that was over before it could be reported only its call is known.
    pub(super) fn check_fences(&mut self, name: &str, holds: &[Hold]) {
        let mut seen = BTreeSet::new();
        let (mut of_all, mut of_writers) = (Highest::default(), Highest::default());
        for hold in holds.iter().filter(|hold| hold.is_grant()) {
            let (noted, fence) = (hold.noted(), hold.fence);
            let is_excused = self.is_wild(noted, noted) || self.is_forced(name, hold, noted);
            let is_held = hold.until(&self.sleeps) > noted && !is_excused;
            let excluded = if hold.mode == Mode::Exclusive { &of_all } else { &of_writers };
            let top = of_all.before(hold.called).max(if is_held { excluded.before(noted) } else { 0 });
            if !seen.insert(fence) {
                let what = format!("fence {fence} of {name} was handed out twice");
                self.violate(Promise::UniqueFences, noted, what);
            } else if fence < top {
                let what = format!("fence {fence} of {name} after {top}");
                self.violate(Promise::IncreasingFences, noted, what);
            }
            of_all.record(noted, fence);
            if hold.mode == Mode::Exclusive {
                of_writers.record(noted, fence);
            }
        }
    }

    /// An adopted lock has the fence that it was granted or upgraded with, and no other that excludes it was
    /// granted between. A downgraded lock keeps its fence.
    pub(super) fn check_adoptions(&mut self, name: &str, holds: &[Hold]) {
        let grants = || holds.iter().filter(|hold| hold.is_grant());
        for passed_on in holds.iter().filter(|hold| !hold.is_grant()) {
            let (at, fence) = (passed_on.noted(), passed_on.fence);
            let of_token = grants().filter(|grant| grant.token == passed_on.token && grant.noted() <= at);
            let Some(first) = of_token.max_by_key(|grant| grant.fence) else {
                // Its first holder was killed before it reported its grant.
                continue;
            };
            if first.fence != fence {
                let what =
                    format!("{name} was granted with fence {} and passed on with {fence}", first.fence);
                self.violate(Promise::UniqueFences, at, what);
            }
            // A lock that is lost can still be downgraded, and stays lost.
            let is_promised = passed_on.origin == Origin::Adopted
                && !self.is_forced(name, passed_on, at)
                && !self.is_wild(first.noted(), at);
            let newer = grants().find(|grant| {
                let is_between = grant.fence > fence && grant.noted() < passed_on.called;
                is_between && grant.token != passed_on.token && grant.mode.conflicts_with(passed_on.mode)
            });
            if let Some(newer) = newer.filter(|_| is_promised) {
                let what = format!("{name} with fence {fence} was adopted after fence {}", newer.fence);
                self.violate(Promise::FinalLoss, at, what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::nemesis::checker::history::History;
    use crate::nemesis::checker::promise::Promise;
    use crate::nemesis::checker::testing::*;
    use crate::nemesis::client::report_line::{Belief, Grant, Origin, ReportLine};
    use quorlock::Mode;

    /// A reader, a lock alone and their fences: `called` and `noted` of the first, then of the second.
    fn order(
        modes: (Mode, Mode),
        (fence, called, noted): (u64, u64, u64),
        other: (u64, u64),
    ) -> Vec<Promise> {
        let mut history = History::new(2);
        hold(&mut history, 0, Origin::Granted, (&["a"], modes.0), other.0, other.1);
        history.record_line(0, ReportLine::Releasing { at: ms(other.1), over: false });
        let belief = Belief { noted: ms(noted), until: ms(noted + 500) };
        let (names, token) = (vec!["a".to_owned()], format!("t{fence}"));
        let grant = Grant { names, mode: modes.1, fence, token, called: ms(called), belief };
        history.record_line(1, ReportLine::Holds(Origin::Granted, grant));
        broken(history)
    }

    #[test]
    fn only_readers_whose_calls_overlap_may_have_their_fences_in_any_order() {
        let (reader, writer) = (Mode::Shared, Mode::Exclusive);
        assert_eq!(order((reader, reader), (1, 900, 1_200), (2, 1_000)), []);
        assert_eq!(order((reader, reader), (1, 1_100, 1_200), (2, 1_000)), [Promise::IncreasingFences]);
        assert_eq!(order((writer, reader), (1, 900, 1_200), (2, 1_000)), [Promise::IncreasingFences]);
        assert_eq!(order((reader, writer), (1, 900, 1_200), (2, 1_000)), [Promise::IncreasingFences]);
    }

    #[test]
    fn a_fence_may_be_the_same_for_another_name() {
        let mut history = History::new(2);
        hold(&mut history, 0, Origin::Granted, (&["a"], Mode::Exclusive), 1, 1_000);
        hold(&mut history, 1, Origin::Granted, (&["b", "c"], Mode::Exclusive), 1, 1_000);
        assert_eq!(broken(history), []);
    }

    #[test]
    fn an_upgrade_has_a_new_fence_and_a_downgrade_the_old_one() {
        let fences = |upgraded, downgraded| {
            let mut history = History::new(1);
            hold(&mut history, 0, Origin::Granted, (&["a"], Mode::Shared), 1, 1_000);
            hold_with(&mut history, 0, Origin::Upgraded, "t1", (&["a"], Mode::Exclusive), upgraded, 1_100);
            hold_with(&mut history, 0, Origin::Downgraded, "t1", (&["a"], Mode::Shared), downgraded, 1_200);
            broken(history)
        };
        assert_eq!(fences(2, 2), []);
        assert_eq!(fences(1, 1), [Promise::UniqueFences]);
        assert_eq!(fences(2, 3), [Promise::UniqueFences]);
    }

    #[test]
    fn a_lost_lock_may_be_downgraded() {
        let mut history = History::new(2);
        grant(&mut history, 0, 1, 1_000, 2_000);
        grant(&mut history, 1, 2, 3_000, 3_100);
        let belief = Belief { noted: ms(3_200), until: ms(3_200) };
        let (names, token) = (vec!["a".to_owned()], "t1".to_owned());
        let lost = Grant { names, mode: Mode::Shared, fence: 1, token, called: ms(3_200), belief };
        history.record_line(0, ReportLine::Holds(Origin::Downgraded, lost));
        assert_eq!(broken(history), []);
    }

    #[test]
    fn a_shared_lock_is_adopted_next_to_readers_and_not_after_a_writer() {
        let adopted_after = |mode| {
            let mut history = History::new(2);
            hold(&mut history, 0, Origin::Granted, (&["a"], Mode::Shared), 1, 1_000);
            history.record_line(0, ReportLine::Releasing { at: ms(1_100), over: false });
            hold(&mut history, 1, Origin::Granted, (&["a"], mode), 2, 1_200);
            history.record_line(1, ReportLine::Releasing { at: ms(1_300), over: false });
            hold_with(&mut history, 0, Origin::Adopted, "t1", (&["a"], Mode::Shared), 1, 1_400);
            broken(history)
        };
        assert_eq!(adopted_after(Mode::Shared), []);
        assert_eq!(adopted_after(Mode::Exclusive), [Promise::FinalLoss]);
    }

    #[test]
    fn a_lock_that_is_adopted_after_another_had_it_is_found() {
        let mut history = History::new(2);
        grant(&mut history, 0, 1, 1_000, 2_000);
        history.record_line(0, ReportLine::Releasing { at: ms(1_200), over: false });
        grant(&mut history, 1, 2, 3_000, 4_000);
        history.record_line(1, ReportLine::Releasing { at: ms(3_100), over: false });
        hold_with(&mut history, 0, Origin::Adopted, "t1", (&["a"], Mode::Exclusive), 1, 3_200);
        assert_eq!(broken(history), [Promise::FinalLoss]);
    }

    #[test]
    fn a_lock_that_is_adopted_with_another_fence_is_found() {
        let mut history = History::new(1);
        grant(&mut history, 0, 1, 1_000, 2_000);
        history.record_line(0, ReportLine::Releasing { at: ms(1_200), over: false });
        hold_with(&mut history, 0, Origin::Adopted, "t1", (&["a"], Mode::Exclusive), 2, 1_300);
        assert_eq!(broken(history), [Promise::UniqueFences]);
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
        let (names, token) = (vec!["a".to_owned()], "t1".to_owned());
        let late = Grant { names, mode: Mode::Exclusive, fence: 1, token, called: ms(900), belief };
        history.record_line(0, ReportLine::Holds(Origin::Granted, late));
        assert_eq!(broken(history), []);
    }
}
