//! Which locks a server may forget: eviction, persistence, the restart guard.

use super::finding::Finding;
use super::node_state::NodeState;
use super::snapshot::Snapshot;
use crate::output::duration::show;
use quorlock::RestartGuard;
use quorlock::node::{Recall, ServerFacts};

/// A server that uses more of its memory limit is nearly full.
const NEARLY_FULL_PERCENT: u64 = 80;

/// Findings about locks that a server may forget.
pub(super) fn findings(snapshot: &Snapshot, state: &NodeState, facts: &ServerFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(quarantine(snapshot, state));
    found.extend(epoch(snapshot, facts));
    found.extend(recall(snapshot, facts));
    found.extend(replicas(snapshot, facts));
    if facts.eviction_policy != "noeviction" && !facts.eviction_policy.is_empty() && facts.refusal.is_none() {
        let found_policy = format!("its eviction policy is `{}`, which you allowed", facts.eviction_policy);
        found.push(
            Finding::warning("evicts")
                .what(found_policy)
                .why("when its memory is full it drops keys, locks among them, and two clients may hold one lock")
                .remedy("set `maxmemory-policy noeviction`, and give locks a server of their own"),
        );
    }
    found.extend(memory(facts));
    found.extend(last_save(facts));
    found
}

fn quarantine(snapshot: &Snapshot, state: &NodeState) -> Option<Finding> {
    let wait = show(snapshot.quarantine());
    match state {
        NodeState::NoEpoch => Some(
            Finding::error("no-epoch")
                .what("it has no epoch: it is new, was flushed, or restarted without its data")
                .why(format!(
                    "it may have forgotten locks; it does not vote for {wait} after the next client connects"
                ))
                .remedy(
                    "if it is known to be new: `quorlock init`; otherwise wait after a client has connected",
                ),
        ),
        NodeState::Quarantined { left } => Some(
            Finding::error("quarantined")
                .what(format!("it restarted or is new, and may not vote for another {}", show(*left)))
                .why("locks that it may have forgotten could still be held; they have expired by then")
                .remedy("wait. Only if it is known to be new: `quorlock init`"),
        ),
        _ => None,
    }
}

fn epoch(snapshot: &Snapshot, facts: &ServerFacts) -> Option<Finding> {
    let (theirs, ours) = (facts.epoch.as_ref()?.longest_ttl, snapshot.settings.longest_ttl.value);
    if theirs < snapshot.settings.ttl.value {
        return Some(
            Finding::warning("longest-ttl")
                .what(format!(
                    "it has recorded {} as the longest ttl, these settings use {}",
                    show(theirs),
                    show(snapshot.settings.ttl.value)
                ))
                .why("it refuses locks with a longer ttl, because it would vote too early after a restart")
                .remedy(format!(
                    "use a shorter ttl; or `quorlock init --raise --longest-ttl {}`",
                    show(ours)
                )),
        );
    }
    (theirs > ours).then(|| {
        Finding::note("longest-ttl")
            .what(format!(
                "other clients use ttls of up to {}, these settings of up to {}",
                show(theirs),
                show(ours)
            ))
            .why("a restarted node does not vote for the longer of the two; all clients should use the same value")
            .remedy(format!("set longest_ttl = \"{}\" here as well", show(theirs)))
    })
}

/// What the server forgets in a crash, and whether the restart guard covers it.
fn recall(snapshot: &Snapshot, facts: &ServerFacts) -> Option<Finding> {
    let what = match facts.recall {
        Recall::Everything => return None,
        Recall::AllButTheLastSecond => "a crash makes it forget its last second or two",
        Recall::AllButTheLastSave => {
            "a crash while it saves makes it forget what it answered meanwhile (`no-appendfsync-on-rewrite yes`)"
        }
        Recall::Partly => "a restart makes it forget seconds to hours",
        Recall::Nothing => "a restart makes it forget everything",
        _ => "it does not report what it remembers after a restart",
    };
    Some(if snapshot.guard == RestartGuard::Off {
        Finding::warning("forgets")
            .what(what)
            .why("without the restart guard it votes at once after a restart, and two clients may hold one lock")
            .remedy("set `appendonly yes` and `appendfsync always`, and mark it with ?durable=yes; or restart_guard = \"strict\"")
    } else {
        Finding::note("forgets")
            .what(what)
            .why(format!(
                "locks stay safe: the restart guard keeps it from voting for {} after a restart",
                show(snapshot.quarantine())
            ))
            .remedy("nothing; or `appendfsync always` with ?durable=yes, which costs a disk sync per lock and avoids that wait")
    })
}

/// What a failover to one of its replicas would do.
fn replicas(snapshot: &Snapshot, facts: &ServerFacts) -> Option<Finding> {
    let what = match facts.replicas {
        0 => return None,
        1 => "a replica follows it".to_owned(),
        count => format!("{count} replicas follow it"),
    };
    Some(if snapshot.guard == RestartGuard::Off {
        Finding::warning("replicas")
            .what(what)
            .why(
                "replicas get writes after the client got its answer: a failover forgets locks, and two clients may \
                 hold one lock",
            )
            .remedy("use a primary without replicas; or three independent ones, whose restart guard detects a failover")
    } else {
        Finding::note("replicas")
            .what(what)
            .why(format!(
                "locks stay safe: the restart guard keeps one that takes over from voting for {}",
                show(snapshot.quarantine())
            ))
            .remedy("nothing; a node needs no replicas, because the other nodes vote when it fails")
    })
}

fn memory(facts: &ServerFacts) -> Option<Finding> {
    let (used, limit) = (facts.memory_used?, facts.memory_limit?);
    let percent = used.saturating_mul(100) / limit.max(1);
    (percent >= NEARLY_FULL_PERCENT).then(|| {
        Finding::warning("memory")
            .what(format!("{percent} % of its memory limit is used"))
            .why("when it is full it refuses new locks")
            .remedy("raise `maxmemory`, or give locks a server of their own")
    })
}

fn last_save(facts: &ServerFacts) -> Option<Finding> {
    let persistence = &facts.persistence;
    let failed = [persistence.last_append_ok, persistence.last_snapshot_ok].contains(&Some(false));
    failed.then(|| {
        Finding::warning("cannot-save")
            .what("its last write to disk failed")
            .why("after a restart it remembers less than it is configured to, and it may begin to refuse writes")
            .remedy("check its log and the free space on its disk")
    })
}
