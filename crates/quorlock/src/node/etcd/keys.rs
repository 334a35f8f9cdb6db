//! The keys of one name, and which of its entries a token has.

use crate::node::Denied;
use crate::node::etcd::client::messages::Entry;
use crate::node::etcd::client::txn::KeyRange;
use quorlock_core::{Mode, Name, Token};

/// Separates a name from what follows it. No name contains it.
const SEPARATOR: char = '\t';
/// The character after the separator.
const AFTER_SEPARATOR: char = '\n';
/// Precedes the token of a shared holder. It sorts behind all tokens.
const SHARED: &str = "shared:";
/// Sorts behind all tokens, and before those of shared holders.
const AFTER_TOKENS: char = 'g';

/// The keys of one name.
pub(crate) struct Keys {
    /// What the keys of its holders begin with.
    lock: Vec<u8>,
    /// The counter of its fences.
    pub(crate) counter: Vec<u8>,
    /// Exists while a client waits to hold the name exclusively.
    pub(crate) writer: Vec<u8>,
    prefix: String,
    name: Name,
}

impl Keys {
    pub(crate) fn new(prefix: &str, name: &Name) -> Self {
        let key = |kind: &str| key(prefix, kind, name.as_str());
        Self {
            lock: key("lock"),
            counter: key("fence"),
            writer: key("writer"),
            prefix: prefix.to_owned(),
            name: name.clone(),
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

    /// The hold of `token` in `mode`.
    pub(crate) fn hold(&self, mode: Mode, token: &Token) -> Vec<u8> {
        let shared = if mode == Mode::Shared { SHARED } else { "" };
        [&self.lock[..], SEPARATOR.to_string().as_bytes(), shared.as_bytes(), token.as_bytes()].concat()
    }

    /// Exists once the attempt of `token` was undone: it must not take the name any more.
    pub(crate) fn undone(&self, token: &Token) -> Vec<u8> {
        key(&self.prefix, "undone", &format!("{}{SEPARATOR}{token}", self.name))
    }

    /// All holders: the exclusive one and the shared ones. No other name has a key in between.
    pub(crate) fn holders(&self) -> KeyRange {
        self.range_up_to(&[AFTER_SEPARATOR])
    }

    /// The exclusive holder, or what another program wrote under the name.
    pub(crate) fn exclusive(&self) -> KeyRange {
        self.range_up_to(&[SEPARATOR, AFTER_TOKENS])
    }

    /// How many slots it has, if it is a semaphore.
    pub(crate) fn slots(&self) -> Vec<u8> {
        key(&self.prefix, "slots", self.name.as_str())
    }

    /// The lock keys of its slots, if it is a semaphore; perhaps with slots of others.
    pub(crate) fn slot_locks(&self) -> KeyRange {
        let first = self.slot_lock();
        let after = |byte| [&first[..], &[byte]].concat();
        KeyRange { from: after(b'0'), end: after(b'9' + 1) }
    }

    /// The number of the slot that `lock` holds, if it is one of this semaphore.
    pub(crate) fn slot_of(&self, lock: &[u8]) -> Option<usize> {
        let slot = std::str::from_utf8(lock.strip_prefix(&self.slot_lock()[..])?).ok()?;
        slot.split(SEPARATOR).next()?.parse().ok()
    }

    /// All keys whose deletion may free the name, or a slot.
    pub(crate) fn watched(&self) -> [KeyRange; 2] {
        [self.holders(), self.slot_locks()]
    }

    fn range_up_to(&self, end: &[char]) -> KeyRange {
        let end: String = end.iter().collect();
        KeyRange { from: self.lock.clone(), end: [&self.lock[..], end.as_bytes()].concat() }
    }

    /// What the lock keys of its slots begin with.
    fn slot_lock(&self) -> Vec<u8> {
        let first = Name::of_slot(&self.name, 0);
        key(&self.prefix, "lock", first.as_str().trim_end_matches('0'))
    }
}

fn key(prefix: &str, kind: &str, name: &str) -> Vec<u8> {
    [prefix, "/", kind, "/", name].concat().into_bytes()
}

/// What is stored under the keys of a name, as far as one attempt needs it.
pub(crate) struct Entries {
    /// The exclusive hold of the attempt.
    pub(crate) exclusive: Option<Entry>,
    /// The shared hold of the attempt.
    pub(crate) shared: Option<Entry>,
    pub(crate) counter: Option<Entry>,
    /// How many clients hold the name.
    pub(crate) holders: usize,
    /// Whether a client holds the name exclusively.
    pub(crate) is_exclusive: bool,
}

/// The hold of one attempt.
pub(crate) struct Held {
    pub(crate) entry: Entry,
    pub(crate) mode: Mode,
}

impl Entries {
    /// The hold of the attempt.
    pub(crate) fn held(&self) -> Result<Held, Denied> {
        let held = |entry: &Option<Entry>, mode| entry.clone().map(|entry| Held { entry, mode });
        let found = held(&self.exclusive, Mode::Exclusive).or_else(|| held(&self.shared, Mode::Shared));
        found.ok_or(not_held(self.is_exclusive))
    }
}

/// Why an attempt has no hold. Other shared holders do not keep a reader from getting its hold back.
pub(crate) fn not_held(is_exclusive: bool) -> Denied {
    if is_exclusive { Denied::Taken } else { Denied::Gone }
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
    fn the_holders_of_a_name_are_apart_from_those_of_all_others() {
        let range = keys("a").holders();
        for (name, is_within) in [("a", true), ("a ", false), ("aa", false), ("a:b", false), ("b", false)] {
            let keys = keys(name);
            for random in [0, 7, 255] {
                let token = Token::from_random([random; 16]);
                for (mode, is_exclusive) in [(Mode::Exclusive, true), (Mode::Shared, false)] {
                    let hold = keys.hold(mode, &token);
                    assert_eq!(contains(&range, &hold), is_within, "{name}");
                    assert_eq!(contains(&keys.exclusive(), &hold), is_exclusive, "{name}");
                    assert_eq!(Keys::name_of("quorlock", &hold).unwrap().as_str(), name);
                }
            }
            assert!(contains(&keys.exclusive(), &keys.lock), "what others wrote");
        }
    }

    #[test]
    fn the_slots_of_a_semaphore_are_distinguished_from_those_of_others() {
        let gpu = keys("gpu");
        let semaphores = [("gpu", 12, Some(12)), ("gpu", 0, Some(0)), ("gpu:1", 3, None), ("gpu2", 1, None)];
        for (semaphore, slot, number) in semaphores {
            let slot = Name::of_slot(&Name::new(semaphore).unwrap(), slot);
            let hold = Keys::new("quorlock", &slot).hold(Mode::Exclusive, &Token::from_random([7; 16]));
            assert_eq!(gpu.slot_of(&hold), number, "{semaphore}");
            assert!(number.is_none() || contains(&gpu.slot_locks(), &hold), "{semaphore}");
        }
        assert_eq!(gpu.slot_of(&gpu.lock), None);
    }
}
