//! The name of the file that keeps a lock's name.

use crate::node::file::bytes::fnv128;
use quorlock_core::Name;
use std::fmt::Write;

/// How the name of every state file ends.
pub(crate) const SUFFIX: &str = ".lock";

/// The longest encoded name that is used as it is; file systems allow 255 bytes.
const MAX_ENCODED: usize = 200;
/// How much of a longer one is kept, for people.
const KEPT: usize = 160;

/// The file name for `name`: percent-encoded, or its beginning and a hash if that is too long.
///
/// Two names could share a hash, so the file holds the full name and its reader compares.
pub(crate) fn file_name(name: &Name) -> String {
    let mut encoded = String::with_capacity(name.as_str().len() + SUFFIX.len());
    for byte in name.as_str().bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
                encoded.push(char::from(byte));
            }
            // Writing to a string cannot fail.
            _ => write!(encoded, "%{byte:02X}").unwrap_or_default(),
        }
    }
    if encoded.len() > MAX_ENCODED {
        encoded.truncate(KEPT);
        // No encoded name has a `~`, so the two kinds never collide.
        write!(encoded, "~{:032x}", fnv128(name.as_str().as_bytes())).unwrap_or_default();
    }
    encoded.push_str(SUFFIX);
    encoded
}

/// The file of the semaphore whose slot has the file `file`, if it is that of a slot. A slot whose name is
/// too long to be read from the file has none. Only notifications of the kernel need it.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
pub(crate) fn semaphore_file(file: &str) -> Option<String> {
    let slot = file.strip_prefix("quorlock%3Aslot%3A")?.strip_suffix(SUFFIX)?;
    let (semaphore, number) = slot.rsplit_once("%3A")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("{semaphore}{SUFFIX}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(text: &str) -> String {
        file_name(&Name::new(text).unwrap())
    }

    #[test]
    fn the_file_of_a_slot_leads_to_that_of_its_semaphore() {
        for semaphore in ["gpu", "a:b", "a:7", "a b"] {
            let name = Name::new(semaphore).unwrap();
            assert_eq!(semaphore_file(&file_name(&Name::of_slot(&name, 12))), Some(file_name(&name)));
        }
        assert_eq!(semaphore_file("a.lock"), None);
    }

    #[test]
    fn names_become_file_names_that_people_can_read() {
        let table = [
            ("invoice-42", "invoice-42.lock"),
            ("a/../b", "a%2F..%2Fb.lock"),
            ("a:b c", "a%3Ab%20c.lock"),
            ("é", "%C3%A9.lock"),
            ("100%", "100%25.lock"),
        ];
        for (name, expected) in table {
            assert_eq!(file(name), expected);
        }
    }

    #[test]
    fn long_names_differ_by_their_hash() {
        let (a, b) = (file(&("x".repeat(300) + "a")), file(&("x".repeat(300) + "b")));
        assert_ne!(a, b);
        assert_eq!(a.len(), KEPT + 1 + 32 + SUFFIX.len());
    }

    proptest! {
        #[test]
        fn different_names_have_different_short_plain_files(a in "\\PC{1,60}", b in "\\PC{1,60}") {
            prop_assume!(a.len() <= 512 && b.len() <= 512);
            let (Ok(a), Ok(b)) = (Name::new(&a), Name::new(&b)) else { return Ok(()); };
            let (file_a, file_b) = (file_name(&a), file_name(&b));
            prop_assert_eq!(a == b, file_a == file_b);
            prop_assert!(file_a.len() <= 255 && !file_a.contains('/'));
        }
    }
}
