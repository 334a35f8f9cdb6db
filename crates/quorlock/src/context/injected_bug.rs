//! Bugs that the simulator switches on to prove that it finds them. Without the feature `simulation`
//! there are none.

use quorlock_core::{Attempt, Fence, Moment, Step};
use std::time::Duration;

/// A bug in the lock itself. The test kit injects those of servers and clocks from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "simulation"), allow(unreachable_pub, dead_code))]
pub enum InjectedBug {
    /// The deadline is counted from the last answer instead of before the first send.
    LateDeadline,
    /// A majority of the nodes that answered is enough.
    ReachableMajority,
    /// A loss is announced when the nodes say so, not by a timer.
    LossByAnswer,
    /// An adoption believes its handle and asks no node.
    AdoptUnasked,
    /// A forced release frees the current holder, not the one that the caller saw.
    ForceAnyHolder,
    /// An extension by token counts nodes that no longer have the lock.
    ExtendGone,
    /// The proposal is the fence although fewer than a majority were raised to it.
    NoStamp,
    /// An attempt that was refused does not release what it may have set.
    LazyRelease,
    /// Votes count although the epoch after them is not the one that was verified.
    EpochUnchecked,
    /// An epoch that is new counts as old enough if the one before it was.
    MatureForever,
    /// Votes of a server in quarantine count.
    QuarantinedVote,
    /// A quarantine ends when the server's clock says so, even if that clock jumped.
    ServerClockQuarantine,
    /// Releases that were not acknowledged are dropped when a new connection begins.
    UnackedForgotten,
    /// Replies on a new connection answer the commands of the one before.
    RepliesAcrossConnections,
    /// The first part of a reply on a connection that ended belongs to the next connection.
    PartialReplyKept,
    /// A reply that comes twice answers the next command.
    RepeatedReply,
    /// Releases that wait for a connection are sent before the acquires that wait for it.
    ReleaseOvertakes,
    /// An extension counts nodes that lost the lock and get it back.
    RepairCounts,
    /// An acquire that may have reached the server counts as never sent.
    SentAsUnsent,
    /// Hints are subscribed to after the lock was found to be held.
    HintsAfterLook,
    /// A script that the server does not have is not sent again.
    NoScript,
    /// The connection before is not ended by the next one.
    OldConnectionKept,
    /// A compare-and-delete that found another value counts as done.
    FastReleaseBlind,
    /// Votes count together however far apart they are.
    SlowVotesCount,
    /// An upgrade keeps the fence of the shared hold.
    UpgradeKeepsFence,
    /// A node that admitted one of several names has voted.
    PartialSet,
    /// A node confirms that raised the counter of one of several names.
    PartialRaise,
    /// A node that has one of several names has extended them.
    PartialExtend,
    /// Votes for different slots count as one permit.
    AnyFreeSlot,
}

/// The bug that is switched on, if any. Each method returns what correct code would use, unless its bug
/// is on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InjectedBugs {
    #[cfg(feature = "simulation")]
    bug: Option<InjectedBug>,
}

impl InjectedBugs {
    #[cfg(feature = "simulation")]
    pub(crate) fn only(bug: InjectedBug) -> Self {
        Self { bug: Some(bug) }
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn is_on(self, bug: InjectedBug) -> bool {
        self.bug == Some(bug)
    }

    #[cfg(not(feature = "simulation"))]
    pub(crate) fn is_on(self, _: InjectedBug) -> bool {
        false
    }

    /// Where a lease counts from: `start`, before the first send.
    pub(crate) fn lease_start<T>(self, start: T, now: impl FnOnce() -> T) -> T {
        if self.is_on(InjectedBug::LateDeadline) { now() } else { start }
    }

    /// What the votes of `attempt` decide: `step`.
    pub(crate) fn decision(self, step: Step, attempt: &Attempt, proposal: Fence) -> Step {
        let is_favoured = attempt.votes().yes() > attempt.votes().no();
        let is_wrong = step == Step::Refused && is_favoured && self.is_on(InjectedBug::ReachableMajority);
        if is_wrong { Step::Granted(proposal) } else { step }
    }

    /// When a loss is announced: `at`.
    pub(crate) fn announce_at(self, at: Moment, now: impl FnOnce() -> Moment) -> Moment {
        if self.is_on(InjectedBug::LossByAnswer) { now() + Duration::from_secs(3_600) } else { at }
    }

    /// Whether an adoption asks the nodes: yes.
    pub(crate) fn asks_before_adoption(self) -> bool {
        !self.is_on(InjectedBug::AdoptUnasked)
    }

    /// Whether a forced release frees only the token that its caller saw: yes.
    pub(crate) fn forces_only_its_token(self) -> bool {
        !self.is_on(InjectedBug::ForceAnyHolder)
    }

    /// Whether an extension by token counts a node that no longer has the lock: no.
    pub(crate) fn counts_gone(self) -> bool {
        self.is_on(InjectedBug::ExtendGone)
    }
}
