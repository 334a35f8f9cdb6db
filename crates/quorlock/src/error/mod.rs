//! Why a configuration, an acquire or an extend failed; each variant is a decision for the caller.

pub(crate) mod node;
pub(crate) mod url;

use crate::error::node::NodeError;
use crate::error::url::UrlError;
use quorlock_core::{
    DriftError, Fence, LossReason, Name, NameError, NameSet, NameSetError, Owner, Quorum, QuorumError,
    Rounded, StoredLock, Token, TtlError,
};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Why a locker cannot be built, or a lock cannot be set up, as configured.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No nodes were given.
    #[error(
        "no nodes were given; name 1, 3 or 5 as `redis://host:port`, or one `file:` for locks within this machine"
    )]
    NoNodes,
    /// The environment variable that names the nodes is missing or no text.
    #[error(
        "the environment variable {variable} is not set; set it to node URLs separated by commas, or to `file:` for locks within this machine"
    )]
    NoEnvironment {
        /// The variable.
        variable: &'static str,
    },
    /// Too many nodes were given.
    #[error(transparent)]
    Quorum(#[from] QuorumError),
    /// A node's URL cannot be understood.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The nodes are of different kinds.
    #[error("`{first}` and `{second}` are nodes of different kinds; one locker takes one kind")]
    MixedKinds {
        /// One node.
        first: String,
        /// Another of another kind.
        second: String,
    },
    /// More than one store is named that decides by itself.
    #[error(
        "`{first}` and `{second}`: such a store is one node, and it decides alone; name the members of a cluster in one address, as in etcd://a,b,c"
    )]
    ManyClusters {
        /// One node.
        first: String,
        /// Another.
        second: String,
    },
    /// A node is named twice.
    #[error("the node `{node}` is named twice; each node must be a server of its own")]
    SameNode {
        /// The node.
        node: String,
    },
    /// A node cannot be set up.
    #[error("node `{node}`: {source}")]
    Node {
        /// The node.
        node: String,
        /// Why.
        source: NodeError,
    },
    /// The ttl cannot be used.
    #[error(transparent)]
    Ttl(#[from] TtlError),
    /// The drift factor cannot be used.
    #[error(transparent)]
    Drift(#[from] DriftError),
    /// The name cannot be used.
    #[error(transparent)]
    Name(#[from] NameError),
    /// These names cannot be held together.
    #[error(transparent)]
    NameSet(#[from] NameSetError),
    /// Another setting cannot be used.
    #[error("{setting} of {value} cannot be used; {allowed}")]
    Setting {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
}

/// Why [`Lock::acquire`](crate::Lock::acquire) gave up. The lock is not held, and nothing of the attempt
/// stays.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcquireError {
    /// Another client kept the lock. Try later, or skip the work.
    #[error("lock `{lock}` is held by {holder}{}", for_another(*.left))]
    Held {
        /// The lock.
        lock: NameSet,
        /// Who holds it.
        holder: Holder,
        /// How long the holder has it, unless it extends; `None` if no node reported it.
        left: Option<Duration>,
        /// How long this call waited.
        waited: Duration,
    },
    /// Other clients kept some of several names. Try later, or skip the work.
    #[error("locks `{lock}` cannot be held together: {}", listed_holders(.held))]
    NamesHeld {
        /// All names that were wanted.
        lock: NameSet,
        /// Those that are held, and by which client.
        held: Vec<HeldName>,
        /// How long this call waited.
        waited: Duration,
    },
    /// All slots of the semaphore are taken. Try later, or skip the work.
    #[error("semaphore `{lock}` has no free slot: all {slots} are taken, or fewer are free than wanted")]
    NoPermit {
        /// The semaphore.
        lock: NameSet,
        /// How many slots it has.
        slots: u32,
        /// How long this call waited.
        waited: Duration,
    },
    /// Other clients use the semaphore with another number of slots. Use the same number everywhere; it can
    /// be changed while no slot is taken.
    #[error("semaphore `{lock}` is in use with {recorded} slots; use that number, or free all slots first")]
    SlotsDiffer {
        /// The semaphore.
        lock: NameSet,
        /// How many slots others count.
        recorded: u32,
    },
    /// Several clients want the lock, and none of them has a majority of the nodes. Try again: unlike after
    /// [`AcquireError::Held`], it is not certain that another client does the work.
    #[error("lock `{lock}` is contended: no client has a majority, after {attempts} attempts in {}", Rounded(*.waited))]
    Contended {
        /// The lock.
        lock: NameSet,
        /// How many attempts were made.
        attempts: u32,
        /// How long this call waited.
        waited: Duration,
    },
    /// Too few nodes could vote for any client to hold it. Wake an operator.
    #[error("lock `{lock}` needs {} nodes but only {answered} could vote: {}", .quorum, listed(.nodes))]
    NoQuorum {
        /// The lock.
        lock: NameSet,
        /// How many must vote, of how many.
        quorum: Quorum,
        /// How many could.
        answered: usize,
        /// What each node answered.
        nodes: Vec<NodeReport>,
    },
    /// The nodes agreed too late: the time of the lock was over. Use a longer ttl, or faster nodes.
    #[error("lock `{lock}`: a majority agreed only after {}, too late for its ttl of {ttl:?}", Rounded(*.took))]
    TooSlow {
        /// The lock.
        lock: NameSet,
        /// How long the attempt took.
        took: Duration,
        /// The ttl.
        ttl: Duration,
    },
    /// The caller's cancellation token fired.
    #[error("waiting for lock `{lock}` was cancelled")]
    Cancelled {
        /// The lock.
        lock: NameSet,
    },
    /// A setting of the lock cannot be used. Fix the program.
    #[error("lock `{lock}`: {source}")]
    Config {
        /// The lock.
        lock: NameSet,
        /// What is wrong, and what is allowed.
        source: ConfigError,
    },
    /// Too many tasks of this locker wait for the lock already.
    #[error("{waiters} tasks of this locker wait for lock `{lock}` already")]
    TooManyWaiters {
        /// The lock.
        lock: NameSet,
        /// How many wait.
        waiters: usize,
    },
}

impl AcquireError {
    /// A stable word for the cause, for logs and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            AcquireError::Held { .. } | AcquireError::NamesHeld { .. } => "held",
            AcquireError::NoPermit { .. } => "no_permit",
            AcquireError::SlotsDiffer { .. } => "slots_differ",
            AcquireError::Contended { .. } => "contended",
            AcquireError::NoQuorum { .. } => "no_quorum",
            AcquireError::TooSlow { .. } => "too_slow",
            AcquireError::Cancelled { .. } => "cancelled",
            AcquireError::TooManyWaiters { .. } => "too_many_waiters",
            AcquireError::Config { .. } => "config",
        }
    }
}

/// A name that another client holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldName {
    /// The name.
    pub name: Name,
    /// Who holds it.
    pub holder: Holder,
    /// How long the holder has it, unless it extends; `None` if no node reported it.
    pub left: Option<Duration>,
}

/// Why a shared hold was not made exclusive. It goes on as it was, unless it was lost.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The lock is lost. Stop the work.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Other clients share it. Release it and acquire it exclusively: two clients that waited for each other
    /// here would wait for ever.
    #[error("lock `{lock}` cannot be upgraded, because other clients share it")]
    Shared {
        /// The lock.
        lock: NameSet,
    },
    /// Too few nodes could vote.
    #[error("lock `{lock}` was not upgraded: {} nodes are needed but only {answered} could vote: {}", .quorum, listed(.nodes))]
    NoQuorum {
        /// The lock.
        lock: NameSet,
        /// How many must vote, of how many.
        quorum: Quorum,
        /// How many could.
        answered: usize,
        /// What each node answered.
        nodes: Vec<NodeReport>,
    },
    /// The lock is held exclusively already.
    #[error("lock `{lock}` is held exclusively already")]
    Exclusive {
        /// The lock.
        lock: NameSet,
    },
}

/// Who has a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A client of quorlock.
    Owner {
        /// Its token.
        token: Token,
        /// Its fence.
        fence: Fence,
        /// Who it is.
        owner: Owner,
    },
    /// Clients of quorlock that share it. Those that end first come first; at most 100.
    Shared {
        /// Each of them.
        readers: Vec<StoredLock>,
    },
    /// A client that waits to hold the lock exclusively: until then no further client may share it.
    Waiting,
    /// Another program: a short piece of what it stored.
    Foreign(String),
    /// No client has a majority: the lock is free, or several clients contend.
    Nobody,
    /// A client that too few nodes named in time.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Owner { owner, .. } => owner.fmt(f),
            Holder::Shared { readers } => match readers.as_slice() {
                [one] => write!(f, "{} (shared)", one.owner),
                [one, ..] => write!(f, "{} clients that share it, such as {}", readers.len(), one.owner),
                [] => f.write_str("clients that share it"),
            },
            Holder::Waiting => f.write_str("a client that waits to hold it exclusively"),
            Holder::Foreign(value) => write!(f, "another program (value `{value}`)"),
            Holder::Nobody => f.write_str("no client"),
            Holder::Unknown => f.write_str("a client that too few nodes named in time"),
        }
    }
}

/// A lock was lost, or an extend found that it is. Stop the work that it protects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lock `{lock}` was lost: {reason}")]
#[non_exhaustive]
pub struct Lost {
    /// The lock.
    pub lock: NameSet,
    /// Why.
    pub reason: LossReason,
}

/// Why an extend did not extend.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtendError {
    /// The lock is lost. Stop the work.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// Too few nodes answered. The lock is held until the deadline that it had.
    #[error("lock `{lock}` was not extended, because only {answered} of {} nodes did so: {}", .quorum, listed(.nodes))]
    NoQuorum {
        /// The lock.
        lock: NameSet,
        /// How many must agree.
        quorum: Quorum,
        /// How many did.
        answered: usize,
        /// What each node answered.
        nodes: Vec<NodeReport>,
    },
    /// The new ttl cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Too few nodes can vote. Wake an operator: each node's cause is in it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{quorum} nodes are needed but only {answered} can vote: {}", listed(.nodes))]
#[non_exhaustive]
pub struct NoQuorum {
    /// How many must vote, of how many.
    pub quorum: Quorum,
    /// How many can.
    pub answered: usize,
    /// What each node answered.
    pub nodes: Vec<NodeReport>,
}

impl NoQuorum {
    pub(crate) fn check(quorum: Quorum, nodes: Vec<NodeReport>) -> Result<(), Self> {
        let answered = nodes.iter().filter(|report| matches!(report.outcome, NodeOutcome::Yes)).count();
        if answered >= quorum.needed() { Ok(()) } else { Err(Self { quorum, answered, nodes }) }
    }
}

/// What one node answered in a round that failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeReport {
    /// The node.
    pub node: Arc<str>,
    /// What it answered.
    pub outcome: NodeOutcome,
}

/// What one node answered.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NodeOutcome {
    /// It agreed.
    Yes,
    /// It answered no.
    No,
    /// It gave no vote.
    Failed(NodeError),
}

impl From<Result<(), NodeError>> for NodeOutcome {
    fn from(result: Result<(), NodeError>) -> Self {
        result.map_or_else(NodeOutcome::Failed, |()| NodeOutcome::Yes)
    }
}

impl fmt::Display for NodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            NodeOutcome::Yes => write!(f, "{} agreed", self.node),
            NodeOutcome::No => write!(f, "{} refused", self.node),
            NodeOutcome::Failed(cause) => write!(f, "{}: {cause}", self.node),
        }
    }
}

fn for_another(left: Option<Duration>) -> String {
    left.map(|left| format!(" for another {}", Rounded(left))).unwrap_or_default()
}

fn listed_holders(held: &[HeldName]) -> String {
    let shown =
        |held: &HeldName| format!("`{}` is held by {}{}", held.name, held.holder, for_another(held.left));
    held.iter().map(shown).collect::<Vec<_>>().join("; ")
}

pub(crate) fn listed(nodes: &[NodeReport]) -> String {
    let listed: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    listed.join("; ")
}
