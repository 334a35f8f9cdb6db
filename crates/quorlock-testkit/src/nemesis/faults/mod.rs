//! The kinds of faults.

pub(crate) mod link_faults;

use crate::nemesis::TTL;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Replies are late.
    Delay,
    /// Nothing passes in either direction for a while.
    Hold,
    /// Requests arrive, replies wait.
    HoldReplies,
    /// Requests disappear, then the connection breaks.
    Swallow,
    /// Requests arrive, replies disappear, then the connection breaks.
    SwallowReplies,
    /// Replies are nonsense, then the connection breaks.
    Garbage,
    /// Replies announce a length that never comes, then the connection breaks.
    Huge,
    /// Replies come twice, and the connection stays.
    DuplicateReplies,
    /// Requests arrive twice and are answered twice, and the connection stays.
    DuplicateRequests,
    /// Replies come byte by byte.
    Drip,
    /// The connection breaks and no new one is accepted.
    Refuse,
    /// The connection breaks.
    Cut,
    /// A server is stopped (SIGSTOP) and resumed (SIGCONT).
    Stop,
    /// A server is killed (SIGKILL) and comes back with its memory.
    Crash,
    /// A server is killed (SIGKILL) and comes back without its memory.
    Amnesia,
    /// A server is killed (SIGKILL) and comes back without the end of its append-only file.
    PowerLoss,
    /// A server forgets everything (FLUSHALL) while its connections stay.
    Flush,
    /// A server evicts a lock: an operator set a memory limit and a policy while it was in use.
    Evict,
    /// A server has no memory left and refuses writes; an etcd cluster has no space left.
    OutOfMemory,
    /// A server's wall clock goes back, or ahead by less than the margin of a lease.
    ServerClock,
    /// A server's wall clock jumps ahead, and its locks expire early.
    ServerClockAhead,
    /// The leader of a cluster is stopped (SIGSTOP), as by a frozen disk, until the others have
    /// elected another.
    LeaderStop,
    /// The leader of a cluster is killed (SIGKILL) and comes back with its memory.
    LeaderCrash,
    /// The primary of a database is killed (SIGKILL), a standby that may lack its last commits takes over,
    /// and the old primary comes back as its standby.
    Failover,
    /// The other members of a cluster hear nothing from one, which hears them.
    PeerMute,
    /// No member of a cluster hears another.
    PeerSplit,
    /// A client process is stopped (SIGSTOP) with a lock until the lock is over, and continues
    /// where it was.
    ClientPause,
    /// A client process is killed (SIGKILL) and another starts in its place.
    ClientCrash,
    /// A client's wall clock jumps.
    ClientClock,
    /// A client's machine sleeps with a lock: its boot clock jumps ahead.
    ClientSuspend,
}

impl Fault {
    /// How long a server that lost memory in this way counts as one that did: its time down and the
    /// quarantine of ttl and 10 s. One that evicts forgets a lock unseen; there it is the time in
    /// which the holds of that lock are over.
    pub(crate) fn wipes_for(self) -> Option<Duration> {
        match self {
            Fault::Amnesia | Fault::PowerLoss | Fault::Flush => Some(13 * TTL),
            Fault::Evict => Some(6 * TTL),
            Fault::Failover => Some(20 * TTL),
            _ => None,
        }
    }

    /// Whether a server forgets locks in a way that no client can see. Exclusion is not promised
    /// then; fences are.
    pub(crate) fn is_wild(self) -> bool {
        matches!(self, Fault::Evict | Fault::ServerClockAhead)
    }

    /// Whether a server forgets locks.
    pub(crate) fn forgets(self) -> bool {
        self.wipes_for().is_some() || self == Fault::ServerClockAhead
    }

    /// Whether bytes are changed on their way, which no network does.
    pub(crate) fn corrupts(self) -> bool {
        use Fault::{DuplicateReplies, DuplicateRequests, Garbage, Huge};
        matches!(self, Garbage | Huge | DuplicateReplies | DuplicateRequests)
    }

    /// Whether the server cannot vote meanwhile.
    pub(crate) fn is_outage(self) -> bool {
        let is_of_one = matches!(
            self,
            Fault::Stop
                | Fault::Crash
                | Fault::Amnesia
                | Fault::PowerLoss
                | Fault::OutOfMemory
                | Fault::Failover
        );
        let is_of_cluster =
            matches!(self, Fault::LeaderStop | Fault::LeaderCrash | Fault::PeerMute | Fault::PeerSplit);
        is_of_one || is_of_cluster
    }

    /// How long it lasts, from and to.
    pub(crate) fn spans(self) -> (Duration, Duration) {
        match self {
            // A server that forgets is back while the locks that it forgot are still held.
            fault if fault.wipes_for().is_some() => (TTL / 20, TTL / 4),
            // The others need about a second to elect another leader.
            Fault::LeaderStop => (TTL + TTL / 2, 3 * TTL),
            _ => (TTL / 20, TTL + TTL / 5),
        }
    }

    /// Whether it happens to a server.
    pub(crate) fn is_of_server(self) -> bool {
        let stays_up =
            matches!(self, Fault::Flush | Fault::Evict | Fault::ServerClock | Fault::ServerClockAhead);
        self.is_outage() || stays_up
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// How often each kind of fault was injected.
pub type Counts = BTreeMap<Fault, u64>;
