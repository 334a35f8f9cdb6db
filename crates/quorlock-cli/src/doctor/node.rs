//! One node: each thing that may be wrong with it.

use super::finding::Finding;
use super::look::{Look, Seen};
use super::state::State;
use super::{memory, permissions, trouble};
use crate::duration::show;
use quorlock::node::{DirectoryFacts, Recall};
use std::time::Duration;

/// A longer round trip is worth a warning.
const SLOW: Duration = Duration::from_millis(10);
/// A directory with less room is nearly full.
const LITTLE_ROOM: u64 = 16 << 20;

/// Findings about one node.
pub(super) fn findings(look: &Look, seen: &Seen) -> Vec<Finding> {
    let mut found = Vec::new();
    if let State::Silent(error) | State::Refused(error) = &seen.state {
        found.push(trouble::finding(error));
    }
    found.extend(seen.round_trip().and_then(|time| speed(look, time)));
    if let Some(facts) = seen.server() {
        found.extend(permissions::findings(look, facts));
        // A server that cannot be a node at all need not remember anything.
        if !matches!(seen.state, State::Refused(_)) {
            found.extend(memory::findings(look, &seen.state, facts));
        }
    }
    if let Some(facts) = seen.store().filter(|facts| !facts.silent.is_empty()) {
        found.push(
            Finding::warning("silent-member")
                .what(format!("these members do not answer: {}", facts.silent.join(", ")))
                .why("locks can be taken, but fewer of the other members may fail")
                .remedy("see whether they run, or take them out of the address"),
        );
    }
    if let Some(facts) = seen.directory() {
        found.extend(directory(look, facts));
    }
    found.into_iter().map(|finding| finding.on(seen.name())).collect()
}

fn speed(look: &Look, time: Duration) -> Option<Finding> {
    let limit = look.node_timeout();
    if time * 2 > limit {
        return Some(
            Finding::warning("node-timeout")
                .what(format!("a round trip takes {}, and it has {} to answer", exact(time), show(limit)))
                .why("with a little more load its votes come too late to count")
                .remedy(format!("set --node-timeout {}, or use a nearer server", show(time * 5))),
        );
    }
    (time > SLOW).then(|| {
        Finding::warning("slow")
            .what(format!("a round trip takes {}", exact(time)))
            .why("a lock takes as long as the slowest node of the quickest majority; over 10 ms is far for a lock")
            .remedy("use a server nearer to the clients, or find what makes it slow")
    })
}

fn directory(look: &Look, facts: &DirectoryFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let limit = look.node_timeout();
    if facts.sync * 4 > limit {
        found.push(
            Finding::warning("slow-disk")
                .what(format!(
                    "a sync to disk takes {}, and a lock has {} for it",
                    exact(facts.sync),
                    show(limit)
                ))
                .why("with a little more load locks fail for lack of time")
                .remedy(format!(
                    "set --node-timeout {}, or name a directory on a faster disk",
                    show(facts.sync * 8)
                )),
        );
    }
    if facts.free_bytes.is_some_and(|free| free < LITTLE_ROOM) {
        found.push(
            Finding::warning("disk-full")
                .what("its disk is nearly full")
                .why("a lock is a small file: without room there is none")
                .remedy("make room, or name another directory: file:/path"),
        );
    }
    if facts.recall == Recall::Nothing {
        found.push(
            Finding::note("fences-forgotten")
                .what("it is in memory: a reboot empties it")
                .why("locks end with a reboot anyway, but fences are no longer counted on from the last one; they follow the clock then")
                .remedy("nothing; if what you protect compares fences, make a directory on a disk and name it: file:/directory"),
        );
    }
    found
}

/// A short time, exactly enough: `0.42ms`, `12ms`.
pub(super) fn exact(span: Duration) -> String {
    match span.as_micros() {
        micros @ 0..10_000 => format!("{}.{:02}ms", micros / 1000, micros % 1000 / 10),
        _ => show(span),
    }
}
