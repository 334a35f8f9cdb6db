//! What one locker knows of the slots of a semaphore without asking the nodes.

use crate::acquire::slots::shuffle;
use crate::context::mutex::Mutex;
use quorlock_core::{Moment, NameSet};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a locker relies on the number of slots that it verified. Another client may replace the number
/// while no slot is taken.
const VERIFIED_FOR: Duration = Duration::from_secs(10);

/// The slots of one semaphore, as the tasks of one locker know them. Only speed depends on it.
#[derive(Debug, Default)]
pub(crate) struct LocalSlots {
    /// Whether a slot was ever held here. Most queues are those of locks, which pay no more than this.
    is_used: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The slots that guards of this locker hold.
    held: BTreeSet<u32>,
    /// Those that they released and that no task has tried since, the last one at the end.
    released: Vec<u32>,
    /// The number of slots that the nodes were last found to have recorded, and when.
    verified: Option<(u32, Moment)>,
}

impl LocalSlots {
    /// Records that a guard of this locker holds the slots `names`.
    pub(crate) fn hold(&self, names: &NameSet) {
        self.is_used.store(true, Ordering::Relaxed);
        let mut state = self.state.lock();
        for slot in numbers(names) {
            state.released.retain(|released| *released != slot);
            state.held.insert(slot);
        }
    }

    /// Records that a guard no longer holds them: they are likely to be free at the next call.
    pub(crate) fn release(&self, names: &NameSet) {
        if !self.is_used.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.state.lock();
        for slot in numbers(names) {
            if state.held.remove(&slot) {
                state.released.push(slot);
            }
        }
    }

    /// Whether fewer than `wanted` of `count` slots are not held by this locker.
    pub(crate) fn are_too_many_held(&self, count: u32, wanted: usize) -> bool {
        let held = self.state.lock().held.range(..count).count();
        held + wanted > count as usize
    }

    /// Slots to try about which the nodes were not asked: those released last, then any that are not held
    /// here, then any.
    pub(crate) fn guess(&self, count: u32, wanted: usize, random: u64) -> Vec<u32> {
        let mut all: Vec<u32> = (0..count).collect();
        shuffle(&mut all, random);
        let mut state = self.state.lock();
        let mut chosen = Vec::with_capacity(wanted);
        while chosen.len() < wanted
            && let Some(slot) = state.released.pop()
        {
            chosen.extend(Some(slot).filter(|slot| *slot < count));
        }
        let (held, others): (Vec<u32>, Vec<u32>) =
            all.into_iter().partition(|slot| state.held.contains(slot));
        for slot in others.into_iter().chain(held) {
            if chosen.len() < wanted && !chosen.contains(&slot) {
                chosen.push(slot);
            }
        }
        chosen
    }

    /// Whether the nodes were lately found to have recorded `count` slots.
    pub(crate) fn is_verified(&self, count: u32, now: Moment) -> bool {
        let verified = self.state.lock().verified;
        verified.is_some_and(|(number, at)| number == count && now.since(at) < VERIFIED_FOR)
    }

    /// Records that the nodes have recorded `count` slots, or that they have not.
    pub(crate) fn set_verified(&self, verified: Option<(u32, Moment)>) {
        self.state.lock().verified = verified;
    }
}

fn numbers(names: &NameSet) -> impl Iterator<Item = u32> {
    names.iter().filter_map(|name| name.as_slot().map(|(_, slot)| slot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorlock_core::Name;

    fn slots(numbers: &[u32]) -> NameSet {
        let gpu = Name::new("gpu").unwrap();
        NameSet::new(numbers.iter().map(|number| Name::of_slot(&gpu, *number))).unwrap()
    }

    #[test]
    fn a_guess_begins_with_the_slot_that_was_released_last_and_has_no_slot_twice() {
        let local = LocalSlots::default();
        for number in [2, 5] {
            local.hold(&slots(&[number]));
            local.release(&slots(&[number]));
        }
        let guess = local.guess(8, 3, 7);
        assert_eq!(guess[..2], [5, 2]);
        assert_eq!(guess.iter().collect::<BTreeSet<_>>().len(), 3);
        assert_eq!(local.guess(8, 8, 9).into_iter().collect::<BTreeSet<_>>().len(), 8);
        assert!(!local.guess(2, 1, 9).contains(&5), "a semaphore with fewer slots");
    }

    #[test]
    fn guesses_are_spread_over_the_slots_that_are_not_held_here() {
        let local = LocalSlots::default();
        local.hold(&slots(&[1, 3]));
        let guessed = |wanted| -> BTreeSet<u32> {
            (0..64).flat_map(|random| local.guess(5, wanted, random * 0x9e37_79b9)).collect()
        };
        assert_eq!(guessed(1), BTreeSet::from([0, 2, 4]));
        assert_eq!(guessed(5).len(), 5, "if more are wanted, one that is held may have been lost");
        assert!(!local.are_too_many_held(5, 3) && local.are_too_many_held(5, 4));
        local.release(&slots(&[1, 3]));
        assert!(!local.are_too_many_held(5, 5));
    }

    #[test]
    fn a_number_of_slots_is_verified_for_a_while() {
        let local = LocalSlots::default();
        let at = |seconds| Moment::from_boot(Duration::from_secs(seconds));
        assert!(!local.is_verified(4, at(100)));
        local.set_verified(Some((4, at(100))));
        assert!(local.is_verified(4, at(109)) && !local.is_verified(4, at(110)));
        assert!(!local.is_verified(3, at(100)), "another number");
    }
}
