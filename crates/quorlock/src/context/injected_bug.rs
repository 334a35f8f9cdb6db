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
    fn is_on(self, bug: InjectedBug) -> bool {
        self.bug == Some(bug)
    }

    #[cfg(not(feature = "simulation"))]
    fn is_on(self, _: InjectedBug) -> bool {
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
