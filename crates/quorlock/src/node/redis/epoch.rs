//! Whether a server remembers: its epoch as read, and from when on it may vote.

use super::resp::Value;
use crate::node::NodeError;
use crate::surroundings::CLOCK_TOLERANCE;
use bytes::Bytes;
use quorlock_core::{Moment, Wall};
use std::time::Duration;

/// What the verify script told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    value: Bytes,
    since: Duration,
    pub(super) longest: Duration,
    /// The server's wall clock.
    pub(super) now: Wall,
}

impl Reading {
    /// Reads the script's answer; `None` if it is none.
    pub(super) fn parse(answer: &Value) -> Option<Self> {
        let Value::Array(fields) = answer else {
            return None;
        };
        let [Value::Text(value), since, longest, now] = fields.as_slice() else {
            return None;
        };
        Some(Self {
            value: value.clone(),
            since: Duration::from_millis(since.number()?),
            longest: Duration::from_millis(longest.number()?),
            now: Wall::from_micros(now.number()?),
        })
    }

    /// Reads the epoch as it is stored, at `now` by the server's wall clock: the run that it was confirmed in, and the
    /// reading; `None` if it is none.
    pub(super) fn of_stored(stored: &[u8], now: Wall) -> Option<(String, Self)> {
        let mut parts = std::str::from_utf8(stored).ok()?.splitn(5, ':');
        let (version, run) = (parts.next()?, parts.next()?);
        let since = Duration::from_millis(parts.next()?.parse().ok()?);
        let longest = Duration::from_millis(parts.next()?.parse().ok()?);
        let nonce = parts.next()?;
        let is_epoch = version == "v1" && !nonce.is_empty();
        let reading = Self { value: Bytes::copy_from_slice(stored), since, longest, now };
        is_epoch.then(|| (run.to_owned(), reading))
    }

    /// How long ago it began. A server clock that went back counts as no age at all.
    pub(super) fn age(&self) -> Duration {
        Duration::from_micros(self.now.as_micros()).saturating_sub(self.since)
    }

    /// How long the node may not vote yet.
    fn left(&self, quarantine: Duration) -> Duration {
        quarantine.saturating_sub(self.age())
    }
}

/// An epoch that was verified on this connection or an earlier one.
#[derive(Clone, Debug)]
pub(super) struct Verified {
    value: Bytes,
    pub(super) longest: Duration,
    /// When we first saw it, by our own clock.
    seen_at: Moment,
    eligible_at: Moment,
}

impl Verified {
    /// The epoch as it follows from a reading taken at `now`, after `before`, with our own `quarantine`.
    ///
    /// An epoch that was known keeps the later of both ends on our own clock, so that a jump of the server's
    /// clock does not lift its quarantine. At the latest it ends a quarantine after we first saw it, so that a
    /// server clock that was set back does not lengthen it for as long as it was wrong.
    pub(super) fn new(
        reading: &Reading,
        before: Option<&Verified>,
        quarantine: Duration,
        now: Moment,
    ) -> Self {
        let quarantine = quarantine.max(reading.longest.saturating_add(2 * CLOCK_TOLERANCE));
        let fresh = Self {
            value: reading.value.clone(),
            longest: reading.longest,
            seen_at: now,
            eligible_at: now + reading.left(quarantine),
        };
        match before {
            Some(before) if before.nonce() == fresh.nonce() => Self {
                seen_at: before.seen_at,
                eligible_at: before.eligible_at.max(fresh.eligible_at).min(before.seen_at + quarantine),
                ..fresh
            },
            _ => fresh,
        }
    }

    /// What makes the epoch unique: it changes when the memory behind it is lost, and only then.
    pub(super) fn nonce(&self) -> &[u8] {
        self.value.rsplit(|byte| *byte == b':').next().unwrap_or_default()
    }

    pub(super) fn left(&self, now: Moment) -> Duration {
        now.until(self.eligible_at)
    }
}

/// What is known about the server's memory.
#[derive(Clone, Debug)]
pub(super) enum Standing {
    /// The restart guard is off: every answer counts.
    Unguarded,
    /// Nothing is known, or what was known is no longer true.
    Unverified,
    /// The epoch is known; it may still be too young.
    Verified {
        epoch: Verified,
        /// Whether it was seen to be old enough, which it then stays.
        mature: bool,
    },
}

impl Standing {
    /// Whether the server may be asked to vote.
    pub(super) fn admit(&mut self, now: impl FnOnce() -> Moment) -> Result<(), NodeError> {
        match self {
            Standing::Unguarded | Standing::Verified { mature: true, .. } => Ok(()),
            Standing::Unverified => Err(NodeError::EpochChanged),
            Standing::Verified { epoch, mature } => match epoch.left(now()) {
                Duration::ZERO => {
                    *mature = true;
                    Ok(())
                }
                left => Err(NodeError::Quarantined { left }),
            },
        }
    }

    /// Whether `read`, the epoch that a vote found after it was cast, is the one that was verified.
    pub(super) fn confirms(&self, read: &Value) -> bool {
        match (self, read) {
            (Standing::Unguarded, _) => true,
            (Standing::Verified { epoch, .. }, Value::Text(read)) => epoch.value == read,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONGEST: Duration = Duration::from_secs(30);
    const QUARANTINE: Duration = Duration::from_secs(40);

    fn reading(nonce: &str, since_s: u64, now_s: u64) -> Reading {
        Reading {
            value: format!("v1:ab:{since_s}000:30000:{nonce}").into(),
            since: Duration::from_secs(since_s),
            longest: LONGEST,
            now: Wall::from_micros(now_s * 1_000_000),
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn a_young_epoch_waits_for_the_longest_ttl_and_twice_the_tolerance() {
        let table = "
            since  now   left
            1000   1000  40
            1000   1039  1
            1000   1040  0
            1000   9000  0
            1000   900   40";
        for row in table.lines().skip(2) {
            let cells: Vec<u64> = row.split_whitespace().map(|c| c.parse().unwrap()).collect();
            let epoch = Verified::new(&reading("n", cells[0], cells[1]), None, QUARANTINE, at(5));
            assert_eq!(epoch.left(at(5)), Duration::from_secs(cells[2]), "{row}");
        }
    }

    #[test]
    fn the_longer_of_two_longest_ttls_counts() {
        let epoch = Verified::new(&reading("n", 1000, 1000), None, Duration::from_secs(310), at(0));
        assert_eq!(epoch.left(at(0)), Duration::from_secs(310));
    }

    #[test]
    fn a_jump_of_the_server_clock_does_not_lift_the_quarantine() {
        let young = Verified::new(&reading("n", 1000, 1000), None, QUARANTINE, at(0));
        let jumped = Verified::new(&reading("n", 1000, 5000), Some(&young), QUARANTINE, at(1));
        assert_eq!(jumped.left(at(1)), Duration::from_secs(39));
        let other = Verified::new(&reading("m", 1000, 5000), Some(&young), QUARANTINE, at(1));
        assert_eq!(other.left(at(1)), Duration::ZERO);
    }

    /// Goal: a server that began its epoch with a clock far ahead is not out for as long as the clock was wrong.
    #[test]
    fn a_server_clock_that_was_set_back_keeps_an_epoch_young_for_one_quarantine_only() {
        let begun = Verified::new(&reading("n", 9000, 9000), None, QUARANTINE, at(0));
        let later =
            |before, now| Verified::new(&reading("n", 9000, 1000 + now), Some(before), QUARANTINE, at(now));
        let looked = later(&begun, 1);
        assert_eq!(looked.left(at(1)), Duration::from_secs(39));
        let looked = later(&looked, 39);
        assert_eq!(looked.left(at(39)), Duration::from_secs(1));
        let looked = later(&looked, 5000);
        assert_eq!(looked.left(at(5000)), Duration::ZERO, "once old enough, always");
    }

    #[test]
    fn a_longest_ttl_that_grows_lengthens_the_quarantine() {
        let short = Verified::new(&reading("n", 1000, 1000), None, QUARANTINE, at(0));
        let raised = Reading { longest: Duration::from_secs(300), ..reading("n", 1000, 1020) };
        let long = Verified::new(&raised, Some(&short), QUARANTINE, at(20));
        assert_eq!(long.left(at(20)), Duration::from_secs(290));
    }

    #[test]
    fn a_standing_admits_votes_only_when_the_epoch_is_old_enough() {
        let epoch = Verified::new(&reading("n", 1000, 1000), None, QUARANTINE, at(0));
        let value = Value::Text(epoch.value.clone());
        let mut standing = Standing::Verified { epoch, mature: false };
        assert!(matches!(standing.admit(|| at(39)), Err(NodeError::Quarantined { .. })));
        assert!(standing.admit(|| at(40)).is_ok());
        assert!(standing.admit(|| panic!("no need to look again")).is_ok());
        assert!(standing.confirms(&value));
        assert!(!standing.confirms(&Value::Null));
        assert!(!Standing::Unverified.confirms(&value));
        assert!(Standing::Unguarded.confirms(&Value::Null));
    }

    #[test]
    fn what_the_script_stores_can_be_read_without_it() {
        let (run, stored) =
            Reading::of_stored(b"v1:ab:1000000:30000:ff", Wall::from_micros(1_005_000_000)).unwrap();
        assert_eq!((run.as_str(), stored.age(), stored.longest), ("ab", Duration::from_secs(5), LONGEST));
        for other in ["", "v1:ab:1:2", "v1:ab:1:2:", "v2:ab:1:2:ff", "v1:ab:x:2:ff", "v1:ab:1:-2:ff"] {
            assert_eq!(Reading::of_stored(other.as_bytes(), Wall::from_micros(1)), None, "{other}");
        }
    }

    #[test]
    fn an_answer_of_another_shape_is_no_reading() {
        for answer in [Value::Null, Value::Array(vec![]), Value::Array(vec![Value::Null; 4])] {
            assert_eq!(Reading::parse(&answer), None);
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            any::<f64>().prop_map(Value::Double),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Value::Text(bytes.into())),
            "v1:[0-9a-f]{0,4}:[0-9]{0,20}:[0-9]{0,20}:[0-9a-f:]{0,8}"
                .prop_map(|text| Value::Text(text.into())),
            "[0-9]{1,22}".prop_map(|text| Value::Text(text.into())),
        ]
    }

    proptest! {
        /// Goal: whatever a server says of itself, it is kept out for one quarantine at most.
        #[test]
        fn any_answer_is_a_reading_within_bounds_or_none(
            answers in prop::collection::vec(prop::collection::vec(any_value(), 3..6), 1..4), start in any::<u32>()
        ) {
            let mut before: Option<Verified> = None;
            for (fields, second) in answers.into_iter().zip(u64::from(start)..) {
                let Some(reading) = Reading::parse(&Value::Array(fields)) else { continue };
                let epoch = Verified::new(&reading, before.as_ref(), QUARANTINE, at(second));
                let longest = reading.longest.saturating_add(2 * CLOCK_TOLERANCE).max(QUARANTINE);
                prop_assert!(epoch.left(at(second)) <= longest);
                prop_assert!(!epoch.nonce().contains(&b':'));
                before = Some(epoch);
            }
        }
    }
}
