//! What an examination finds out about a node.

use crate::node::NodeError;
use serde::{Serialize, Serializer};
use std::time::Duration;

/// What an examination found out about a node.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Facts {
    /// It is a Redis or Valkey server, or something that answers like one.
    Server(Box<ServerFacts>),
    /// It is a directory of this machine.
    Directory(DirectoryFacts),
    /// It is a store with a consensus of its own, such as an etcd or a Consul cluster.
    Store(StoreFacts),
    /// It is a PostgreSQL database.
    Database(Box<DatabaseFacts>),
    /// It is the memory of this process, which has no facts.
    Process,
    /// It is a node of another kind, whose facts are unknown.
    Unknown,
}

/// What a server is and how it is set up.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ServerFacts {
    /// Kind and version, such as `redis 7.0.15`.
    pub version: String,
    /// What the server calls this run of itself. Two nodes with the same one are one server.
    pub run_id: String,
    /// `standalone`, `cluster` or `sentinel`.
    pub mode: String,
    /// `master` or `slave`; a Sentinel has none.
    pub role: String,
    /// How many replicas follow it.
    pub replicas: u64,
    /// How long it has been running, if it reports that.
    #[serde(rename = "uptime_ms", serialize_with = "some_millis")]
    pub uptime: Option<Duration>,
    /// Why it cannot be a node as it is set up, or as full as it is, if it cannot.
    pub refusal: Option<NodeError>,
    /// What it may drop when its memory is full: `noeviction` is what locks need.
    pub eviction_policy: String,
    /// How much memory it may use, in bytes; `None` if there is no limit.
    pub memory_limit: Option<u64>,
    /// How much memory it uses, in bytes.
    pub memory_used: Option<u64>,
    /// What it keeps on disk.
    pub persistence: Persistence,
    /// What it remembers after a restart, by its persistence.
    pub recall: Recall,
    /// The mark by which the restart guard knows whether it remembers; `None` if it has none, as a server
    /// that is new, was flushed, or is used without restart guard.
    pub epoch: Option<EpochFacts>,
    /// How far its wall clock is ahead of ours, in microseconds, to within half a round trip.
    pub clock_ahead_micros: Option<i64>,
    /// The median of a few pings, one after another.
    #[serde(rename = "round_trip_us", serialize_with = "some_micros")]
    pub round_trip: Option<Duration>,
    /// The user that we are logged in as, if it reports that.
    pub user: Option<String>,
    /// What this user cannot do of what we need. Not tried on a server that cannot be a node whatever its
    /// settings.
    pub denied: Vec<Denial>,
    /// A command of its own to delete a key by its value, which newer servers have.
    pub fast_release: Option<FastRelease>,
}

/// What a server keeps on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Persistence {
    /// Whether it writes an append-only file.
    pub appends: bool,
    /// When that file is synced (`always`, `everysec`, `no`), if we may ask.
    pub append_sync: Option<String>,
    /// Whether that file is synced even while a child process saves or rewrites
    /// (`no-appendfsync-on-rewrite no`), if we may ask.
    pub syncs_while_saving: Option<bool>,
    /// When snapshots are taken, as the server writes it, if we may ask; empty if never.
    pub snapshots: Option<String>,
    /// Whether the last write to the append-only file went well.
    pub last_append_ok: Option<bool>,
    /// Whether the last snapshot went well.
    pub last_snapshot_ok: Option<bool>,
}

impl Persistence {
    /// What a server that is set up like this remembers after a restart.
    pub fn recall(&self) -> Recall {
        match (self.appends, self.append_sync.as_deref(), self.snapshots.as_deref()) {
            (true, Some("always"), _) if self.syncs_while_saving == Some(false) => Recall::AllButTheLastSave,
            (true, Some("always"), _) => Recall::Everything,
            (true, Some("everysec"), _) => Recall::AllButTheLastSecond,
            (true, Some(_), _) => Recall::Partly,
            (false, _, Some("")) => Recall::Nothing,
            (false, _, Some(_)) => Recall::Partly,
            (true, None, _) | (false, _, None) => Recall::Unknown,
        }
    }
}

/// What a node remembers of the locks that it held, after it or its machine crashed and came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recall {
    /// Everything that it had answered.
    Everything,
    /// Everything but the last second or two before it or its machine crashed: it delays writes while the
    /// disk is busy.
    AllButTheLastSecond,
    /// Everything but what it answered while it saved or rewrote its file, if it crashed then: it did not
    /// sync in the meantime.
    AllButTheLastSave,
    /// What its last snapshot had, or what the kernel had written by then: anything from seconds to hours
    /// is lost.
    Partly,
    /// Nothing at all.
    Nothing,
    /// It does not report it.
    Unknown,
}

/// The mark by which the restart guard knows whether a server remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct EpochFacts {
    /// How long ago it began, by the server's clock.
    #[serde(rename = "age_ms", serialize_with = "millis")]
    pub age: Duration,
    /// The longest ttl of any client that it was built for.
    #[serde(rename = "longest_ttl_ms", serialize_with = "millis")]
    pub longest_ttl: Duration,
    /// Whether it was confirmed in this run of the server. If not, the server restarted since a client
    /// last verified it, and the next client that does begins a new epoch unless the server is marked
    /// durable.
    pub is_of_this_run: bool,
    /// How long the server may not vote yet; zero without restart guard.
    #[serde(rename = "quarantine_ms", serialize_with = "millis")]
    pub quarantine: Duration,
    /// What makes it unique. Two nodes with the same one were started from the same files.
    pub nonce: String,
}

/// Something that we need and cannot do.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Denial {
    /// The command, such as `SET` or `SCRIPT LOAD`.
    pub command: String,
    /// The key or channel on which it was tried.
    pub on: Option<String>,
    /// What it is needed for.
    pub purpose: Purpose,
    /// The server's answer.
    pub cause: NodeError,
}

/// What a command is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Purpose {
    /// Taking, keeping, inspecting and releasing locks: without it the server is no node.
    Locking,
    /// Detecting whether the server forgot: without it the server is no node unless the restart guard is
    /// off.
    RestartGuard,
    /// Sharing locks: without it the server refuses readers.
    SharedLocks,
    /// Permits of semaphores: without it the server refuses them.
    Semaphores,
    /// Waking waiters: without it they poll from time to time.
    Hints,
    /// Ending our old connections: without it a server that was stopped may take a lock once it wakes,
    /// which then stays until its ttl is over.
    Reconnecting,
    /// Listing locks.
    Listing,
    /// Checking that a server marked durable is so.
    Durability,
}

/// A command that deletes a key if it has a given value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FastRelease {
    /// `DELEX key IFEQ value`, of Redis 8.4 and later.
    Delex,
    /// `DELIFEQ key value`, of Valkey 9.0 and later.
    Delifeq,
}

/// What a directory is like.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DirectoryFacts {
    /// Where it is.
    pub path: String,
    /// Its file system, such as `ext4`, or the number of one that we have no name for; `None` if the
    /// system does not report it.
    pub file_system: Option<String>,
    /// How much room is left for us, in bytes.
    pub free_bytes: Option<u64>,
    /// How long it took to write a file and to sync it to disk, as an acquire does. Give the node timeout
    /// several times as long.
    #[serde(rename = "sync_us", serialize_with = "micros")]
    pub sync: Duration,
    /// What it remembers after a crash of the machine. Locks end with a reboot, so it is the fences that
    /// matter.
    pub recall: Recall,
}

/// What a store with a consensus of its own reports.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct StoreFacts {
    /// Kind and version, such as `etcd 3.5.9`.
    pub version: String,
    /// Whether the member that answered sees a leader.
    pub has_leader: bool,
    /// How many members it has, if it reports that. More than half of them must be up.
    pub members: Option<usize>,
    /// Those of the members in the address that do not answer.
    pub silent: Vec<String>,
    /// How large its data is, in bytes; 0 if it does not report that.
    pub size: u64,
    /// What is wrong with it, as it reports it.
    pub errors: Vec<String>,
    /// How long a read took on which its members agree.
    #[serde(rename = "round_trip_us", serialize_with = "micros")]
    pub round_trip: Duration,
}

/// What a database is and how it is set up.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DatabaseFacts {
    /// Kind and version, such as `postgres 15.14`.
    pub version: String,
    /// The server that answered, as `host:port`.
    pub server: String,
    /// Why it cannot be a node as it is set up, if it cannot.
    pub refusal: Option<NodeError>,
    /// Where the tables and functions are.
    pub schema: String,
    /// The version of the tables and functions; `None` if there are none.
    pub schema_version: Option<u32>,
    /// Whether a pooler such as PgBouncer is in between. Waiters then poll.
    pub is_pooled: bool,
    /// When a commit is answered (`synchronous_commit`), unless a function of ours asks for more.
    pub synchronous_commit: String,
    /// How many standbys follow it; `None` if we may not know.
    pub standbys: Option<u64>,
    /// Which server its memory belongs to, if it was prepared.
    pub epoch: Option<EpochFacts>,
    /// How far its wall clock is ahead of ours, in microseconds, to within half a round trip.
    pub clock_ahead_micros: Option<i64>,
    /// How long a short statement took.
    #[serde(rename = "round_trip_us", serialize_with = "micros")]
    pub round_trip: Duration,
}

fn millis<S: Serializer>(span: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

fn micros<S: Serializer>(span: &Duration, out: S) -> Result<S::Ok, S::Error> {
    out.serialize_u64(u64::try_from(span.as_micros()).unwrap_or(u64::MAX))
}

fn some_millis<S: Serializer>(span: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => millis(span, out),
        None => out.serialize_none(),
    }
}

fn some_micros<S: Serializer>(span: &Option<Duration>, out: S) -> Result<S::Ok, S::Error> {
    match span {
        Some(span) => micros(span, out),
        None => out.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_remembers_follows_from_its_persistence() {
        let table = "
            appends  sync      snapshots  recall
            true     always    -          Everything
            true     everysec  -          AllButTheLastSecond
            true     no        3600_1     Partly
            true     -         3600_1     Unknown
            false    always    3600_1     Partly
            false    always    none       Nothing
            false    -         -          Unknown";
        for row in table.lines().skip(2) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            let reported = |cell: &str| (cell != "-").then(|| cell.replace("none", ""));
            let persistence = Persistence {
                appends: cells[0] == "true",
                append_sync: reported(cells[1]),
                snapshots: reported(cells[2]),
                ..Persistence::default()
            };
            assert_eq!(format!("{:?}", persistence.recall()), cells[3], "{row}");
        }
    }
}
