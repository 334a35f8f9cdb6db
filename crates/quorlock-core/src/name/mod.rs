//! The name of a lock, checked once when it is made.

pub mod set;

use crate::hash::fnv1a;
use crate::text::is_shown;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Names of quorlock's own keys start with this, so no lock may.
pub const RESERVED: &str = "quorlock:";

/// Names of a semaphore's slots start with this.
pub const SLOT: &str = "quorlock:slot:";

/// The name of a lock: 1 to 512 bytes of text without control characters and invisible ones such as
/// direction overrides ([`is_shown`]).
///
/// Cheap to clone. On Redis and Valkey it is the key itself, so other Redlock clients that use the same name
/// exclude us and are excluded by us.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name {
    text: Arc<str>,
    number: u64,
}

impl Name {
    /// The longest name in bytes.
    pub const MAX_BYTES: usize = 512;

    /// Checks `text` and makes it a name.
    ///
    /// # Errors
    /// [`NameError`] if it is empty, longer than [`Name::MAX_BYTES`], holds a control character or an
    /// invisible one, or starts with the reserved prefix `quorlock:`.
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        if text.starts_with(RESERVED) && text.chars().all(is_shown) {
            return Err(NameError::Reserved { name: text.to_owned() });
        }
        Self::checked(text)
    }

    /// The name that a node stores: that of a lock, or that of a semaphore's slot.
    ///
    /// # Errors
    /// As [`Name::new`].
    pub fn from_store(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        match Self::new(text) {
            Err(NameError::Reserved { .. }) if text.starts_with(SLOT) => {
                Self::checked(text).and_then(|name| match name.as_slot() {
                    Some((semaphore, _)) if !semaphore.is_empty() => Ok(name),
                    _ => Err(NameError::Reserved { name: text.to_owned() }),
                })
            }
            name => name,
        }
    }

    /// Checks everything but the prefix.
    fn checked(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > Self::MAX_BYTES {
            return Err(NameError::TooLong { bytes: text.len() });
        }
        match text.char_indices().find(|(_, c)| !is_shown(*c)) {
            Some((at, found)) if found.is_control() => return Err(NameError::Control { at, found }),
            Some((at, found)) => return Err(NameError::Invisible { at, found }),
            None => {}
        }
        Ok(Self { text: text.into(), number: number(text) })
    }

    /// The name under which slot `slot` of the semaphore `semaphore` is locked. No user can choose it.
    pub fn of_slot(semaphore: &Name, slot: u32) -> Self {
        let text = format!("{SLOT}{semaphore}:{slot}");
        Self { number: number(&text), text: text.into() }
    }

    /// The semaphore and the number of the slot, if this is the name of one.
    #[inline]
    pub fn as_slot(&self) -> Option<(&str, u32)> {
        let (semaphore, slot) = self.text.strip_prefix(SLOT)?.rsplit_once(':')?;
        Some((semaphore, slot.parse().ok()?))
    }

    /// What waiters for this name listen to: the name itself, or the semaphore of a slot.
    #[inline]
    pub fn topic(&self) -> Self {
        self.as_slot().map_or_else(
            || self.clone(),
            |(semaphore, _)| Self { number: number(semaphore), text: semaphore.into() },
        )
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// A number for the name, well spread in all its bits, made once. Names that differ may have the same.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// FNV-1a and a final mix.
fn number(text: &str) -> u64 {
    let hash = fnv1a(text.as_bytes());
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number && self.text == other.text
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Name").field(&self.text).finish()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;

    fn try_from(text: String) -> Result<Self, NameError> {
        Self::from_store(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> String {
        name.text.as_ref().to_owned()
    }
}

/// Why a text cannot name a lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The text has no characters.
    #[error("a lock name cannot be empty; give 1 to 512 bytes of text")]
    Empty,
    /// The text has too many bytes.
    #[error("a lock name of {bytes} bytes is too long; at most 512 bytes are allowed")]
    TooLong {
        /// How many bytes it has.
        bytes: usize,
    },
    /// The text holds a control character such as a line feed.
    #[error("a lock name cannot contain the control character {found:?} (at byte {at})")]
    Control {
        /// Where it is, in bytes.
        at: usize,
        /// The character.
        found: char,
    },
    /// The text holds a character that is not shown, such as a direction override: it could look like
    /// another name.
    #[error(
        "a lock name cannot contain the invisible character {found:?} (at byte {at}): it could look like another name"
    )]
    Invisible {
        /// Where it is, in bytes.
        at: usize,
        /// The character.
        found: char,
    },
    /// The text starts with the prefix of quorlock's own keys.
    #[error("the lock name `{name}` starts with `quorlock:`, which is reserved for quorlock's own keys")]
    Reserved {
        /// The name that was refused.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_cannot_be_keys_are_refused_with_the_reason() {
        assert_eq!(Name::new(""), Err(NameError::Empty));
        assert_eq!(Name::new("x".repeat(513)), Err(NameError::TooLong { bytes: 513 }));
        assert_eq!(Name::new("a\nb"), Err(NameError::Control { at: 1, found: '\n' }));
        assert_eq!(Name::new("a\u{202e}b"), Err(NameError::Invisible { at: 1, found: '\u{202e}' }));
        assert_eq!(Name::new("\u{2028}"), Err(NameError::Invisible { at: 0, found: '\u{2028}' }));
        assert!(matches!(Name::new("quorlock:epoch"), Err(NameError::Reserved { .. })));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow: every character there is")]
    fn no_refusal_shows_the_character_itself() {
        for c in ('\0'..=char::MAX).filter(|c| !is_shown(*c)) {
            let refusal = Name::new(format!("quorlock:{c}")).unwrap_err().to_string();
            assert!(refusal.chars().all(is_shown), "{refusal:?}");
        }
    }

    #[test]
    fn the_name_of_a_slot_is_stored_and_read_but_not_chosen() {
        for semaphore in ["gpu", "a:b", "잠금"] {
            let slot = Name::of_slot(&Name::new(semaphore).unwrap(), 12);
            assert_eq!(slot.as_slot(), Some((semaphore, 12)));
            assert_eq!(slot.topic().as_str(), semaphore);
            assert_eq!(Name::from_store(slot.as_str()), Ok(slot.clone()));
            assert!(matches!(Name::new(slot.as_str()), Err(NameError::Reserved { .. })));
        }
        for text in ["quorlock:slot:", "quorlock:slot::1", "quorlock:slot:a:x", "quorlock:epoch"] {
            assert!(matches!(Name::from_store(text), Err(NameError::Reserved { .. })), "{text}");
        }
        assert_eq!(Name::new("a").unwrap().topic().as_str(), "a");
    }

    #[test]
    fn names_may_hold_spaces_and_any_script() {
        for text in ["invoice:42", "a b", "잠금", "نام\u{200c}ها", &"x".repeat(512)] {
            assert_eq!(Name::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn a_name_is_its_text_although_two_texts_may_have_one_number() {
        let a = Name::new("a").unwrap();
        let twin = Name { text: "b".into(), number: a.number };
        assert!(a != twin && a < twin && a == Name::new("a").unwrap());
        assert_eq!(
            (a.to_string().as_str(), a.as_ref(), format!("{a:?}").as_str()),
            ("a", "a", "Name(\"a\")")
        );
        let hash = |name: &Name| {
            let mut hasher = std::hash::DefaultHasher::new();
            name.hash(&mut hasher);
            hasher.finish()
        };
        assert_ne!(hash(&a), hash(&twin));
    }

    #[test]
    fn the_numbers_of_names_are_spread_in_all_their_bytes() {
        let numbers: Vec<u64> =
            (0..256).map(|number| Name::new(format!("invoice:{number}")).unwrap().number()).collect();
        for byte in 0..8 {
            let values: std::collections::BTreeSet<u8> =
                numbers.iter().map(|number| number.to_be_bytes()[byte]).collect();
            // Chance alone gives 162 of 256.
            assert!(values.len() > 120, "byte {byte}: {}", values.len());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_name_or_refused_for_a_reason_it_has(
            text in prop_oneof![any::<String>(), "(quorlock:)?\\PC{0,20}", "[é\\x00-\\x7f]{0,4}.{500,520}"]
        ) {
            match Name::new(&text) {
                Ok(name) => {
                    prop_assert_eq!(name.as_str(), &text);
                    prop_assert!((1..=Name::MAX_BYTES).contains(&text.len()));
                    prop_assert!(text.chars().all(is_shown) && !text.starts_with(RESERVED));
                    prop_assert_eq!(Name::try_from(String::from(name.clone())), Ok(name));
                }
                Err(NameError::Empty) => prop_assert!(text.is_empty()),
                Err(NameError::TooLong { bytes }) => prop_assert!(bytes == text.len() && bytes > Name::MAX_BYTES),
                Err(NameError::Control { at, found } | NameError::Invisible { at, found }) => {
                    prop_assert!(text[at..].starts_with(found));
                }
                Err(NameError::Reserved { name }) => prop_assert!(name.starts_with(RESERVED)),
            }
        }
    }
}
