//! Events in words: a stable kind for programs, a line for people.

use crate::context::event::Event;
use quorlock_core::{LossReason, Rounded};
use std::fmt;

impl Event {
    /// A stable word for the kind of event, for logs, metrics and filters.
    pub fn kind(&self) -> &'static str {
        match self {
            Event::Acquired { .. } => "acquired",
            Event::Refused { .. } => "refused",
            Event::Waiting { .. } => "waiting",
            Event::GaveUp { .. } => "gave_up",
            Event::Adopted { .. } => "adopted",
            Event::ModeChanged { .. } => "mode_changed",
            Event::Extended { .. } => "extended",
            Event::ExtendFailed { .. } => "extend_failed",
            Event::Repaired { .. } => "repaired",
            Event::Lost { reason: LossReason::LeaseExpired, .. } => "lease_expired",
            Event::Lost { .. } => "lost",
            Event::Released { .. } => "released",
            Event::GivenAway { .. } => "given_away",
            Event::ForceReleased { .. } => "force_released",
            Event::NodeUp { .. } => "node_up",
            Event::NodeDown { .. } => "node_down",
            Event::NodeQuarantined { .. } => "node_quarantined",
            Event::NodeReplicated { .. } => "node_replicated",
            Event::ClockSkew { .. } => "clock_skew",
            Event::NodeFailed { .. } => "node_failed",
            Event::ClockJumped { .. } => "clock_jumped",
        }
    }

    /// Whether events of this kind come by the thousand on a busy locker: single rounds, not the life of
    /// a lock.
    pub fn is_routine(&self) -> bool {
        matches!(
            self,
            Event::Refused { .. } | Event::Extended { .. } | Event::NodeFailed { .. } | Event::Waiting { .. }
        )
    }
}

impl fmt::Display for Event {
    /// One line for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Acquired { name, fence, waited, votes, .. } => {
                write!(f, "`{name}` acquired after {} with {votes} votes, fence {fence}", Rounded(*waited))
            }
            Event::Refused { name, votes, denied, missing, .. } => {
                write!(f, "`{name}` refused: {votes} votes for it, {denied} against, {missing} missing")
            }
            Event::Waiting { name, holder: Some(holder), .. } => {
                write!(f, "a client waits for `{name}`, held by {holder}")
            }
            Event::Waiting { name, .. } => write!(f, "a client waits for `{name}`"),
            Event::GaveUp { name, reason, waited, .. } => {
                write!(f, "gave up on `{name}` after {}: {}", Rounded(*waited), reason.kind())
            }
            Event::Adopted { name, fence } => write!(f, "`{name}` taken over, fence {fence}"),
            Event::ModeChanged { name, mode, .. } => write!(f, "`{name}` is {mode} from now on"),
            Event::Extended { name, votes, .. } => write!(f, "`{name}` extended by {votes} nodes"),
            Event::ExtendFailed { name, left, votes } => {
                let left = Rounded(*left);
                write!(f, "`{name}` extended by only {votes} nodes; it is held for another {left}")
            }
            Event::Repaired { name, node } => write!(f, "`{name}` given back to {node}"),
            Event::Lost { name, reason: LossReason::LeaseExpired, .. } => {
                write!(f, "the lease of `{name}` ended: its caller did not extend it")
            }
            Event::Lost { name, reason, .. } => write!(f, "`{name}` lost: {reason}"),
            Event::Released { name, outcome, held, .. } => {
                write!(f, "`{name}` {} after {}", outcome.kind().replace('_', " "), Rounded(*held))
            }
            Event::GivenAway { name, .. } => write!(f, "`{name}` left to the holder of its token"),
            Event::ForceReleased { name, outcome } => {
                write!(f, "`{name}` released by force: {}", outcome.kind().replace('_', " "))
            }
            Event::NodeUp { node, version } => write!(f, "{node} is up ({version})"),
            Event::NodeDown { node, cause } => write!(f, "{node} is down: {cause}"),
            Event::NodeQuarantined { node, left } => {
                write!(f, "{node} restarted or is new, and may vote again in {}", Rounded(*left))
            }
            Event::NodeReplicated { node, replicas } => {
                write!(f, "{node} has replicas ({replicas}): a failover to one of them would lose locks")
            }
            Event::ClockSkew { node, ahead_micros } => {
                write!(f, "the clock of {node} is {} ms ahead of ours", ahead_micros / 1000)
            }
            Event::NodeFailed { node, cause } => write!(f, "{node} did not answer: {cause}"),
            Event::ClockJumped { by } => {
                write!(f, "the machine slept, or its clock jumped by {}", Rounded(*by))
            }
        }
    }
}
