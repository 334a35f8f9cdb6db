//! The keys of one name, and which of its entries a token has.

use crate::node::Denied;
use crate::node::etcd::client::json::{Entry, KeyRange};
use quorlock_core::hash::fnv1a;
use quorlock_core::{Mode, Name, Token};

/// Separates name and token in the key of a shared holder. No name contains it.
const SEPARATOR: char = '\t';
/// The character after the separator.
const AFTER_SEPARATOR: char = '\n';

/// The keys of one name.
pub(crate) struct Keys {
    /// The exclusive holder.
    pub(crate) lock: Vec<u8>,
    /// The counter of its fences.
    pub(crate) counter: Vec<u8>,
    /// Exists while a client waits to hold the name exclusively.
    pub(crate) writer: Vec<u8>,
    /// How many slots it has, if it is a semaphore.
    pub(crate) slots: Vec<u8>,
    /// What the lock keys of its slots begin with.
    slot_locks: Vec<u8>,
}

impl Keys {
    pub(crate) fn new(prefix: &str, name: &Name) -> Self {
        let key = |kind: &str, name: &str| format!("{prefix}/{kind}/{name}").into_bytes();
        let first_slot = Name::of_slot(name, 0);
        Self {
            lock: key("lock", name.as_str()),
            counter: key("fence", name.as_str()),
            writer: key("writer", name.as_str()),
            slots: key("slots", name.as_str()),
            slot_locks: key("lock", first_slot.as_str().trim_end_matches('0')),
        }
    }

    /// What all keys that hold names begin with.
    pub(crate) fn all_locks(prefix: &str) -> String {
        format!("{prefix}/lock/")
    }

    /// The name that `key` holds, if it is one of ours.
    pub(crate) fn name_of(prefix: &str, key: &[u8]) -> Option<Name> {
        let key = std::str::from_utf8(key).ok()?.strip_prefix(&Self::all_locks(prefix))?;
        Name::from_store(key.split(SEPARATOR).next()?).ok()
    }

    /// The shared hold of `token`.
    pub(crate) fn shared(&self, token: &Token) -> Vec<u8> {
        [&self.lock[..], SEPARATOR.to_string().as_bytes(), token.as_bytes()].concat()
    }

    /// The hold of `token` in `mode`.
    pub(crate) fn hold(&self, mode: Mode, token: &Token) -> Vec<u8> {
        match mode {
            Mode::Exclusive => self.lock.clone(),
            Mode::Shared => self.shared(token),
        }
    }

    /// All holders: the exclusive one and the shared ones. No other name has a key in between.
    pub(crate) fn holders(&self) -> KeyRange {
        KeyRange {
            from: self.lock.clone(),
            end: [&self.lock[..], AFTER_SEPARATOR.to_string().as_bytes()].concat(),
        }
    }

    /// The lock keys of its slots, if it is a semaphore; perhaps with slots of others.
    pub(crate) fn slot_locks(&self) -> KeyRange {
        let after = |byte| [&self.slot_locks[..], &[byte]].concat();
        KeyRange { from: after(b'0'), end: after(b'9' + 1) }
    }

    /// The number of the slot that `lock` holds, if it is one of this semaphore.
    pub(crate) fn slot_of(&self, lock: &[u8]) -> Option<usize> {
        std::str::from_utf8(lock.strip_prefix(&self.slot_locks[..])?).ok()?.parse().ok()
    }

    /// All keys whose deletion may free the name, or a slot.
    pub(crate) fn watched(&self) -> [KeyRange; 2] {
        [self.holders(), self.slot_locks()]
    }

    /// The lease of the attempt that has `token`: a number that no other attempt has.
    pub(crate) fn lease(&self, token: &Token) -> i64 {
        positive(fnv1a(&[&token.as_bytes()[..], &self.lock].concat()))
    }
}

/// What is stored under the keys of a name, as far as one attempt needs it.
pub(crate) struct Entries {
    pub(crate) lock: Option<Entry>,
    /// The shared hold of the attempt.
    pub(crate) shared: Option<Entry>,
    pub(crate) counter: Option<Entry>,
    /// How many clients hold the name.
    pub(crate) holders: usize,
}

/// The hold of one attempt.
pub(crate) struct Held {
    pub(crate) entry: Entry,
    pub(crate) mode: Mode,
}

impl Entries {
    /// The hold of `token`. Other shared holders do not keep a reader from getting its hold back.
    pub(crate) fn held_by(&self, token: &Token) -> Result<Held, Denied> {
        let has_token =
            |entry: &&Entry| entry.value.split(|byte| *byte == b' ').next() == Some(&token.as_bytes()[..]);
        let held = |entry: &Option<Entry>, mode| {
            entry.as_ref().filter(has_token).map(|entry| Held { entry: entry.clone(), mode })
        };
        let held = held(&self.lock, Mode::Exclusive).or_else(|| held(&self.shared, Mode::Shared));
        held.ok_or(if self.lock.is_some() { Denied::Taken } else { Denied::Gone })
    }
}

/// A lease's number, which is above 0.
pub(crate) fn positive(random: u64) -> i64 {
    ((random >> 1) as i64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: &str) -> Keys {
        Keys::new("quorlock", &Name::new(name).unwrap())
    }

    fn contains(range: &KeyRange, key: &[u8]) -> bool {
        range.from.as_slice() <= key && key < range.end.as_slice()
    }

    #[test]
    fn every_attempt_has_a_lease_of_its_own_above_zero() {
        let leases = [("a", 1), ("a", 2), ("b", 1)]
            .map(|(name, token)| keys(name).lease(&Token::from_random([token; 16])));
        assert!(leases[0] != leases[1] && leases[0] != leases[2] && leases.iter().all(|lease| *lease > 0));
        assert_eq!((positive(0), positive(u64::MAX)), (1, i64::MAX));
    }

    #[test]
    fn the_holders_of_a_name_are_apart_from_those_of_all_others() {
        let token = Token::from_random([7; 16]);
        let range = keys("a").holders();
        for (name, is_within) in [("a", true), ("a ", false), ("aa", false), ("a:b", false), ("b", false)] {
            let keys = keys(name);
            assert_eq!(contains(&range, &keys.lock), is_within, "{name}");
            assert_eq!(contains(&range, &keys.shared(&token)), is_within, "{name}");
            assert_eq!(Keys::name_of("quorlock", &keys.shared(&token)).unwrap().as_str(), name);
        }
    }

    #[test]
    fn the_slots_of_a_semaphore_are_distinguished_from_those_of_others() {
        let gpu = keys("gpu");
        let semaphores = [("gpu", 12, Some(12)), ("gpu", 0, Some(0)), ("gpu:1", 3, None), ("gpu2", 1, None)];
        for (semaphore, slot, number) in semaphores {
            let slot = Name::of_slot(&Name::new(semaphore).unwrap(), slot);
            let lock = Keys::new("quorlock", &slot).lock;
            assert_eq!(gpu.slot_of(&lock), number, "{semaphore}");
            assert!(number.is_none() || contains(&gpu.slot_locks(), &lock), "{semaphore}");
        }
        assert_eq!(gpu.slot_of(&gpu.lock), None);
    }
}
