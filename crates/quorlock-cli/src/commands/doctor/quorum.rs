//! All nodes together: how many there are, and how many may fail.

use super::finding::Finding;
use super::snapshot::Snapshot;

/// Findings about the nodes as a whole.
pub(super) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let mut found = Vec::new();
    let (nodes, needed, voters) = (snapshot.quorum.nodes(), snapshot.quorum.needed(), snapshot.voters());
    if voters < needed {
        found.push(
            Finding::error("no-quorum")
                .what(format!("{voters} of {nodes} nodes can vote, {needed} are needed"))
                .why("no client can acquire a lock")
                .remedy("fix the nodes named here"),
        );
    } else if voters < nodes && snapshot.may_fail() == 0 {
        found.push(
            Finding::warning("no-spare")
                .what(format!("{voters} of {nodes} nodes can vote, and {needed} are needed"))
                .why("locks can be acquired, but no other node may fail")
                .remedy("fix the nodes named here soon"),
        );
    }
    if nodes.is_multiple_of(2) {
        found.push(
            Finding::warning("even-count")
                .what(format!("there are {nodes} nodes, an even number"))
                .why(format!(
                    "it tolerates no more failures than {} nodes, and votes can be split evenly",
                    nodes - 1
                ))
                .remedy(format!("use {} nodes, or {}", nodes - 1, nodes + 1)),
        );
    }
    if snapshot.store().is_some_and(|store| store.members == Some(1)) {
        found.push(
            Finding::note("single-member")
                .what("the cluster has one member")
                .why("when it is down, no client can acquire a lock")
                .remedy("nothing if that is fine; 3 members tolerate one failure, 5 tolerate two"),
        );
    }
    if nodes == 1 && snapshot.servers().next().is_some() {
        found.push(
            Finding::note("single-node")
                .what("there is one node")
                .why("when it is down, no client can acquire a lock")
                .remedy("nothing if that is fine; 3 nodes tolerate one failure, 5 tolerate two"),
        );
    }
    found
}
