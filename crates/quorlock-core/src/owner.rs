//! The value that a node stores under a lock's name: token, fence and a short label with its owner.

use crate::fence::Fence;
use crate::text::printable;
use crate::time::Wall;
use crate::token::Token;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// The longest host part and reason that are stored and read, in bytes; longer ones are cut.
const MAX_LABEL: usize = 200;

/// Who holds a lock, since when and why, as the holder stored it; [printable](crate::text) if it comes
/// from a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// `user@host`.
    pub who: String,
    /// The process on that host.
    pub pid: u32,
    /// When the attempt began, by the holder's wall clock.
    pub since: SystemTime,
    /// Why, if the holder gave a reason.
    pub reason: Option<String>,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.who, self.pid)?;
        self.reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
    }
}

/// The value that a node stores under the name: `token fence who pid since reason`.
///
/// One plain string, so clients that only know `SET NX` see a taken key and leave it alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredLock {
    /// The proof of ownership; it comes first and decides.
    pub token: Token,
    /// The fence of this holder.
    pub fence: Fence,
    /// The owner.
    pub owner: Owner,
}

/// What a label contains besides the time, cleaned and cut once for all attempts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// `who pid `, with the space after it.
    before: String,
    /// ` reason`, with the space before it, or nothing.
    after: String,
}

impl Signature {
    /// The owner, its process, and why it takes the lock.
    pub fn new(who: &str, pid: u32, reason: Option<&str>) -> Self {
        let who = plain(who).replace(' ', "_");
        let who = if who.is_empty() { "?" } else { &who };
        let reason = reason.map(plain).filter(|reason| !reason.is_empty());
        Self {
            before: format!("{who} {pid} "),
            after: reason.map(|reason| format!(" {reason}")).unwrap_or_default(),
        }
    }
}

/// The text after token and fence, which never changes while the lock is held: a signature and when the
/// attempt began.
///
/// Cheap to clone, and written only when a node stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    signature: Arc<Signature>,
    since: Wall,
}

impl Label {
    /// The label of an attempt that began at `since`.
    pub fn new(signature: Arc<Signature>, since: Wall) -> Self {
        Self { signature, since }
    }

    /// The text before the time, the time, and the text after it.
    pub fn parts(&self) -> (&str, Wall, &str) {
        (&self.signature.before, self.since, &self.signature.after)
    }

    /// The owner.
    pub fn owner(&self) -> Owner {
        let (before, since, after) = self.parts();
        let (who, pid) = before.trim_end().rsplit_once(' ').unwrap_or(("?", ""));
        Owner {
            who: who.to_owned(),
            pid: pid.parse().unwrap_or_default(),
            since: since.into(),
            reason: after.strip_prefix(' ').map(str::to_owned),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, since, after) = self.parts();
        write!(f, "{before}{}{after}", since.as_micros())
    }
}

impl StoredLock {
    /// The label that an owner's lock has.
    pub fn label(owner: &Owner) -> Label {
        let signature = Signature::new(&owner.who, owner.pid, owner.reason.as_deref());
        Label::new(Arc::new(signature), owner.since.into())
    }

    /// The whole value as it is stored.
    pub fn encode(&self) -> String {
        format!("{} {} {}", self.token, self.fence, Self::label(&self.owner))
    }

    /// Reads a stored value; `None` if another kind of client wrote it.
    ///
    /// Owner and reason are made [printable](crate::text), so what is read need not be what
    /// [`StoredLock::encode`] writes. Only the token is good for a comparison with what a node stores.
    pub fn parse(value: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(value).ok()?.splitn(6, ' ');
        Some(Self {
            token: parts.next()?.parse().ok()?,
            fence: Fence::try_from(parts.next()?.parse::<u64>().ok()?).ok()?,
            owner: Owner {
                who: printable(parts.next()?, MAX_LABEL),
                pid: parts.next()?.parse().ok()?,
                since: Wall::from_micros(parts.next()?.parse().ok()?).into(),
                reason: parts.next().map(|reason| printable(reason, MAX_LABEL)),
            },
        })
    }
}

/// `text` as it is stored in a label.
fn plain(text: &str) -> String {
    printable(text.trim(), MAX_LABEL).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored(who: &str, reason: Option<&str>) -> StoredLock {
        StoredLock {
            token: Token::from_random([1; 16]),
            fence: Fence::new(1_763_240_000_000_000),
            owner: Owner {
                who: who.to_owned(),
                pid: 42,
                since: Wall::from_micros(1_763_240_000_000_000).into(),
                reason: reason.map(str::to_owned),
            },
        }
    }

    #[test]
    fn a_label_names_its_owner() {
        for reason in [None, Some("the nightly report")] {
            let owner = stored("ann@web", reason).owner;
            assert_eq!(StoredLock::label(&owner).owner(), owner);
        }
    }

    #[test]
    fn what_is_stored_can_be_read_back() {
        for value in [stored("ann@web1", None), stored("ann@web1", Some("nightly report, second try"))] {
            assert_eq!(StoredLock::parse(value.encode().as_bytes()), Some(value));
        }
    }

    #[test]
    fn values_of_other_clients_are_not_ours() {
        for foreign in ["", "x", "b3f1c2d4e5f60718", "a b c d e f", "\u{0}\u{1}"] {
            assert_eq!(StoredLock::parse(foreign.as_bytes()), None, "{foreign:?}");
        }
        assert_eq!(StoredLock::parse(&[0xff; 40]), None);
    }

    #[test]
    fn labels_are_cut_and_cleaned() {
        let value = stored("a b\n@c", Some(&"é".repeat(500))).encode();
        let read = StoredLock::parse(value.as_bytes()).unwrap();
        assert_eq!(read.owner.who, "a_b\u{fffd}@c");
        assert!(read.owner.reason.unwrap().len() <= MAX_LABEL);
        assert_eq!(StoredLock::parse(stored("", None).encode().as_bytes()).unwrap().owner.who, "?");
    }

    #[test]
    fn a_label_of_just_the_longest_length_is_kept_whole() {
        let longest = "x".repeat(MAX_LABEL);
        let value = stored(&longest, Some(&longest)).encode();
        let read = StoredLock::parse(value.as_bytes()).unwrap().owner;
        assert_eq!((read.who, read.reason), (longest.clone(), Some(longest)));
    }

    /// Goal: what another client stored cannot control the terminal of people who read it.
    #[test]
    fn hostile_owners_and_reasons_are_printable_once_they_are_read() {
        let head = stored("ann", None).encode();
        let (token_and_fence, rest) = head.split_once(" ann ").unwrap();
        let hostile = "x\u{1b}[2J\n\u{202e}y";
        let value = format!("{token_and_fence} {hostile} {rest} why {hostile}{}", "z".repeat(500));
        let read = StoredLock::parse(value.as_bytes()).unwrap();
        assert_eq!(read.token, stored("ann", None).token);
        assert_eq!(read.owner.who, "x\u{fffd}[2J\u{fffd}\u{fffd}y");
        let reason = read.owner.reason.unwrap();
        assert!(
            reason.starts_with("why x\u{fffd}[2J\u{fffd}\u{fffd}yzz") && reason.len() <= MAX_LABEL,
            "{reason}"
        );
    }

    #[test]
    fn an_owner_is_shown_with_its_process_and_its_reason() {
        assert_eq!(stored("ann@web1", None).owner.to_string(), "ann@web1 (pid 42)");
        assert_eq!(stored("ann@web1", Some("why")).owner.to_string(), "ann@web1 (pid 42): why");
    }

    proptest! {
        #[test]
        fn any_label_can_be_stored_and_read(who in ".*", reason in prop::option::of(".*")) {
            let value = stored(&who, reason.as_deref());
            let read = StoredLock::parse(value.encode().as_bytes()).unwrap();
            prop_assert_eq!(read.token, value.token);
            prop_assert_eq!(read.fence, value.fence);
            prop_assert_eq!(read.owner.pid, 42);
        }

        /// Goal: a value that was changed on the way is refused, or read as what it says.
        #[test]
        fn a_changed_value_is_read_as_it_is_or_refused(
            reason in "[a-z ]{0,20}",
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 1..4),
        ) {
            let mut value = stored("ann@web1", Some(&reason)).encode().into_bytes();
            for (at, byte, insert) in changes {
                let at = at.index(value.len());
                if insert { value.insert(at, byte); } else { value[at] = byte; }
            }
            if let Some(read) = StoredLock::parse(&value) {
                prop_assert_eq!(read.token.as_str().as_bytes(), &value[..Token::LEN]);
                let again = StoredLock::parse(read.encode().as_bytes()).unwrap();
                prop_assert_eq!((again.token, again.fence, again.owner.pid), (read.token, read.fence, read.owner.pid));
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = StoredLock::parse(&bytes);
        }
    }
}
