//! The keys of one name, and what its holders' keys say.

use crate::node::consul::client::txn::Entry;
use quorlock_core::{Mode, Name, StoredLock, Token, Wall};
use std::time::Duration;

/// What the keys of all names have between the prefix and the name.
const LOCK: &str = "lock";
const READERS: &str = "readers/";
const SLOTS: &str = "slots/";
/// The unit in which a session's ttl is stored with each holder.
const TTL_UNIT: Duration = Duration::from_millis(100);
/// How many bits of a holder's flags have the ttl of its session: a day fits in.
const TTL_BITS: u32 = 20;

/// The keys of one name: all of them begin with its directory.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// What all keys of the name begin with; for a slot it is below that of its semaphore.
    directory: String,
    /// The exclusive holder.
    pub(crate) lock: String,
    /// What the keys of shared holders begin with.
    pub(crate) readers: String,
    /// What is kept of the name whether it is held or not.
    pub(crate) record: String,
}

impl Keys {
    pub(crate) fn new(prefix: &str, name: &Name) -> Self {
        let topic = format!("{}{}/", Self::all(prefix), encoded(name.topic().as_str()));
        let directory = match name.as_slot() {
            Some((_, slot)) => format!("{topic}{SLOTS}{slot}/"),
            None => topic,
        };
        Self {
            lock: format!("{directory}lock"),
            readers: format!("{directory}{READERS}"),
            record: format!("{directory}record"),
            directory,
        }
    }

    /// What the keys of all names begin with.
    pub(crate) fn all(prefix: &str) -> String {
        format!("{prefix}/{LOCK}/")
    }

    /// What a waiter for the name watches: its keys and those of its slots.
    pub(crate) fn watched(&self) -> &str {
        &self.directory
    }

    /// What the keys of its slots begin with, if it is a semaphore.
    pub(crate) fn slots(&self) -> String {
        format!("{}{SLOTS}", self.directory)
    }

    /// The number of the slot that `key` holds, if it is one of this semaphore.
    pub(crate) fn slot_of(&self, key: &str) -> Option<usize> {
        key.strip_prefix(&self.slots())?.strip_suffix("/lock")?.parse().ok()
    }

    /// The shared hold of `token`.
    pub(crate) fn reader(&self, token: &Token) -> String {
        format!("{}{token}", self.readers)
    }

    /// The hold of `token` in `mode`.
    pub(crate) fn hold(&self, mode: Mode, token: &Token) -> String {
        match mode {
            Mode::Exclusive => self.lock.clone(),
            Mode::Shared => self.reader(token),
        }
    }
}

/// What a key below [`Keys::all`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ParsedKey {
    pub(crate) name: Name,
    pub(crate) kind: KeyKind,
}

/// What a key of a name holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Lock,
    Reader,
    Record,
}

impl KeyKind {
    pub(crate) fn is_hold(self) -> bool {
        self != KeyKind::Record
    }
}

/// What `key` is, if it is one of ours.
pub(crate) fn parse(prefix: &str, key: &str) -> Option<ParsedKey> {
    let (topic, rest) = key.strip_prefix(&Keys::all(prefix))?.split_once('/')?;
    let topic = Name::new(decoded(topic)?).ok()?;
    let (name, rest) = match rest.strip_prefix(SLOTS) {
        None => (topic, rest),
        Some(slot) => {
            let (slot, rest) = slot.split_once('/')?;
            (Name::of_slot(&topic, slot.parse().ok()?), rest)
        }
    };
    let kind = match rest {
        "lock" => KeyKind::Lock,
        "record" => KeyKind::Record,
        _ if rest.starts_with(READERS) => KeyKind::Reader,
        _ => return None,
    };
    Some(ParsedKey { name, kind })
}

/// `name` as a part of a key: without slashes, and with nothing that an agent refuses in a URL.
fn encoded(name: &str) -> String {
    let is_dots = name.bytes().all(|byte| byte == b'.');
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'.' if is_dots => text.push_str("%2E"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => text.push(byte.into()),
            b'-' | b'_' | b'.' | b'~' | b':' | b'@' | b'+' | b'=' | b',' => text.push(byte.into()),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = tail;
    }
    String::from_utf8(bytes).ok()
}

/// What is stored with a holder's key: until when it holds by its own wall clock, and the ttl of its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// In milliseconds since 1970. Shown to people only.
    pub(crate) ends: u64,
    pub(crate) session_ttl: Duration,
}

impl Times {
    /// Of a hold that lasts for `ttl` from `now`.
    pub(crate) fn new(now: Wall, ttl: Duration, session_ttl: Duration) -> Self {
        Self { ends: (now + ttl).as_micros() / 1000, session_ttl }
    }

    pub(crate) fn from_flags(flags: u64) -> Self {
        let units = flags & ((1 << TTL_BITS) - 1);
        let session_ttl = TTL_UNIT * u32::try_from(units).unwrap_or(u32::MAX);
        Self { ends: flags >> TTL_BITS, session_ttl }
    }

    pub(crate) fn flags(self) -> u64 {
        let units = self.session_ttl.as_millis().div_ceil(TTL_UNIT.as_millis());
        let units = u64::try_from(units).unwrap_or(u64::MAX).min((1 << TTL_BITS) - 1);
        self.ends << TTL_BITS | units
    }

    /// How long the hold lasts. One that should be over and is still there may go on for seconds.
    pub(crate) fn left(self, now: Wall) -> Duration {
        let left = self.ends.saturating_sub(now.as_micros() / 1000);
        Duration::from_millis(left).max(Duration::from_secs(1))
    }
}

/// Whether the holder of `entry` has `token`.
pub(crate) fn has_token(entry: &Entry, token: &Token) -> bool {
    StoredLock::parse(&entry.value).is_some_and(|stored| stored.token == *token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn every_key_leads_back_to_its_name_and_no_name_is_below_another() {
        let token = Token::from_random([7; 16]);
        let slot = Name::of_slot(&name("a/b"), 3);
        let names = ["a", "a/b", "a/lock", "slots", "..", "50 %", "größe", "a:1"].map(name);
        let all: Vec<Name> = names.into_iter().chain([slot]).collect();
        for known in &all {
            let keys = Keys::new("p", known);
            for (key, kind) in [
                (keys.lock.clone(), KeyKind::Lock),
                (keys.reader(&token), KeyKind::Reader),
                (keys.record.clone(), KeyKind::Record),
            ] {
                assert_eq!(parse("p", &key), Some(ParsedKey { name: known.clone(), kind }), "{key}");
                assert!(!key.contains("//") && key.is_ascii(), "{key}");
                let below = |other: &&Name| key.starts_with(Keys::new("p", other).watched());
                let above: Vec<_> = all.iter().filter(below).map(Name::topic).collect();
                assert!(above.iter().all(|other| *other == known.topic()), "{key}");
            }
        }
        for odd in ["p/lock/a", "p/lock/a/other", "p/lock//lock", "q/lock/a/lock", "p/lock/%F/lock"] {
            assert_eq!(parse("p", odd), None, "{odd}");
        }
    }

    #[test]
    fn the_slots_of_a_semaphore_are_counted() {
        let gpu = Keys::new("p", &name("gpu"));
        let slot = Keys::new("p", &Name::of_slot(&name("gpu"), 12));
        assert_eq!((gpu.slot_of(&slot.lock), gpu.slot_of(&slot.record)), (Some(12), None));
        assert_eq!(gpu.slot_of(&gpu.lock), None);
    }

    #[test]
    fn times_are_stored_as_a_number() {
        let now = Wall::from_micros(1_700_000_000_000_000);
        let times = Times::new(now, Duration::from_secs(10), Duration::from_millis(12_500));
        assert_eq!(Times::from_flags(times.flags()), times);
        assert_eq!(times.left(now), Duration::from_secs(10));
        assert_eq!(times.left(now + Duration::from_secs(99)), Duration::from_secs(1), "it is still there");
        let longest = Times { session_ttl: Duration::from_secs(86_400), ..times };
        assert_eq!(Times::from_flags(longest.flags()), longest);
    }
}
