//! Whether a server's vote counts: the epoch that was verified, and from when on it may vote.

use crate::node::NodeError;
use crate::node::redis::link::epoch::{Epoch, quarantine};
use crate::node::redis::protocol::resp::Value;
use quorlock_core::{Moment, Wall};
use std::time::Duration;

/// An epoch that was verified on this connection or an earlier one.
#[derive(Clone, Debug)]
pub(crate) struct Verified {
    epoch: Epoch,
    /// The server's wall clock and ours when it was last read.
    read: (Wall, Moment),
    /// When we first saw it, by our own clock.
    seen_at: Moment,
    /// What we knew before this reading: it cannot vote sooner.
    not_before: Moment,
    /// Whether it is older than the epoch that we saw here before: the server was away and came back.
    came_back: bool,
}

/// How much the age of an epoch may be off, because answers take time. Clocks run at slightly different
/// rates as well.
const AGE_SLACK: Duration = Duration::from_millis(100);

impl Verified {
    /// The epoch as it follows from a reading at `now`, after `before`.
    ///
    /// An epoch that was known keeps the later of both ends on our own clock, so that a jump of the
    /// server's clock does not lift its quarantine. At the latest it ends a quarantine after we first saw
    /// it, so that a server clock that was set back does not lengthen it by the time that it was wrong.
    /// An epoch that began before we last saw another one here is that of a server which was replaced and
    /// came back: it knows nothing of what happened in the meantime, however old it is.
    pub(crate) fn new((epoch, there): (&Epoch, Wall), before: Option<&Verified>, now: Moment) -> Self {
        let fresh = Self {
            epoch: epoch.clone(),
            read: (there, now),
            seen_at: now,
            not_before: now,
            came_back: false,
        };
        match before {
            None => fresh,
            Some(before) if before.nonce() == epoch.nonce() => Self {
                seen_at: before.seen_at,
                // By its own record: if that has been raised since, the same reading shows it.
                not_before: before.eligible_at(Duration::ZERO),
                came_back: before.came_back,
                ..fresh
            },
            Some(before) => Self { came_back: before.is_newer_than(epoch, there, now), ..fresh },
        }
    }

    /// Whether `epoch`, which was read at `now`, began before this one was last seen.
    fn is_newer_than(&self, epoch: &Epoch, there: Wall, now: Moment) -> bool {
        if self.epoch.run_id() == epoch.run_id() {
            // One server with one clock: its databases changed places.
            return epoch.began < self.epoch.began;
        }
        let since = now.since(self.read.1);
        epoch.age(there) > since + since / 100 + AGE_SLACK
    }

    pub(crate) fn nonce(&self) -> &[u8] {
        self.epoch.nonce()
    }

    pub(crate) fn longest(&self) -> Duration {
        self.epoch.longest
    }

    fn eligible_at(&self, recorded: Duration) -> Moment {
        let latest = self.seen_at + quarantine(recorded.max(self.epoch.longest));
        let (there, here) = self.read;
        let due = here + self.epoch.left(there, recorded);
        if self.came_back { latest } else { due.max(self.not_before).min(latest) }
    }

    /// How long the server may not vote yet, where `recorded` is the longest ttl that any node has recorded.
    pub(crate) fn left(&self, recorded: Duration, now: Moment) -> Duration {
        now.until(self.eligible_at(recorded))
    }
}

/// What is known about the server's memory.
#[derive(Clone, Debug)]
pub(crate) enum VotingRight {
    /// The restart guard is off: every answer counts.
    Unguarded,
    /// Nothing is known, or what was known is no longer true.
    Unverified,
    /// The server has no epoch of this run: it is new, restarted or was emptied, and no client has begun one.
    NoEpoch,
    /// The epoch is known; it may still be too young.
    Verified {
        epoch: Verified,
        /// The longest recorded ttl for which it was found old enough; once old enough, it stays so.
        mature: Option<Duration>,
    },
}

impl VotingRight {
    /// Whether the server's vote counts, where `recorded` is the longest ttl that any node has recorded.
    pub(crate) fn admit(
        &mut self,
        recorded: Duration,
        now: impl FnOnce() -> Moment,
    ) -> Result<(), NodeError> {
        match self {
            VotingRight::Unguarded => Ok(()),
            VotingRight::NoEpoch => Err(NodeError::NoEpoch),
            VotingRight::Unverified => Err(NodeError::EpochChanged),
            VotingRight::Verified { mature: Some(checked), .. } if *checked >= recorded => Ok(()),
            VotingRight::Verified { epoch, mature } => match epoch.left(recorded, now()) {
                Duration::ZERO => {
                    *mature = Some(recorded);
                    Ok(())
                }
                left => Err(NodeError::Quarantined { left }),
            },
        }
    }

    /// The longest ttl that may be used with the server; `None` if there is no limit or none is known.
    pub(crate) fn longest(&self) -> Option<Duration> {
        match self {
            VotingRight::Verified { epoch, .. } => Some(epoch.longest()),
            VotingRight::Unguarded | VotingRight::NoEpoch | VotingRight::Unverified => None,
        }
    }

    /// Whether `read`, the epoch without its first `skip` bytes as a vote found it after it was cast, is
    /// the one that was verified.
    pub(crate) fn confirms(&self, read: &Value, skip: usize) -> bool {
        match (self, read) {
            (VotingRight::Unguarded, _) => true,
            (VotingRight::Verified { epoch, .. }, Value::Text(read)) => {
                epoch.epoch.value.get(skip..) == Some(read)
            }
            _ => false,
        }
    }

    /// Whether `read` is the epoch that was verified, read for other votes: another number of bytes is
    /// missing.
    pub(crate) fn is_misplaced(&self, read: &Value, skip: usize) -> bool {
        match (self, read) {
            (VotingRight::Verified { epoch, .. }, Value::Text(read)) => {
                !read.is_empty()
                    && epoch.epoch.value.ends_with(read)
                    && epoch.epoch.value.len() != read.len() + skip
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::redis::link::epoch::Reading;
    use proptest::prelude::*;

    const LONGEST: Duration = Duration::from_secs(30);

    /// An epoch that began at `began` with a quarantine of 40 s, in seconds of the server's clock, in a
    /// run of its own.
    fn epoch(nonce: &str, began: u64) -> Epoch {
        let stored = format!("v2:{nonce}:{began}000:{}000:30000:0:n:{nonce}", began + 40);
        Epoch::of_stored(stored.as_bytes()).unwrap().1
    }

    fn wall(seconds: u64) -> Wall {
        Wall::from_micros(seconds * 1_000_000)
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_boot(secs(seconds))
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn verified(epoch: &Epoch, there: u64, before: Option<&Verified>, here: u64) -> Verified {
        Verified::new((epoch, wall(there)), before, at(here))
    }

    #[test]
    fn a_young_epoch_waits_for_the_longest_ttl_and_twice_the_tolerance() {
        let table = "
            began  now   left
            1000   1000  40
            1000   1039  1
            1000   1040  0
            1000   9000  0
            1000   900   40";
        for row in table.lines().skip(2) {
            let cells: Vec<u64> = row.split_whitespace().map(|c| c.parse().unwrap()).collect();
            let epoch = verified(&epoch("n", cells[0]), cells[1], None, 5);
            assert_eq!(epoch.left(LONGEST, at(5)), secs(cells[2]), "{row}");
        }
    }

    /// Goal: a node that forgot what others recorded waits for what they recorded.
    #[test]
    fn a_node_that_recorded_less_than_others_waits_for_theirs() {
        let epoch = verified(&epoch("n", 1000), 1000, None, 0);
        for (recorded, left) in [(0, 40), (30, 40), (31, 41), (120, 130)] {
            assert_eq!(epoch.left(secs(recorded), at(0)), secs(left), "{recorded}");
        }
        let mut voting_right = VotingRight::Verified { epoch, mature: None };
        assert!(voting_right.admit(LONGEST, || at(40)).is_ok());
        let refused = voting_right.admit(secs(120), || at(41));
        assert!(matches!(refused, Err(NodeError::Quarantined { left }) if left == secs(89)), "{refused:?}");
        assert!(voting_right.admit(secs(120), || at(130)).is_ok());
    }

    #[test]
    fn a_node_that_votes_goes_on_when_its_longest_ttl_is_raised() {
        let before = verified(&epoch("n", 1000), 1050, None, 50);
        assert_eq!(before.left(LONGEST, at(50)), Duration::ZERO);
        let raised = Epoch { longest: secs(86_400), ..epoch("n", 1000) };
        let after = Verified::new((&raised, wall(1060)), Some(&before), at(60));
        assert_eq!(after.left(secs(86_400), at(60)), Duration::ZERO);
    }

    #[test]
    fn a_jump_of_the_server_clock_does_not_lift_the_quarantine() {
        let young = verified(&epoch("n", 1000), 1000, None, 0);
        let jumped = verified(&epoch("n", 1000), 5000, Some(&young), 1);
        assert_eq!(jumped.left(LONGEST, at(1)), secs(39));
    }

    /// Goal: a server that began its epoch with a clock far ahead is not out for as long as the clock was
    /// wrong.
    #[test]
    fn a_server_clock_that_was_set_back_keeps_an_epoch_young_for_one_quarantine_only() {
        let begun = verified(&epoch("n", 9000), 9000, None, 0);
        let later = |before, now| verified(&epoch("n", 9000), 1000 + now, Some(before), now);
        let checked = later(&begun, 1);
        assert_eq!(checked.left(LONGEST, at(1)), secs(39));
        let checked = later(&checked, 39);
        assert_eq!(checked.left(LONGEST, at(39)), secs(1));
        let checked = later(&checked, 5000);
        assert_eq!(checked.left(LONGEST, at(5000)), Duration::ZERO, "once old enough, always");
    }

    /// Goal: a server that was replaced and came back does not vote with what it knew before.
    #[test]
    fn an_older_epoch_than_the_one_before_it_is_that_of_a_server_that_came_back() {
        let replaced = verified(&epoch("y", 5000), 5100, None, 100);
        let back = verified(&epoch("x", 1000), 5110, Some(&replaced), 110);
        assert_eq!(back.left(LONGEST, at(110)), secs(40), "however old it is");
        let again = verified(&epoch("x", 1000), 5130, Some(&back), 130);
        assert_eq!(again.left(LONGEST, at(130)), secs(20), "counted from when it came back");
        assert_eq!(again.left(LONGEST, at(150)), Duration::ZERO);
    }

    #[test]
    fn of_one_server_an_epoch_that_began_earlier_is_that_of_another_database() {
        let of_run = |nonce: &str, began: u64| {
            let stored = format!("v2:ab:{began}000:{began}000:30000:0:n:{nonce}");
            Epoch::of_stored(stored.as_bytes()).unwrap().1
        };
        let swapped = verified(&of_run("y", 5000), 5001, None, 100);
        let back = verified(&of_run("x", 4999), 5002, Some(&swapped), 101);
        assert_eq!(back.left(LONGEST, at(101)), secs(40));
        let declared = verified(&of_run("z", 5001), 5002, Some(&swapped), 101);
        assert_eq!(declared.left(LONGEST, at(101)), Duration::ZERO, "declared fresh");
    }

    #[test]
    fn an_epoch_that_began_after_the_last_reading_is_a_new_one() {
        let before = verified(&epoch("a", 1000), 5000, None, 100);
        let emptied = verified(&epoch("b", 5100), 5150, Some(&before), 250);
        assert_eq!(emptied.left(LONGEST, at(250)), Duration::ZERO, "emptied 50 s ago");
        let fresh = Epoch { votes_from: secs(5249), ..epoch("c", 5249) };
        let declared = verified(&fresh, 5250, Some(&before), 350);
        assert_eq!(declared.left(LONGEST, at(350)), Duration::ZERO, "declared fresh a second ago");
    }

    #[test]
    fn a_voting_right_admits_votes_only_when_the_epoch_is_old_enough() {
        let epoch = verified(&epoch("n", 1000), 1000, None, 0);
        let value = Value::Text(epoch.epoch.value.clone());
        let mut voting_right = VotingRight::Verified { epoch, mature: None };
        assert!(matches!(voting_right.admit(LONGEST, || at(39)), Err(NodeError::Quarantined { .. })));
        assert!(voting_right.admit(LONGEST, || at(40)).is_ok());
        assert!(voting_right.admit(LONGEST, || panic!("no need to read the clock again")).is_ok());
        assert!(voting_right.confirms(&value, 0));
        assert!(!voting_right.confirms(&Value::Null, 0));
        for unknown in [VotingRight::Unverified, VotingRight::NoEpoch] {
            assert!(!unknown.confirms(&value, 0));
            assert!(unknown.clone().admit(LONGEST, || at(9000)).is_err());
        }
        assert!(VotingRight::Unguarded.confirms(&Value::Null, 0));
    }

    #[test]
    fn an_epoch_that_was_read_for_other_votes_confirms_nothing() {
        let epoch = verified(&epoch("n", 1000), 1000, None, 0);
        let without = |skip| Value::Text(epoch.epoch.value.slice(skip..));
        let voting_right = VotingRight::Verified { epoch: epoch.clone(), mature: None };
        assert!(voting_right.confirms(&without(3), 3) && !voting_right.is_misplaced(&without(3), 3));
        assert!(!voting_right.confirms(&without(3), 4) && voting_right.is_misplaced(&without(3), 4));
        for changed in [Value::Null, Value::Text("".into()), Value::Text("v2:other".into())] {
            assert!(!voting_right.confirms(&changed, 0) && !voting_right.is_misplaced(&changed, 0));
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            any::<f64>().prop_map(Value::Double),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Text(bytes.into())),
            "v2:[0-9a-f]{0,4}:[0-9]{0,20}:[0-9]{0,20}:[0-9]{0,20}:0:n:[0-9a-f:]{0,8}"
                .prop_map(|text| Value::Text(text.into())),
            "[0-9]{1,22}".prop_map(|text| Value::Text(text.into())),
        ]
    }

    proptest! {
        /// Goal: whatever a server reports about itself, it is kept out for one quarantine at most.
        #[test]
        fn any_answer_is_a_reading_within_bounds_or_none(
            answers in prop::collection::vec(prop::collection::vec(any_value(), 4..7), 1..4), start in any::<u32>()
        ) {
            let mut before: Option<Verified> = None;
            for (fields, second) in answers.into_iter().zip(u64::from(start)..) {
                let Some(reading) = Reading::parse(&Value::Array(fields)) else { continue };
                let Some(epoch) = reading.epoch else { continue };
                let epoch = Verified::new((&epoch, reading.now), before.as_ref(), at(second));
                let longest = quarantine(epoch.longest().max(LONGEST));
                prop_assert!(epoch.left(LONGEST, at(second)) <= longest);
                prop_assert!(!epoch.nonce().contains(&b':'));
                before = Some(epoch);
            }
        }
    }
}
