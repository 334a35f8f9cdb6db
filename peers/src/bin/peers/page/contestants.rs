//! How contestants are called on a page.

use crate::row::Row;

/// Those that are no library of other people, and what they are.
const OWN_WORDS: &[(&str, &str)] = &[
    ("quorlock", "**quorlock**"),
    ("quorlock-plain", "quorlock without fence and guard"),
    ("quorlock-serve", "quorlock through its sidecar, unix socket"),
    ("redis-crate", "*plain Redlock on the `redis` crate, no retry*"),
    ("floor", "*floor: blocking sockets, a call for all releases*"),
    ("floor-split", "*floor: a call per release*"),
    ("floor-quorum", "*floor: a call per release, a majority is enough*"),
    ("floor-fenced", "*floor: the votes of quorlock, a majority is enough*"),
    ("floor-async", "*floor: the same in one task of tokio*"),
    ("floor-http", "*floor: two empty HTTP exchanges*"),
];

/// The contestant with the version of its library.
pub fn label(row: &Row) -> String {
    let own = OWN_WORDS.iter().find(|(name, _)| *name == row.contestant);
    own.map_or_else(
        || {
            let version = row.version.split(' ').next().unwrap_or_default();
            format!("{} {version}", row.contestant)
        },
        |(_, words)| (*words).to_owned(),
    )
}
