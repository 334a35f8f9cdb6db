//! Names whose fence counter got a new expiry lately, so that not every release sends one.

use quorlock_core::{Moment, Name};
use std::fmt;
use std::time::Duration;

/// How many names are remembered. Two names in one slot evict each other and cost an extra `EXPIRE`.
const SLOTS: usize = 16 * 1024;
/// How long an entry counts: a counter is kept for a week.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// The names whose fence counter got its expiry within the last hour, on one server.
#[derive(Default)]
pub(crate) struct FenceTtlCache {
    /// Half of the hash of a name, in the slot that the other half selects. Allocated with the first
    /// release.
    slots: Vec<u32>,
    since: Option<Moment>,
}

impl FenceTtlCache {
    /// Whether the counter of `name` must get its expiry now. The answer is `true` once an hour.
    ///
    /// Two names in one slot with the same half hash count as one. The counter of the second may then
    /// stay for ever, or expire a week after its last renewal; fences go on with the time of day.
    pub(crate) fn needs_expire(&mut self, name: &Name) -> bool {
        if self.slots.is_empty() {
            self.slots = vec![0; SLOTS];
        }
        let number = name.number();
        // Zero marks an empty slot.
        let tag = (number >> 32) as u32 | 1;
        std::mem::replace(&mut self.slots[number as usize % SLOTS], tag) != tag
    }

    /// Drops entries that are an hour old.
    pub(crate) fn expire(&mut self, now: Moment) {
        if self.since.is_none_or(|since| now.since(since) >= MAX_AGE) {
            self.clear(now);
        }
    }

    /// Drops all entries: the server may have lost its counters.
    pub(crate) fn clear(&mut self, now: Moment) {
        self.since = Some(now);
        self.slots.fill(0);
    }
}

impl fmt::Debug for FenceTtlCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FenceTtlCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_boot(Duration::from_secs(seconds))
    }

    #[test]
    fn a_counter_is_renewed_once_an_hour_and_after_the_server_lost_it() {
        let name = Name::new("a").unwrap();
        let mut cache = FenceTtlCache::default();
        cache.expire(at(10));
        assert!(cache.needs_expire(&name) && !cache.needs_expire(&name));
        assert!(cache.needs_expire(&Name::new("b").unwrap()));
        cache.expire(at(3000));
        assert!(!cache.needs_expire(&name));
        cache.expire(at(3700));
        assert!(cache.needs_expire(&name));
        cache.clear(at(3800));
        assert!(cache.needs_expire(&name));
        cache.expire(at(7350));
        assert!(!cache.needs_expire(&name), "the hour began at the last clear");
    }

    #[test]
    fn many_names_are_remembered_and_too_many_are_renewed_more_often() {
        let names = |count| (0..count).map(|number| Name::new(format!("n{number}")).unwrap());
        let mut cache = FenceTtlCache::default();
        let mut renewed = |count| names(count).filter(|name| cache.needs_expire(name)).count();
        assert_eq!(renewed(1000), 1000);
        assert!(renewed(1000) < 150);
        assert!(renewed(8 * SLOTS) > 7 * SLOTS);
    }

    /// Goal: a counter is never left without an expiry because another name had its slot.
    #[test]
    fn a_name_that_takes_the_slot_of_another_needs_its_own_expiry() {
        let name = |text: &str| Name::new(text).unwrap();
        let slot = |name: &Name| name.number() as usize % SLOTS;
        let first = name("first");
        let other = (0..)
            .map(|number| name(&format!("n{number}")))
            .find(|other| slot(other) == slot(&first))
            .unwrap();
        let mut cache = FenceTtlCache::default();
        assert!(cache.needs_expire(&first));
        assert!(cache.needs_expire(&other), "it takes the slot");
        assert!(cache.needs_expire(&first), "which was evicted");
    }
}
