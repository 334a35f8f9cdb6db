//! The schemes that are compared.

use std::fmt;
use std::str::FromStr;

/// A way to lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scheme {
    /// WATCH, read, MULTI, SET, EXEC: no hold at all.
    Optimistic,
    /// SETNX, then EXPIRE, then DEL.
    SetnxExpire,
    /// SETNX with the time of expiry as value; a client that finds it past takes the lock by
    /// GETSET.
    SetnxGetset,
    /// SET NX PX, then DEL.
    PlainDel,
    /// SET NX PX with a unique value, then GET and DEL.
    GetThenDel,
    /// SET NX PX and compare-and-delete on a master with an asynchronous replica.
    Failover,
    /// The same; the replica is promoted only after the longest ttl.
    DelayedFailover,
    /// Redlock whose restarted nodes vote at once.
    Redlock,
    /// Redlock whose restarted nodes wait for the longest ttl.
    GuardedRedlock,
    /// Redlock with restart guard and fences.
    Quorlock,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// An update was not made because others came first, too often.
    GaveUp,
    /// The lock stays taken although no client holds it.
    Deadlock,
    /// Two clients hold the lock at the same moment.
    DoubleHold,
    /// A write overwrote another that its writer had not seen.
    LostUpdate,
    /// A resource refused a write with an outdated fence: no harm, but close to it.
    FencedOff,
}

impl Scheme {
    /// All of them, in the order of the table.
    pub const ALL: [Scheme; 10] = [
        Scheme::Optimistic,
        Scheme::SetnxExpire,
        Scheme::SetnxGetset,
        Scheme::PlainDel,
        Scheme::GetThenDel,
        Scheme::Failover,
        Scheme::DelayedFailover,
        Scheme::Redlock,
        Scheme::GuardedRedlock,
        Scheme::Quorlock,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Optimistic => "optimistic",
            Scheme::SetnxExpire => "setnx-expire",
            Scheme::SetnxGetset => "setnx-getset",
            Scheme::PlainDel => "plain-del",
            Scheme::GetThenDel => "get-then-del",
            Scheme::Failover => "failover",
            Scheme::DelayedFailover => "delayed-failover",
            Scheme::Redlock => "redlock",
            Scheme::GuardedRedlock => "redlock-guarded",
            Scheme::Quorlock => "quorlock",
        }
    }

    /// What it does.
    pub fn about(self) -> &'static str {
        match self {
            Scheme::Optimistic => "WATCH, read, MULTI, SET, EXEC; 5 tries",
            Scheme::SetnxExpire => "SETNX, then EXPIRE; DEL",
            Scheme::SetnxGetset => "SETNX with a time as value, GETSET to take over",
            Scheme::PlainDel => "SET NX EX; DEL",
            Scheme::GetThenDel => "SET NX EX with unique value; GET, then DEL",
            Scheme::Failover => "master and asynchronous replica, promoted after ttl/4",
            Scheme::DelayedFailover => "master and asynchronous replica, promoted after ttl",
            Scheme::Redlock => "plain Redlock: 5 nodes, no restart guard, no fence",
            Scheme::GuardedRedlock => "Redlock with restart guard, no fence",
            Scheme::Quorlock => "Redlock with restart guard and fences",
        }
    }

    /// What is known to go wrong with it, or, for those without a known flaw, what comes closest.
    pub fn flaw(self) -> Flaw {
        match self {
            Scheme::Optimistic => Flaw::GaveUp,
            Scheme::SetnxExpire => Flaw::Deadlock,
            Scheme::DelayedFailover => Flaw::LostUpdate,
            Scheme::GuardedRedlock | Scheme::Quorlock => Flaw::FencedOff,
            _ => Flaw::DoubleHold,
        }
    }

    /// Whether it runs on several servers that vote.
    pub fn uses_quorum(self) -> bool {
        matches!(self, Scheme::Redlock | Scheme::GuardedRedlock | Scheme::Quorlock)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Scheme::ALL.map(Scheme::name).join(", ");
        let found = Scheme::ALL.into_iter().find(|scheme| scheme.name() == name);
        found.ok_or_else(|| format!("there is no scheme `{name}`; known: {}", known()))
    }
}
