//! Values that are stored under a name: what is read and written again keeps its meaning.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quorlock::StoredLock;
use quorlock::node::Content;

/// The most characters of a value of another program that are shown, with the dots behind them.
const PREVIEW: usize = 8;

fuzz_target!(|value: &[u8]| {
    match Content::from_value(value) {
        Content::Lock(stored) => {
            assert!(value.starts_with(stored.token.to_string().as_bytes()), "the token comes first");
            let written = stored.encode();
            let again = StoredLock::parse(written.as_bytes()).expect("what is written can be read");
            assert_eq!((again.token, again.fence), (stored.token, stored.fence));
            assert_eq!((again.owner.pid, again.owner.since), (stored.owner.pid, stored.owner.since));
            assert_eq!(again.encode(), written, "written once, it stays the same");
        }
        Content::Foreign(shown) => {
            assert!(StoredLock::parse(value).is_none());
            assert!(shown.chars().count() <= PREVIEW && !shown.contains(char::is_control), "{shown:?}");
        }
        _ => unreachable!("a value is a lock or a text of another program"),
    }
});
