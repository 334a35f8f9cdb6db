//! What happens to locks and nodes, for logs, metrics, tests and dashboards.

use crate::context::trace::trace;
use crate::error::node::NodeError;
use quorlock_core::{Fence, LossReason, Mode, Name, Owner};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Something that happened.
///
/// # In `tracing`
/// Each is also emitted to `tracing`, with target `quorlock`, under these messages, which are stable:
///
/// | level | messages |
/// |---|---|
/// | warn | `lock lost`, `extend failed`, `force released`, `clock jumped` |
/// | warn | `node down`, `node quarantined`, `node has replicas`, `node clock differs` |
/// | info | `node up` |
/// | debug | `acquired`, `gave up`, `released`, `adopted`, `given away`, `mode changed`, `repaired`, `lease expired` |
/// | trace | `refused`, `waiting`, `extended`, `node failed` |
///
/// Locks are in the field `lock`, nodes in `node`; the other fields are those of the event. The spans
/// `acquire`, `extend` and `release` (debug, field `lock`) say what each belongs to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A lock was acquired. For several names that are held together there is one event for each, and so
    /// with all events; those of a permit have the name of its semaphore.
    Acquired {
        /// The lock.
        name: Name,
        /// How it is held.
        mode: Mode,
        /// Its fence.
        fence: Fence,
        /// From the call to the guard.
        waited: Duration,
        /// How much of that the attempt took that was granted.
        took: Duration,
        /// How many attempts it took.
        attempts: u32,
        /// How many nodes had voted for it when it was decided.
        votes: usize,
        /// How long it is valid if it is not extended.
        validity: Duration,
    },
    /// One attempt failed; another may follow.
    Refused {
        /// The lock.
        name: Name,
        /// The number of the attempt, from 1.
        attempt: u32,
        /// Nodes that voted for it.
        votes: usize,
        /// Nodes that answered no.
        denied: usize,
        /// Nodes that did not answer, or may not vote.
        missing: usize,
    },
    /// A call waits for a lock that is held.
    Waiting {
        /// The lock.
        name: Name,
        /// Who holds it, if a node reported it.
        holder: Option<Owner>,
        /// How long the holder still has it, unless it extends.
        left: Option<Duration>,
    },
    /// An acquire call gave up.
    GaveUp {
        /// The lock.
        name: Name,
        /// Why.
        reason: GaveUpReason,
        /// From the call to the error.
        waited: Duration,
        /// How many attempts were made.
        attempts: u32,
    },
    /// A lock was taken over from another process.
    Adopted {
        /// The lock.
        name: Name,
        /// Its fence.
        fence: Fence,
    },
    /// A lock is held in another mode from now on.
    ModeChanged {
        /// The lock.
        name: Name,
        /// How it is held.
        mode: Mode,
        /// Its fence, which an upgrade raises.
        fence: Fence,
    },
    /// A held lock was extended.
    Extended {
        /// The lock.
        name: Name,
        /// How much validity was left before.
        left: Duration,
        /// Nodes that extended it.
        votes: usize,
    },
    /// A round to extend a held lock failed. The lock is held until its deadline.
    ExtendFailed {
        /// The lock.
        name: Name,
        /// How much validity is left.
        left: Duration,
        /// Nodes that extended it.
        votes: usize,
    },
    /// A node that did not have a held lock was given it again.
    Repaired {
        /// The lock.
        name: Name,
        /// The node.
        node: Arc<str>,
    },
    /// A held lock was lost, or, for the reason [`LossReason::LeaseExpired`], a lease ended.
    Lost {
        /// The lock.
        name: Name,
        /// Its fence.
        fence: Fence,
        /// Why.
        reason: LossReason,
        /// How long it was held.
        held: Duration,
    },
    /// A lock was released, or its release was sent because its guard was dropped.
    Released {
        /// The lock.
        name: Name,
        /// Its fence.
        fence: Fence,
        /// What became of the release, as far as the guard waited for it.
        outcome: ReleaseKind,
        /// How long it was held.
        held: Duration,
        /// Why it had been lost before, if it had; [`Event::Lost`] reported that.
        lost: Option<LossReason>,
    },
    /// A held lock was given away, for another process to adopt.
    GivenAway {
        /// The lock.
        name: Name,
        /// Its fence.
        fence: Fence,
        /// How long it was held.
        held: Duration,
    },
    /// A lock was released by force, with [`Lock::force_release`](crate::Lock::force_release).
    ForceReleased {
        /// The lock.
        name: Name,
        /// What became of it; [`ReleaseKind::Dropped`] if the call was dropped after the release had been
        /// sent.
        outcome: ReleaseKind,
    },
    /// A node became able to answer.
    NodeUp {
        /// The node.
        node: Arc<str>,
        /// The server's kind and version.
        version: Arc<str>,
    },
    /// A node became unable to answer.
    NodeDown {
        /// The node.
        node: Arc<str>,
        /// Why.
        cause: NodeError,
    },
    /// A node restarted or forgot, and may not vote for a while.
    NodeQuarantined {
        /// The node.
        node: Arc<str>,
        /// For how long.
        left: Duration,
    },
    /// Replicas follow a node: if one of them takes over, locks are forgotten.
    NodeReplicated {
        /// The node.
        node: Arc<str>,
        /// How many.
        replicas: u64,
    },
    /// A node's wall clock is far from ours.
    ClockSkew {
        /// The node.
        node: Arc<str>,
        /// How far it is ahead of ours, in microseconds.
        ahead_micros: i64,
    },
    /// A node failed to answer a command.
    NodeFailed {
        /// The node.
        node: Arc<str>,
        /// Why.
        cause: NodeError,
    },
    /// The machine slept, or its wall clock jumped ahead.
    ClockJumped {
        /// By how much.
        by: Duration,
    },
}

/// Why an acquire call gave up, for [`Event::GaveUp`]. The error of the call says more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GaveUpReason {
    /// Another client kept the lock.
    Held,
    /// Several clients wanted it, and none had a majority.
    Contended,
    /// Too few nodes could vote.
    NoQuorum,
    /// The nodes agreed too late.
    TooSlow,
    /// The caller cancelled.
    Cancelled,
    /// Too many tasks of this locker waited already.
    TooManyWaiters,
    /// A setting of the lock cannot be used.
    Config,
}

impl GaveUpReason {
    /// A stable word for it, for logs and metrics.
    pub fn kind(self) -> &'static str {
        match self {
            GaveUpReason::Held => "held",
            GaveUpReason::Contended => "contended",
            GaveUpReason::NoQuorum => "no_quorum",
            GaveUpReason::TooSlow => "too_slow",
            GaveUpReason::Cancelled => "cancelled",
            GaveUpReason::TooManyWaiters => "too_many_waiters",
            GaveUpReason::Config => "config",
        }
    }
}

/// What became of a release, for [`Event::Released`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReleaseKind {
    /// A majority of nodes released it.
    Released,
    /// A majority of nodes did not have it.
    AlreadyGone,
    /// Too few nodes answered.
    Unconfirmed,
    /// The guard, or the release half-way, was dropped: the release was sent, and no answer was awaited.
    Dropped,
}

impl ReleaseKind {
    /// A stable word for it, for logs and metrics.
    pub fn kind(self) -> &'static str {
        match self {
            ReleaseKind::Released => "released",
            ReleaseKind::AlreadyGone => "already_gone",
            ReleaseKind::Unconfirmed => "unconfirmed",
            ReleaseKind::Dropped => "dropped",
        }
    }
}

/// Listens to events. It is called in place, so it must be quick and must not block. A panic in it is
/// caught and logged.
pub trait Observer: Send + Sync + 'static {
    /// Handles `event`.
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync + 'static> Observer for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}

/// All observers of a locker.
#[derive(Clone, Default)]
pub(crate) struct Observers(Arc<[Arc<dyn Observer>]>);

impl Observers {
    pub(crate) fn new(observers: Vec<Arc<dyn Observer>>) -> Self {
        Self(observers.into())
    }

    pub(crate) fn emit(&self, event: &Event) {
        trace(event);
        for observer in self.0.iter() {
            // A broken observer must not take a watchdog or a connection with it.
            let handled = catch_unwind(AssertUnwindSafe(|| observer.on_event(event)));
            if handled.is_err() {
                tracing::error!(target: "quorlock", ?event, "an observer panicked");
            }
        }
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observers({})", self.0.len())
    }
}
