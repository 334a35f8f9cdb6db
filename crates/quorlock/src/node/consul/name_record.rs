//! What is kept of a name whether it is held or not. Every decision about the name changes it.

use crate::node::consul::client::api::protocol;
use crate::node::consul::client::txn::{Content, Entry, Op};
use crate::node::server_text::server_text;
use crate::node::{NodeError, RecordSlots, RefusedSlots, SlotsView};
use quorlock_core::{Fence, Wall};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The longest time for which readers are held off at once.
const MAX_HOLD_OFF: Duration = Duration::from_secs(10);
/// How long a record is used at least before its time of use is written again.
const TOUCH_AFTER: Duration = Duration::from_secs(86_400);
/// How long the counter of a name is kept after its last use. It must be above 14 days.
const KEPT: Duration = Duration::from_secs(15 * 86_400);

/// What is kept of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NameRecord {
    /// The fence counter; 0 if the name never had a fence.
    fence: u64,
    /// How often the record was written. It makes every write a change, and thereby gives it a new index.
    writes: u64,
    /// When it was last written, in seconds since 1970.
    used: u64,
    /// Until when new shared holders are refused, in milliseconds since 1970; 0 if they are not. Only fairness
    /// depends on it.
    #[serde(default, skip_serializing_if = "is_zero")]
    no_readers_until: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    slots: Option<SlotsRecord>,
}

/// How many slots a semaphore has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SlotsRecord {
    count: u32,
    /// How many slots the client counts that was refused last, and when, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refused: Option<(u32, u64)>,
}

/// A record as it was read, and where in the history of the cluster it was written: 0 if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadRecord {
    pub(crate) record: NameRecord,
    pub(crate) index: u64,
}

impl ReadRecord {
    /// The record in `entry`.
    ///
    /// # Errors
    /// Another program wrote it.
    pub(crate) fn parse(entry: &Entry) -> Result<Self, NodeError> {
        let record: NameRecord = serde_json::from_slice(&entry.value).map_err(|_| odd(entry))?;
        record.counter()?;
        Ok(Self { record, index: entry.modify_index })
    }

    /// Stores `after` under `key` if the record is still as it was read.
    pub(crate) fn replace(&self, key: &str, after: &NameRecord) -> Op {
        // A struct of numbers can always be written.
        let value = serde_json::to_vec(after).unwrap_or_default();
        Op::swap(Content { key, value: &value, flags: 0 }, self.index)
    }
}

impl NameRecord {
    /// The fence counter of the name.
    pub(crate) fn counter(&self) -> Result<Option<Fence>, NodeError> {
        let bad = |_| protocol("a record holds no fence of ours");
        (self.fence != 0).then(|| Fence::try_from(self.fence).map_err(bad)).transpose()
    }

    /// The record after a decision at `now` that changes nothing else.
    pub(crate) fn touched(&self, now: Wall) -> Self {
        Self { writes: self.writes.wrapping_add(1), used: seconds(now), ..self.clone() }
    }

    /// The record with a counter of `fence` at least.
    pub(crate) fn raised(&self, fence: Fence, now: Wall) -> Self {
        Self { fence: self.fence.max(fence.get()), ..self.touched(now) }
    }

    /// Whether its time of use must be written again, so that it outlives a lock that is held for weeks.
    pub(crate) fn is_stale(&self, now: Wall) -> bool {
        seconds(now).saturating_sub(self.used) > TOUCH_AFTER.as_secs()
    }

    /// Whether the name was not used for so long that its counter may go, at `now` in seconds since 1970.
    pub(crate) fn is_idle(&self, now: u64) -> bool {
        now.saturating_sub(self.used) > KEPT.as_secs()
    }

    /// Whether a client waits to hold the name exclusively. A time too far ahead is that of a wrong clock.
    pub(crate) fn holds_off_readers(&self, now: Wall) -> bool {
        let left = Duration::from_millis(self.no_readers_until.saturating_sub(now.as_micros() / 1000));
        !left.is_zero() && left <= MAX_HOLD_OFF
    }

    /// The record after readers are held off for `ttl`; zero ends that.
    pub(crate) fn holding_off(&self, ttl: Duration, now: Wall) -> Self {
        let until = if ttl.is_zero() { 0 } else { (now + ttl.min(MAX_HOLD_OFF)).as_micros() / 1000 };
        Self { no_readers_until: until, ..self.touched(now) }
    }

    /// The record after what `record` says of a client that counts `count` slots; `None` if it stays as it is.
    pub(crate) fn with_slots(&self, count: u32, record: RecordSlots, now: Wall) -> Option<Self> {
        let slots = match (record, self.slots) {
            (RecordSlots::Replace, _) | (RecordSlots::IfNone, None) => SlotsRecord { count, refused: None },
            (RecordSlots::Refused, Some(slots)) => {
                SlotsRecord { refused: Some((count, seconds(now))), ..slots }
            }
            (RecordSlots::IfNone, Some(slots)) if self.is_stale(now) => slots,
            _ => return None,
        };
        Some(Self { slots: Some(slots), ..self.touched(now) })
    }

    /// What is known of the semaphore, with which slots are `taken`.
    pub(crate) fn slots_view(&self, taken: Vec<bool>, now: Wall) -> SlotsView {
        let ago = |at: u64| Duration::from_secs(seconds(now).saturating_sub(at));
        let refused = self.slots.and_then(|slots| slots.refused);
        SlotsView {
            recorded: self.slots.map(|slots| slots.count),
            refused: refused.map(|(count, at)| RefusedSlots::new(count, ago(at))),
            taken,
        }
    }
}

fn seconds(now: Wall) -> u64 {
    now.as_micros() / 1_000_000
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn odd(entry: &Entry) -> NodeError {
    protocol(format!("the key `{}` holds no record of ours", server_text(&entry.key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Wall = Wall::from_micros(1_700_000_000_000_000);

    fn entry(value: &[u8]) -> Entry {
        Entry {
            key: "p/lock/a/record".to_owned(),
            value: value.to_vec(),
            modify_index: 9,
            ..Entry::default()
        }
    }

    /// Goal: Consul does not change the index of a key that is written with the content that it has.
    #[test]
    fn every_write_is_a_change_and_is_read_back() {
        let record = NameRecord::default().raised(Fence::new(5), NOW);
        assert_ne!(record.touched(NOW), record);
        let slots = record.with_slots(3, RecordSlots::IfNone, NOW).unwrap();
        let refused = slots.with_slots(4, RecordSlots::Refused, NOW).unwrap();
        for record in [record, slots, refused] {
            let read = ReadRecord::parse(&entry(&serde_json::to_vec(&record).unwrap())).unwrap();
            assert_eq!(read, ReadRecord { record, index: 9 });
        }
    }

    #[test]
    fn what_others_wrote_is_refused_with_its_key() {
        for odd in ["", "5", "{}", r#"{"fence":18446744073709551615,"writes":1,"used":1}"#] {
            let error = ReadRecord::parse(&entry(odd.as_bytes())).unwrap_err().to_string();
            assert!(error.contains("record"), "{odd}: {error}");
        }
    }

    #[test]
    fn a_counter_never_goes_back_and_outlives_its_name_by_two_weeks() {
        let record = NameRecord::default().raised(Fence::new(50), NOW).raised(Fence::new(40), NOW);
        assert_eq!(record.counter().unwrap(), Some(Fence::new(50)));
        assert_eq!(NameRecord::default().touched(NOW).counter().unwrap(), None);
        let days = |days: u64| NOW.as_micros() / 1_000_000 + days * 86_400;
        assert!(!record.is_idle(days(14)) && !record.is_idle(days(15)) && record.is_idle(days(16)));
        assert!(!record.is_idle(0), "a clock that is behind removes nothing");
        assert!(!record.is_stale(NOW) && record.is_stale(NOW + 2 * TOUCH_AFTER));
    }

    #[test]
    fn readers_are_held_off_for_ten_seconds_at_most() {
        let held_off = NameRecord::default().holding_off(Duration::from_secs(60), NOW);
        assert!(held_off.holds_off_readers(NOW) && !held_off.holds_off_readers(NOW + MAX_HOLD_OFF));
        let far_behind = Wall::from_micros(NOW.as_micros() - 3_600_000_000);
        assert!(!held_off.holds_off_readers(far_behind), "its clock is wrong");
        assert!(!held_off.holding_off(Duration::ZERO, NOW).holds_off_readers(NOW));
    }
}
