//! Events as `tracing` has them: trouble as warnings, the life of a lock as debug, single rounds as trace.

use crate::context::event::Event;
use quorlock_core::{LossReason, NameSet};
use tracing::{Span, debug, debug_span, info, trace, warn};

/// The span of something that is done to the lock `name`.
macro_rules! span_of {
    ($what:literal, $name:expr) => {
        debug_span!(target: "quorlock", $what, lock = %$name)
    };
}

/// Awaits the future in the span, or without one if no subscriber listens: moving a future into a span
/// costs more than the rest of the tracing.
macro_rules! traced {
    ($span:expr, $future:expr) => {{
        let span = $span;
        if span.is_disabled() { $future.await } else { tracing::Instrument::instrument($future, span).await }
    }};
}
pub(crate) use traced;

pub(crate) fn acquiring(name: &NameSet) -> Span {
    span_of!("acquire", name)
}

pub(crate) fn extending(name: &NameSet) -> Span {
    span_of!("extend", name)
}

pub(crate) fn releasing(name: &NameSet) -> Span {
    span_of!("release", name)
}

/// Emits `event` to `tracing`. Messages and fields are stable: [`Event`] lists them.
pub(crate) fn trace(event: &Event) {
    match event {
        Event::Acquired { .. }
        | Event::Refused { .. }
        | Event::Waiting { .. }
        | Event::GaveUp { .. }
        | Event::Adopted { .. } => trace_acquiring(event),
        Event::ModeChanged { .. }
        | Event::Extended { .. }
        | Event::ExtendFailed { .. }
        | Event::Repaired { .. }
        | Event::Lost { .. }
        | Event::Released { .. }
        | Event::GivenAway { .. }
        | Event::ForceReleased { .. } => trace_holding(event),
        Event::NodeUp { .. }
        | Event::NodeDown { .. }
        | Event::NodeQuarantined { .. }
        | Event::NodeReplicated { .. }
        | Event::ClockSkew { .. }
        | Event::NodeFailed { .. }
        | Event::ClockJumped { .. } => trace_nodes(event),
    }
}

fn trace_acquiring(event: &Event) {
    match event {
        Event::Acquired { name, mode, fence, waited, took, attempts, votes, validity } => {
            debug!(target: "quorlock", lock = %name, %mode, %fence, ?waited, ?took, attempts, votes, ?validity, "acquired");
        }
        Event::Refused { name, attempt, votes, denied, missing } => {
            trace!(target: "quorlock", lock = %name, attempt, votes, denied, missing, "refused");
        }
        Event::Waiting { name, holder, left } => {
            trace!(target: "quorlock", lock = %name, ?holder, ?left, "waiting");
        }
        Event::GaveUp { name, reason, waited, attempts } => {
            debug!(target: "quorlock", lock = %name, reason = reason.kind(), ?waited, attempts, "gave up");
        }
        Event::Adopted { name, fence } => debug!(target: "quorlock", lock = %name, %fence, "adopted"),
        _ => {}
    }
}

fn trace_holding(event: &Event) {
    match event {
        Event::ModeChanged { name, mode, fence } => {
            debug!(target: "quorlock", lock = %name, %mode, %fence, "mode changed");
        }
        Event::Extended { name, left, votes } => {
            trace!(target: "quorlock", lock = %name, ?left, votes, "extended");
        }
        Event::ExtendFailed { name, left, votes } => {
            warn!(target: "quorlock", lock = %name, ?left, votes, "extend failed");
        }
        Event::Repaired { name, node } => debug!(target: "quorlock", lock = %name, %node, "repaired"),
        Event::Lost { name, fence, reason: LossReason::LeaseExpired, held } => {
            debug!(target: "quorlock", lock = %name, %fence, ?held, "lease expired");
        }
        Event::Lost { name, fence, reason, held } => {
            warn!(target: "quorlock", lock = %name, %fence, %reason, ?held, "lock lost");
        }
        Event::Released { name, fence, outcome, held, lost } => {
            debug!(target: "quorlock", lock = %name, %fence, outcome = outcome.kind(), ?held, ?lost, "released");
        }
        Event::GivenAway { name, fence, held } => {
            debug!(target: "quorlock", lock = %name, %fence, ?held, "given away");
        }
        Event::ForceReleased { name, outcome } => {
            warn!(target: "quorlock", lock = %name, outcome = outcome.kind(), "force released");
        }
        _ => {}
    }
}

fn trace_nodes(event: &Event) {
    match event {
        Event::NodeUp { node, version } => info!(target: "quorlock", %node, %version, "node up"),
        Event::NodeDown { node, cause } => warn!(target: "quorlock", %node, %cause, "node down"),
        Event::NodeQuarantined { node, left } => {
            warn!(target: "quorlock", %node, ?left, "node quarantined");
        }
        Event::NodeReplicated { node, replicas } => {
            warn!(target: "quorlock", %node, replicas, "node has replicas");
        }
        Event::ClockSkew { node, ahead_micros } => {
            warn!(target: "quorlock", %node, ahead_micros, "node clock differs");
        }
        Event::NodeFailed { node, cause } => trace!(target: "quorlock", %node, %cause, "node failed"),
        Event::ClockJumped { by } => warn!(target: "quorlock", ?by, "clock jumped"),
        _ => {}
    }
}
