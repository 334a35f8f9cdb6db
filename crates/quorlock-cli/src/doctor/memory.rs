//! What a server remembers: eviction, persistence, the restart guard.

use super::finding::Finding;
use super::look::Look;
use super::state::State;
use crate::duration::show;
use quorlock::RestartGuard;
use quorlock::node::{Recall, ServerFacts};

/// From this share of its memory on, a server is nearly full.
const NEARLY_FULL_PERCENT: u64 = 80;

/// Findings about what a server remembers.
pub(super) fn findings(look: &Look, state: &State, facts: &ServerFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    found.extend(quarantine(look, state));
    found.extend(epoch(look, facts));
    found.extend(recall(look, facts));
    found.extend(replicas(look, facts));
    if facts.eviction_policy != "noeviction" && !facts.eviction_policy.is_empty() && facts.refusal.is_none() {
        let found_policy = format!("its eviction policy is `{}`, which you allowed", facts.eviction_policy);
        found.push(
            Finding::warning("evicts")
                .what(found_policy)
                .why("when its memory is full it drops keys, locks among them, and two may hold one")
                .remedy("set `maxmemory-policy noeviction`, and give locks a server of their own"),
        );
    }
    found.extend(room(facts));
    found.extend(saving(facts));
    found
}

fn quarantine(look: &Look, state: &State) -> Option<Finding> {
    let wait = show(look.quarantine());
    match state {
        State::Unmarked => Some(
            Finding::error("unmarked")
                .what("it has no mark of its memory: it is new, was flushed, or restarted with nothing kept")
                .why(format!(
                    "it may have forgotten locks; from the next client on it stays without a vote for {wait}"
                ))
                .remedy("if it is known to be new: `quorlock init`; otherwise let a client come, and wait"),
        ),
        State::Quarantined { left } => Some(
            Finding::error("quarantined")
                .what(format!("it restarted or is new, and may not vote for another {}", show(*left)))
                .why("locks that it may have forgotten could still be held; they are over by then")
                .remedy("wait. Only if it is known to be new: `quorlock init`"),
        ),
        _ => None,
    }
}

fn epoch(look: &Look, facts: &ServerFacts) -> Option<Finding> {
    let (theirs, ours) = (facts.epoch.as_ref()?.longest_ttl, look.settings.longest_ttl.value);
    if theirs < look.settings.ttl.value {
        return Some(
            Finding::warning("longest-ttl")
                .what(format!(
                    "it has recorded {} as the longest ttl, these settings use {}",
                    show(theirs),
                    show(look.settings.ttl.value)
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
            .why("a restarted node stays out for the longest of both; clients that disagree surprise people")
            .remedy(format!("set longest_ttl = \"{}\" here as well", show(theirs)))
    })
}

/// Which guarantee the server's persistence gives, with the restart guard that there is.
fn recall(look: &Look, facts: &ServerFacts) -> Option<Finding> {
    let what = match facts.recall {
        Recall::Everything => return None,
        Recall::AllButTheLastSecond => "a crash makes it forget its last second or two",
        Recall::AllButTheLastSave => {
            "a crash while it saves makes it forget what it answered meanwhile (`no-appendfsync-on-rewrite yes`)"
        }
        Recall::Partly => "a restart makes it forget seconds to hours",
        Recall::Nothing => "a restart makes it forget everything",
        _ => "it does not tell what it remembers after a restart",
    };
    Some(if look.guard == RestartGuard::Off {
        Finding::warning("forgets")
            .what(what)
            .why("without the restart guard it votes at once after a restart, and two may hold one lock")
            .remedy("set `appendonly yes` and `appendfsync always`, and mark it with ?durable=yes; or restart_guard = \"strict\"")
    } else {
        Finding::note("forgets")
            .what(what)
            .why(format!(
                "locks stay safe: the restart guard keeps it from voting for {} after a restart",
                show(look.quarantine())
            ))
            .remedy("nothing; or `appendfsync always` with ?durable=yes, which costs a disk sync per lock and saves that wait")
    })
}

/// What a failover to one of its replicas would do.
fn replicas(look: &Look, facts: &ServerFacts) -> Option<Finding> {
    let what = match facts.replicas {
        0 => return None,
        1 => "a replica follows it".to_owned(),
        count => format!("{count} replicas follow it"),
    };
    Some(if look.guard == RestartGuard::Off {
        Finding::warning("replicas")
            .what(what)
            .why("they get writes after they were answered: a failover forgets locks, and two may hold one")
            .remedy("use a primary without replicas; or three independent ones, whose restart guard notices a failover")
    } else {
        Finding::note("replicas")
            .what(what)
            .why(format!(
                "locks stay safe: the restart guard keeps one that takes over from voting for {}",
                show(look.quarantine())
            ))
            .remedy("nothing; a node needs no replicas, as the other nodes are there for when it fails")
    })
}

fn room(facts: &ServerFacts) -> Option<Finding> {
    let (used, limit) = (facts.memory_used?, facts.memory_limit?);
    let percent = used.saturating_mul(100) / limit.max(1);
    (percent >= NEARLY_FULL_PERCENT).then(|| {
        Finding::warning("memory")
            .what(format!("{percent} % of its memory limit is used"))
            .why("when it is full it refuses new locks")
            .remedy("raise `maxmemory`, or give locks a server of their own")
    })
}

fn saving(facts: &ServerFacts) -> Option<Finding> {
    let kept = &facts.persistence;
    let failed = [kept.last_append_ok, kept.last_snapshot_ok].contains(&Some(false));
    failed.then(|| {
        Finding::warning("cannot-save")
            .what("its last write to disk failed")
            .why("it remembers less than it is set to after a restart, and may come to refuse writes")
            .remedy("look at its log and at the room on its disk")
    })
}
