//! Why a server cannot be a node, as a finding.

use super::finding::Finding;
use quorlock::node::NodeError;

/// The finding for a node that failed with `error`.
pub(super) fn finding(error: &NodeError) -> Finding {
    let (why, remedy) = explain(error);
    let what = match error {
        NodeError::SameServer { other } => format!("it is the same server as {other}"),
        NodeError::Replica => "it is a replica".to_owned(),
        NodeError::Cluster => "it is part of a Redis Cluster".to_owned(),
        NodeError::Sentinel => "it is a Sentinel".to_owned(),
        NodeError::Evicts { policy } => format!("its eviction policy is `{policy}`"),
        other => other.to_string(),
    };
    Finding::error(error.kind().replace('_', "-")).what(what).why(why).remedy(remedy)
}

const NO_VOTE: &str = "it cannot vote, so fewer of the other nodes may fail";
const FAILOVER: &str = "replicas get writes after the client got its answer: a failover forgets locks, and two clients may hold one lock";

/// Why it matters, and what to do.
fn explain(error: &NodeError) -> (&'static str, &'static str) {
    match error {
        NodeError::Timeout { .. } => (
            NO_VOTE,
            "check that the server runs and is not overloaded; if it is far away, raise connect_timeout and --node-timeout",
        ),
        NodeError::Unreachable { .. } | NodeError::Disconnected { .. } => (
            NO_VOTE,
            "check that the server runs, its address, its `bind` line and the firewall; for a port with TLS use `rediss://` or `etcds://`",
        ),
        NodeError::Tls { .. } => (
            NO_VOTE,
            "check the certificate, the name in the URL and the port, which may speak no TLS; give the authority with ?ca=/path/to/ca.pem",
        ),
        NodeError::Replica | NodeError::ReadOnly { .. } => {
            (FAILOVER, "name independent primaries that have no replicas to fail over to")
        }
        NodeError::Sentinel => (
            "it promotes a replica when the primary fails, which forgets locks",
            "name independent servers instead, none of which Sentinel watches",
        ),
        NodeError::Cluster => (
            "failover and resharding forget locks, and two clients may hold one lock",
            "use independent servers with `cluster-enabled no`",
        ),
        NodeError::Evicts { .. } => (
            "when its memory is full it drops keys, locks among them, and two clients may hold one lock",
            "set `maxmemory-policy noeviction`, and give locks a server of their own",
        ),
        NodeError::SameServer { .. } => (
            "one server would vote twice: fewer nodes may fail than it seems, and a majority of votes is not one of servers",
            "name each server once, by one address",
        ),
        NodeError::OtherCluster { .. } => (
            "each cluster would grant the lock to another client, and two clients may hold one lock",
            "name members of one cluster only; after a restore, see `Backup and restore` in docs/operations.md",
        ),
        NodeError::Restored { .. } => (
            "it may have forgotten locks that are held, and two clients may hold one lock",
            "stop all clients, wait until the longest ttl is over, and start them again",
        ),
        NodeError::Standby => (
            "a standby accepts no writes, and a promotion may lose the last ones",
            "name the primary, or all servers of the cluster: postgres://user@a,b/database",
        ),
        NodeError::Setting { .. } => (
            "after a crash it may have forgotten locks, or decide by an old view of them",
            "change the setting, for the whole server or with ALTER ROLE ... SET for this user",
        ),
        NodeError::Schema { .. } => (
            NO_VOTE,
            "run `quorlock init` once, as a user that may create a schema; see docs/engines.md for the rights",
        ),
        NodeError::NotDurable { .. } => (
            "after a crash it may have forgotten locks, and would vote at once",
            "set `appendonly yes`, `appendfsync always` and `no-appendfsync-on-rewrite no`, or do not mark it durable",
        ),
        NodeError::SameEpoch { .. } => (
            "the copy lacks the locks of the node that it replaced, so neither of them votes",
            "empty the one that was restored (`FLUSHALL`); it votes after the longest ttl and 10 s",
        ),
        NodeError::Replicated { .. } => (
            FAILOVER,
            "remove the replicas; or do not mark it durable, so that the restart guard protects it",
        ),
        NodeError::TooOld { .. } => {
            ("it lacks commands that are needed", "use Redis 6.2 or later, or any Valkey")
        }
        NodeError::NoAuth { .. } => {
            (NO_VOTE, "put user and password into the URL, before the host: user:password@host")
        }
        NodeError::NoPermission { .. } => {
            (NO_VOTE, "allow the user what is needed: see `quorlock doctor --json`")
        }
        NodeError::OutOfMemory { .. } => (NO_VOTE, "give it more memory, or a server of its own for locks"),
        NodeError::Misconfigured { .. } => (NO_VOTE, "read its log: it cannot write to its disk"),
        NodeError::Loading => (NO_VOTE, "wait until it has loaded its data"),
        NodeError::Busy => {
            (NO_VOTE, "find the script that blocks it; `SCRIPT KILL` ends one that wrote nothing")
        }
        NodeError::FileSystem { .. } => (
            "kernel locks may not reach every machine that can write there",
            "make a directory on a local disk and name it: file:/directory",
        ),
        NodeError::File { .. } => (NO_VOTE, "check that the directory exists, is yours and has room"),
        _ => (NO_VOTE, "read the server's log"),
    }
}
