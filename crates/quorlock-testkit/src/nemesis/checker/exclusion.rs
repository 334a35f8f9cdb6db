//! Checks that no client has a name next to one that has it alone, and that permits are never too many.

use crate::nemesis::checker::AFTERMATH;
use crate::nemesis::checker::history::History;
use crate::nemesis::checker::hold::Hold;
use crate::nemesis::checker::promise::Promise;
use crate::nemesis::{SEMAPHORE, SLOTS};
use std::time::Duration;

impl History {
    /// `holds` are those of `name`, in the order of their reports.
    pub(super) fn check_exclusion(&mut self, name: &str, holds: &[Hold]) {
        let mut open: Vec<(&Hold, Duration)> = Vec::new();
        for hold in holds {
            let (from, until) = (hold.noted(), hold.until(&self.sleeps));
            open.retain(|(_, end)| *end > from);
            if until <= from {
                continue;
            }
            for (other, end) in &open {
                self.check_pair(name, (other, hold), until.min(*end));
            }
            open.push((hold, until));
        }
    }

    /// Two clients have `name` from the later grant until `until`.
    fn check_pair(&mut self, name: &str, (other, hold): (&Hold, &Hold), until: Duration) {
        let (from, shared) = (hold.noted(), until - hold.noted());
        if !hold.mode.conflicts_with(other.mode) {
            self.readers_together += 1;
            return;
        }
        if self.is_wild(from, until) {
            self.excused += 1;
            return;
        }
        // A client that was released by force cannot extend once another has a majority.
        let is_forced = self.is_forced(name, other, from) || self.is_forced(name, hold, from);
        if is_forced && shared <= AFTERMATH {
            self.forced_double_holds += 1;
            return;
        }
        let one = |hold: &Hold| format!("client {} ({}, fence {})", hold.client, hold.mode, hold.fence);
        let what = format!("{} and {} both hold {name} for {shared:?}", one(other), one(hold));
        self.violate(Promise::Exclusion, from, what);
    }

    /// Counts the slots that are held at each grant of a permit.
    pub(super) fn check_permits(&mut self) {
        let mut permits: Vec<Hold> = self.holds.iter().filter(|hold| hold.is_permit()).cloned().collect();
        permits.sort_by_key(Hold::noted);
        let mut open: Vec<(&Hold, Duration)> = Vec::new();
        for hold in &permits {
            let (from, until) = (hold.noted(), hold.until(&self.sleeps));
            open.retain(|(_, end)| *end > from);
            if until <= from {
                continue;
            }
            self.permits_together += u64::from(!open.is_empty());
            open.push((hold, until));
            let is_counted = |hold: &Hold| hold.names.iter().all(|slot| !self.is_forced(slot, hold, from));
            let counted = open.iter().filter(|(hold, _)| is_counted(hold));
            let slots: usize = counted.map(|(hold, _)| hold.names.len()).sum();
            if slots > SLOTS as usize && !self.is_wild(from, from) {
                let what = format!("{slots} slots of {SEMAPHORE} are held, which has {SLOTS}");
                self.violate(Promise::Permits, from, what);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::nemesis::checker::history::History;
    use crate::nemesis::checker::hold::Sleep;
    use crate::nemesis::checker::promise::Promise;
    use crate::nemesis::checker::testing::*;
    use crate::nemesis::client::report_line::{Belief, Origin, ReportLine};
    use crate::nemesis::slot_names;
    use quorlock::Mode;

    #[test]
    fn readers_may_share_a_lock_and_a_writer_may_not_join_them() {
        let mut history = History::new(3);
        hold(&mut history, 0, Origin::Granted, (&["a"], Mode::Shared), 1, 1_000);
        hold(&mut history, 1, Origin::Granted, (&["a"], Mode::Shared), 2, 1_100);
        assert_eq!(broken(history.clone()), []);
        history.check();
        assert_eq!(history.readers_together, 1);
        let mut before = history.clone();
        hold(&mut history, 2, Origin::Granted, (&["a"], Mode::Exclusive), 3, 1_200);
        assert_eq!(broken(history), [Promise::Exclusion, Promise::Exclusion]);
        hold(&mut before, 2, Origin::Granted, (&["b"], Mode::Exclusive), 3, 1_200);
        assert_eq!(broken(before), []);
    }

    #[test]
    fn a_reader_next_to_a_writer_is_found() {
        let mut history = History::new(2);
        grant(&mut history, 0, 1, 1_000, 2_000);
        hold(&mut history, 1, Origin::Granted, (&["a"], Mode::Shared), 2, 1_100);
        assert_eq!(broken(history), [Promise::Exclusion]);
    }

    #[test]
    fn sets_exclude_each_other_where_they_have_a_name_in_common() {
        let both = |other: &[&str]| {
            let mut history = History::new(2);
            hold(&mut history, 0, Origin::Granted, (&["a", "b"], Mode::Exclusive), 1, 1_000);
            hold(&mut history, 1, Origin::Granted, (other, Mode::Exclusive), 2, 1_100);
            broken(history)
        };
        assert_eq!(both(&["c", "d"]), []);
        assert_eq!(both(&["b", "c"]), [Promise::Exclusion]);
        assert_eq!(both(&["a", "b"]), [Promise::Exclusion, Promise::Exclusion]);
    }

    #[test]
    fn a_lock_may_be_shared_from_its_downgrade_on() {
        let shared_at = |at| {
            let mut history = History::new(2);
            grant(&mut history, 0, 1, 1_000, 2_000);
            hold(&mut history, 0, Origin::Downgraded, (&["a"], Mode::Shared), 1, 1_100);
            hold(&mut history, 1, Origin::Granted, (&["a"], Mode::Shared), 2, at);
            broken(history)
        };
        assert_eq!(shared_at(1_101), []);
        assert_eq!(shared_at(1_099), [Promise::Exclusion]);
    }

    #[test]
    fn an_upgrade_next_to_another_reader_is_found() {
        let upgraded_at = |at| {
            let mut history = History::new(2);
            hold(&mut history, 0, Origin::Granted, (&["a"], Mode::Shared), 1, 1_000);
            hold(&mut history, 1, Origin::Granted, (&["a"], Mode::Shared), 2, 1_100);
            history.record_line(1, ReportLine::Releasing { at: ms(1_200), over: false });
            hold(&mut history, 0, Origin::Upgraded, (&["a"], Mode::Exclusive), 3, at);
            broken(history)
        };
        assert_eq!(upgraded_at(1_210), []);
        assert_eq!(upgraded_at(1_150), [Promise::Exclusion]);
    }

    #[test]
    fn permits_are_as_many_as_slots_and_not_more() {
        let slots = slot_names();
        let mut history = History::new(4);
        for (client, slot) in slots.iter().enumerate() {
            hold(&mut history, client, Origin::Granted, (&[slot], Mode::Exclusive), 1, 1_000 + client as u64);
        }
        history.check();
        assert_eq!((history.violations().len(), history.permits_together), (0, 2));
        hold(&mut history, 3, Origin::Granted, (&[&slots[0]], Mode::Exclusive), 2, 1_500);
        assert_eq!(broken(history), [Promise::Exclusion, Promise::Permits]);
    }

    #[test]
    fn a_forced_release_excuses_the_name_that_it_was_of_and_no_other() {
        let forced_of = |name: &str| {
            let mut history = History::new(3);
            hold(&mut history, 0, Origin::Granted, (&["a", "b"], Mode::Exclusive), 1, 1_000);
            let (name, token) = (name.to_owned(), "t1".to_owned());
            history.record_line(2, ReportLine::Forced { name, token, at: ms(1_100) });
            hold(&mut history, 1, Origin::Granted, (&["a"], Mode::Exclusive), 2, 1_200);
            broken(history)
        };
        assert_eq!(forced_of("a"), []);
        assert_eq!(forced_of("b"), [Promise::Exclusion]);
    }

    #[test]
    fn an_adopted_lock_is_the_same_hold_with_a_new_owner() {
        let mut history = History::new(3);
        grant(&mut history, 0, 1, 1_000, 2_000);
        history.record_line(0, ReportLine::Releasing { at: ms(1_200), over: false });
        hold_with(&mut history, 1, Origin::Adopted, "t1", (&["a"], Mode::Exclusive), 1, 1_300);
        assert_eq!(broken(history.clone()), []);
        grant(&mut history, 2, 2, 1_400, 2_400);
        assert_eq!(broken(history), [Promise::Exclusion]);
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
}
