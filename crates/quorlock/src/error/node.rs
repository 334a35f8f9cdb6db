//! Why a node gave no vote, each cause with what to do about it.

use quorlock_core::Rounded;
use serde::ser::{Serialize, SerializeStruct, Serializer};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Why one node gave no vote. It never means that a lock is held.
///
/// A node that puts the text of a server into an error makes it [printable](crate::printable) first:
/// errors are shown as they are.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// It did not answer in time.
    #[error("no answer within {}", Rounded(*.after))]
    Timeout {
        /// The limit that passed.
        after: Duration,
    },
    /// It cannot be reached.
    #[error("cannot connect: {source}")]
    Unreachable {
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The connection broke before the answer came.
    #[error("connection lost: {source}")]
    Disconnected {
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// TLS failed: certificate, name or protocol.
    #[error("TLS failed: {reason}")]
    Tls {
        /// What went wrong.
        reason: Arc<str>,
    },
    /// Too many commands wait for it already.
    #[error("its queue of {limit} commands is full")]
    QueueFull {
        /// How many may wait.
        limit: usize,
    },
    /// It restarted or lost its memory, and must not vote until every lock that it may have forgotten is
    /// over.
    #[error(
        "quarantined for another {}, because it restarted or is new; if it is known to be fresh, initialise it once to skip this",
        Rounded(*.left)
    )]
    Quarantined {
        /// How long until it votes.
        left: Duration,
    },
    /// It has no epoch, which would say since when it remembers: it is new, restarted or was emptied, and
    /// no client that takes locks has connected since.
    #[error(
        "it is new, restarted or was emptied, and has no epoch yet: the first client that takes a lock begins its quarantine; if it is known to be fresh, initialise it once"
    )]
    NoEpoch,
    /// It has recorded a longest ttl that is below the ttl of this lock.
    #[error(
        "a ttl of {ttl:?} is above the longest ttl that it has recorded, {longest:?}: use a shorter one, or raise it on all nodes with `quorlock init --raise`"
    )]
    TtlNotRecorded {
        /// What was asked for.
        ttl: Duration,
        /// What it has recorded.
        longest: Duration,
    },
    /// Another node of this locker has the same epoch: one of them was started from a copy of the other's
    /// files.
    #[error(
        "it has the same memory as {other}: one of them was started from a copy of the other's files; empty the copy"
    )]
    SameEpoch {
        /// The other node.
        other: Arc<str>,
    },
    /// It lost its memory between the verification and the vote.
    #[error("it lost its memory while voting")]
    EpochChanged,
    /// It is a replica.
    #[error("it is a replica: a failover would lose locks; name independent primaries instead")]
    Replica,
    /// It is part of a cluster.
    #[error(
        "it is a cluster node: failover and resharding would lose locks; use independent servers instead"
    )]
    Cluster,
    /// It is a Sentinel.
    #[error("it is a Sentinel: failover would lose locks; name independent servers instead")]
    Sentinel,
    /// It may drop keys when its memory is full.
    #[error("its eviction policy `{policy}` may drop locks; set `maxmemory-policy noeviction`")]
    Evicts {
        /// The server's policy.
        policy: Arc<str>,
    },
    /// Another node of this locker is the same server.
    #[error("it is the same server as {other}: each node must be a server of its own")]
    SameServer {
        /// The other node.
        other: Arc<str>,
    },
    /// A member in the address of a cluster belongs to another cluster than the one that answered first.
    #[error(
        "{member} belongs to another cluster ({found:x}) than the one that answered first ({first:x}): name members of one cluster only; if it was replaced or restored, see docs/operations.md"
    )]
    OtherCluster {
        /// The member that answered, as `host:port`.
        member: Arc<str>,
        /// The id of its cluster.
        found: u64,
        /// The id of the cluster that answered first.
        first: u64,
    },
    /// The revision of a cluster went back: it was restored from a backup or lost its data, and may
    /// have forgotten locks.
    #[error(
        "the cluster's revision went back from {seen} to {found}: it was restored or lost its data, and may have forgotten locks; restart this client once the longest ttl is over"
    )]
    Restored {
        /// The revision that it had shown.
        seen: u64,
        /// The one that it answered with.
        found: u64,
    },
    /// It is a standby of PostgreSQL, which keeps nothing.
    #[error("it is a standby: name the primary, or all servers, of which the primary is used")]
    Standby,
    /// A setting of the database lets it forget locks or confuses decisions.
    #[error("`{setting}` is `{found}`, so locks could be lost: set it to `{needed}`")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// What it is set to.
        found: Arc<str>,
        /// What it must be.
        needed: &'static str,
    },
    /// The tables and functions of quorlock are missing in the database, or of an older version.
    #[error("its schema `{schema}` {}; run `quorlock init` as a user that may create it", Missing(*.found))]
    Schema {
        /// The schema.
        schema: Arc<str>,
        /// The version that is there.
        found: Option<u32>,
    },
    /// It was marked durable but does not sync every write.
    #[error(
        "it is marked durable but runs with `{found}`; set `appendonly yes`, `appendfsync always` and `no-appendfsync-on-rewrite no`"
    )]
    NotDurable {
        /// What the server is set to.
        found: Arc<str>,
    },
    /// It was marked durable but has replicas, which get writes after they were answered.
    #[error(
        "it is marked durable but has replicas ({replicas}): failover would lose locks; remove them, or do not mark it durable"
    )]
    Replicated {
        /// How many follow it.
        replicas: u64,
    },
    /// It is too old for what we need.
    #[error("server version {version} is too old; Redis 6.2 or Valkey 7.2 is needed")]
    TooOld {
        /// The server's version.
        version: Arc<str>,
    },
    /// It accepts no writes (READONLY).
    #[error("it is read-only, as a replica is: {message}")]
    ReadOnly {
        /// The server's message.
        message: Arc<str>,
    },
    /// User or password is missing or wrong (NOAUTH, WRONGPASS).
    #[error("authentication failed: {message}")]
    NoAuth {
        /// The server's message.
        message: Arc<str>,
    },
    /// The user may not run a command that we need (NOPERM).
    #[error("permission denied: {message}")]
    NoPermission {
        /// The server's message.
        message: Arc<str>,
    },
    /// Its memory is full (OOM).
    #[error("it is out of memory: {message}")]
    OutOfMemory {
        /// The server's message.
        message: Arc<str>,
    },
    /// It is loading its data (LOADING).
    #[error("it is still loading its data")]
    Loading,
    /// A script blocks it (BUSY).
    #[error("it is busy with a script")]
    Busy,
    /// It refuses writes because it cannot save (MISCONF).
    #[error("it refuses writes because it cannot save to disk: {message}")]
    Misconfigured {
        /// The server's message.
        message: Arc<str>,
    },
    /// A key that we need has another type (WRONGTYPE).
    #[error("a key has another type than expected: {message}")]
    WrongType {
        /// The server's message.
        message: Arc<str>,
    },
    /// Any other error of the server.
    #[error("server error: {message}")]
    Server {
        /// The server's message.
        message: Arc<str>,
    },
    /// It answered what no proper server answers.
    #[error("protocol error: {reason}")]
    Protocol {
        /// What was wrong with the answer.
        reason: Arc<str>,
    },
    /// A file, directory or file system failed (the file node).
    #[error("{action}: {source}")]
    File {
        /// What was tried, with the path.
        action: Arc<str>,
        /// What the operating system said.
        source: Arc<io::Error>,
    },
    /// The directory is on a file system that is not known to be local: kernel locks may not reach every
    /// machine that can write there.
    #[error(
        "`{path}` is on a file system that is not known to be local ({kind}); use one that is, or, if only this machine uses the directory, add `?filesystem=any` to the address"
    )]
    FileSystem {
        /// The directory.
        path: Arc<str>,
        /// The file system: its name, where it is known, and its magic number.
        kind: Arc<str>,
    },
    /// The node shut down without an answer.
    #[error("the node was shut down")]
    Abandoned,
}

impl Serialize for NodeError {
    /// As its kind and its text.
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut fields = out.serialize_struct("NodeError", 2)?;
        fields.serialize_field("kind", self.kind())?;
        fields.serialize_field("message", &self.to_string())?;
        fields.end()
    }
}

impl NodeError {
    /// A stable word for the cause, for logs and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            NodeError::Timeout { .. } => "timeout",
            NodeError::Unreachable { .. } => "unreachable",
            NodeError::Disconnected { .. } => "disconnected",
            NodeError::Tls { .. } => "tls",
            NodeError::QueueFull { .. } => "queue_full",
            NodeError::Quarantined { .. } => "quarantined",
            NodeError::NoEpoch => "no_epoch",
            NodeError::TtlNotRecorded { .. } => "ttl_not_recorded",
            NodeError::SameEpoch { .. } => "same_epoch",
            NodeError::EpochChanged => "epoch_changed",
            NodeError::Replica => "replica",
            NodeError::Cluster => "cluster",
            NodeError::Sentinel => "sentinel",
            NodeError::Evicts { .. } => "evicts",
            NodeError::SameServer { .. } => "same_server",
            NodeError::OtherCluster { .. } => "other_cluster",
            NodeError::Restored { .. } => "restored",
            NodeError::Standby => "standby",
            NodeError::Setting { .. } => "setting",
            NodeError::Schema { .. } => "schema",
            NodeError::NotDurable { .. } => "not_durable",
            NodeError::Replicated { .. } => "replicated",
            NodeError::TooOld { .. } => "too_old",
            NodeError::ReadOnly { .. } => "read_only",
            NodeError::NoAuth { .. } => "no_auth",
            NodeError::NoPermission { .. } => "no_permission",
            NodeError::OutOfMemory { .. } => "out_of_memory",
            NodeError::Loading => "loading",
            NodeError::Busy => "busy",
            NodeError::Misconfigured { .. } => "misconfigured",
            NodeError::WrongType { .. } => "wrong_type",
            NodeError::Server { .. } => "server",
            NodeError::Protocol { .. } => "protocol",
            NodeError::File { .. } => "file",
            NodeError::FileSystem { .. } => "file_system",
            NodeError::Abandoned => "abandoned",
        }
    }
}

/// What is missing of a schema with this version.
struct Missing(Option<u32>);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            None => f.write_str("is missing or was not prepared"),
            Some(version) => write!(f, "has version {version}, which is too old"),
        }
    }
}
