//! Where things are in the tree of znodes.

use quorlock_core::Name;
use std::fmt::Write;

/// How many directories the names are spread over, so that none has too many.
const BUCKETS: u32 = 256;

/// The paths under one prefix.
#[derive(Debug)]
pub(crate) struct Paths {
    /// Everything above [`Paths::locks`], from the top.
    above: Vec<String>,
    /// The directories of all names.
    pub(crate) locks: String,
    /// A znode that is written to read the clock of the leader.
    pub(crate) clock: String,
    /// A znode that is written once under each leader.
    pub(crate) term: String,
}

impl Paths {
    pub(crate) fn new(prefix: &str) -> Self {
        let mut root = String::new();
        let mut above = Vec::new();
        for part in prefix.split('/').filter(|part| !part.is_empty()) {
            root = format!("{root}/{}", escaped(part));
            above.push(root.clone());
        }
        let [locks, clock, term] = ["locks", "clock", "term"].map(|leaf| format!("{root}/{leaf}"));
        Self { above, locks, clock, term }
    }

    /// What must exist before the first lock, in the order in which it is created. The last one shows that
    /// all others exist.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &str> {
        let leaves = [&self.clock, &self.term, &self.locks];
        self.above.iter().chain(leaves).map(String::as_str)
    }

    /// The path of a name. A slot is below its semaphore, so that a watch on that covers it.
    pub(crate) fn of(&self, name: &Name) -> String {
        match name.as_slot() {
            None => self.of_text(name.as_str()),
            Some((semaphore, slot)) => format!("{}/{slot}", self.of_text(semaphore)),
        }
    }

    fn of_text(&self, name: &str) -> String {
        format!("{}/{}", self.bucket(bucket_of(name)), escaped(name))
    }

    pub(crate) fn bucket(&self, bucket: u32) -> String {
        format!("{}/{:02x}", self.locks, bucket % BUCKETS)
    }

    /// The directory that `path` is in, below [`Paths::locks`].
    pub(crate) fn directory<'a>(&self, path: &'a str) -> &'a str {
        path.get(..self.locks.len() + 3).unwrap_or(path)
    }

    /// What is above `path` and below [`Paths::locks`], from the top.
    pub(crate) fn above(&self, path: &str) -> Vec<String> {
        let below = path.strip_prefix(&self.locks).unwrap_or_default();
        let ends = below.match_indices('/').map(|(at, _)| at).filter(|at| *at > 0);
        ends.map(|at| format!("{}{}", self.locks, &below[..at])).collect()
    }
}

/// The name of the lock or semaphore whose znode is called `leaf`; `None` if it is not ours.
pub(crate) fn name_of(leaf: &str) -> Option<Name> {
    Name::new(unescaped(leaf)?).ok()
}

/// FNV-1a. It must never change: clients of all versions must find a name in the same place.
fn bucket_of(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
        % BUCKETS
}

/// `text` as the name of a znode, which allows neither slashes nor control characters nor `.` and `..`.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'.' if at == 0 => escaped.push_str("%2E"),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' | b'@' | b'+' | b'=' => {
                escaped.push(char::from(byte));
            }
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_read_back() {
        for text in ["a", "invoice:42", ".", "..", ".a.b", "a/b", "50 %", "é", "zookeeper"] {
            let escaped = escaped(text);
            assert!(!escaped.contains('/') && escaped != "." && escaped != "..", "{escaped}");
            assert_eq!(unescaped(&escaped).as_deref(), Some(text));
        }
        assert_eq!([unescaped("%4"), unescaped("%zz"), unescaped("%FF")], [None, None, None]);
    }

    #[test]
    fn a_slot_is_below_its_semaphore_in_the_place_that_never_changes() {
        let paths = Paths::new("a/b c");
        let gpu = Name::new("gpu").unwrap();
        assert_eq!(paths.of(&gpu), "/a/b%20c/locks/15/gpu");
        let slot = paths.of(&Name::of_slot(&gpu, 7));
        assert_eq!(slot, "/a/b%20c/locks/15/gpu/7");
        assert_eq!(paths.above(&slot), ["/a/b%20c/locks/15", "/a/b%20c/locks/15/gpu"]);
        assert_eq!(paths.directory(&slot), "/a/b%20c/locks/15");
        let roots: Vec<_> = paths.roots().collect();
        assert_eq!(roots, ["/a", "/a/b%20c", "/a/b%20c/clock", "/a/b%20c/term", "/a/b%20c/locks"]);
    }
}
