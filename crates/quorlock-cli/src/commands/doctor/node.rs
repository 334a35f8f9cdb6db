//! Findings about one node.

use super::finding::Finding;
use super::node_state::NodeState;
use super::snapshot::{NodeSnapshot, Snapshot};
use super::{node_error, permissions, persistence};
use crate::output::duration::{show, show_fine};
use quorlock::node::{DatabaseFacts, DirectoryFacts, Recall};
use std::time::Duration;

/// A longer round trip is warned about.
const MAX_ROUND_TRIP: Duration = Duration::from_millis(10);
/// A directory with less free space is nearly full, in bytes.
const MIN_FREE_BYTES: u64 = 16 << 20;

pub(super) fn findings(snapshot: &Snapshot, node: &NodeSnapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    if let NodeState::Silent(error) | NodeState::Refused(error) = &node.state {
        found.push(node_error::finding(error));
    }
    found.extend(node.round_trip().and_then(|time| speed(snapshot, time)));
    if let Some(facts) = node.server() {
        found.extend(permissions::findings(snapshot, facts));
        // Persistence does not matter on a server that cannot be a node at all.
        if !matches!(node.state, NodeState::Refused(_)) {
            found.extend(persistence::findings(snapshot, &node.state, facts));
        }
    }
    if let Some(facts) = node.store().filter(|facts| !facts.silent.is_empty()) {
        found.push(
            Finding::warning("silent-member")
                .what(format!("these members do not answer: {}", facts.silent.join(", ")))
                .why("the cluster works, but tolerates fewer further failures")
                .remedy("check that they run, or remove them from the address"),
        );
    }
    if let Some(facts) = node.database() {
        found.extend(database(facts));
    }
    if let Some(facts) = node.directory() {
        found.extend(directory(snapshot, facts));
    }
    found.into_iter().map(|finding| finding.on(node.name())).collect()
}

fn speed(snapshot: &Snapshot, time: Duration) -> Option<Finding> {
    let limit = snapshot.node_timeout();
    if time * 2 > limit {
        return Some(
            Finding::warning("node-timeout")
                .what(format!(
                    "a round trip takes {}, and the node timeout is {}",
                    show_fine(time),
                    show(limit)
                ))
                .why("with a little more load its votes come too late to count")
                .remedy(format!("set --node-timeout {}, or use a nearer server", show(time * 5))),
        );
    }
    (time > MAX_ROUND_TRIP).then(|| {
        Finding::warning("slow")
            .what(format!("a round trip takes {}", show_fine(time)))
            .why(format!(
                "an acquire takes as long as the slowest node of the fastest majority; over {} is slow for a lock",
                show(MAX_ROUND_TRIP)
            ))
            .remedy("use a server nearer to the clients, or find what makes it slow")
    })
}

fn database(facts: &DatabaseFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    if facts.refusal.is_none() && facts.epoch.is_none() {
        let what = match facts.schema_version {
            None => format!("its schema `{}` is missing", facts.schema),
            Some(version) => format!("its schema `{}` has the old version {version}", facts.schema),
        };
        found.push(
            Finding::error("schema")
                .what(what)
                .why("without its tables and functions it keeps no locks")
                .remedy("run `quorlock init` once, as a user that may create a schema"),
        );
    }
    if facts.is_pooled {
        found.push(
            Finding::note("pooled")
                .what("a pooler such as PgBouncer is in between")
                .why("a session cannot listen there, so waiters are not woken and poll")
                .remedy("nothing if that is fine; for faster handovers give the server's own address"),
        );
    }
    if facts.standbys.is_some_and(|standbys| standbys > 0) {
        found.push(
            Finding::note("standbys")
                .what("standbys follow it")
                .why("after a failover it does not vote for the longest ttl plus 10 s, because the last commits may be lost")
                .remedy("nothing if that is fine; where replication is synchronous, say so with ?durable=yes"),
        );
    }
    found
}

fn directory(snapshot: &Snapshot, facts: &DirectoryFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let limit = snapshot.node_timeout();
    if facts.sync * 4 > limit {
        found.push(
            Finding::warning("slow-disk")
                .what(format!(
                    "a sync to disk takes {}, and the node timeout is {}",
                    show_fine(facts.sync),
                    show(limit)
                ))
                .why("with a little more load, locks time out")
                .remedy(format!(
                    "set --node-timeout {}, or name a directory on a faster disk",
                    show(facts.sync * 8)
                )),
        );
    }
    if facts.free_bytes.is_some_and(|free| free < MIN_FREE_BYTES) {
        found.push(
            Finding::warning("disk-full")
                .what("its disk is nearly full")
                .why("a lock is a small file: on a full disk no lock can be acquired")
                .remedy("free some space, or name another directory: file:/path"),
        );
    }
    if facts.recall == Recall::Nothing {
        found.push(
            Finding::note("fences-forgotten")
                .what("it is in memory: a reboot empties it")
                .why("locks end with a reboot anyway, but the last fence is forgotten: the next fences are taken from the clock")
                .remedy("nothing; if what you protect compares fences, make a directory on a disk and name it: file:/directory"),
        );
    }
    found
}
