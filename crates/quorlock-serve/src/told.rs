//! Events as JSON, and in one line for people.

use crate::view::millis;
use quorlock::{Event, Loss};
use serde_json::{Map, Value, json};

/// The stable word for a kind of event.
pub(crate) fn kind(event: &Event) -> &'static str {
    match event {
        Event::Acquired { .. } => "acquired",
        Event::Refused { .. } => "refused",
        Event::Waiting { .. } => "waiting",
        Event::GaveUp { .. } => "gave_up",
        Event::Adopted { .. } => "adopted",
        Event::Extended { .. } => "extended",
        Event::ExtendFailed { .. } => "extend_failed",
        Event::ToppedUp { .. } => "topped_up",
        Event::Lost { loss: Loss::LeaseExpired, .. } => "lease_expired",
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
        _ => "unknown",
    }
}

/// Whether there are so many of its kind that readers must ask for them.
pub(crate) fn is_chatter(event: &Event) -> bool {
    matches!(
        event,
        Event::Refused { .. } | Event::Extended { .. } | Event::NodeFailed { .. } | Event::Waiting { .. }
    )
}

/// The event in one line for people.
pub(crate) fn text(event: &Event) -> String {
    match event {
        Event::Acquired { name, fence, waited, votes, .. } => {
            format!("`{name}` acquired after {} ms with {votes} votes, fence {fence}", waited.as_millis())
        }
        Event::Refused { name, votes, denied, missing, .. } => {
            format!("`{name}` refused: {votes} votes for it, {denied} against, {missing} missing")
        }
        Event::Waiting { name, holder: Some(holder), .. } => {
            format!("somebody waits for `{name}`, held by {holder}")
        }
        Event::Waiting { name, .. } => format!("somebody waits for `{name}`"),
        Event::GaveUp { name, why, waited, .. } => {
            format!("gave up on `{name}` after {} ms: {why}", waited.as_millis())
        }
        Event::Adopted { name, fence } => format!("`{name}` taken over, fence {fence}"),
        Event::Extended { name, votes, .. } => format!("`{name}` extended by {votes} nodes"),
        Event::ExtendFailed { name, left, votes } => {
            format!("`{name}` extended by only {votes} nodes; it is held for another {} ms", left.as_millis())
        }
        Event::ToppedUp { name, node } => format!("`{name}` given back to {node}"),
        Event::Lost { name, loss: Loss::LeaseExpired, .. } => {
            format!("the lease of `{name}` ended: its caller did not extend it")
        }
        Event::Lost { name, loss, .. } => format!("`{name}` lost: {loss}"),
        Event::Released { name, outcome, held, .. } => {
            format!("`{name}` {} after {} ms", outcome.replace('_', " "), held.as_millis())
        }
        Event::GivenAway { name, .. } => format!("`{name}` left to whoever has its token"),
        Event::ForceReleased { name, outcome } => {
            format!("`{name}` released by force: {}", outcome.replace('_', " "))
        }
        Event::NodeUp { node, version } => format!("{node} is up ({version})"),
        Event::NodeDown { node, cause } => format!("{node} is down: {cause}"),
        Event::NodeQuarantined { node, left } => {
            format!("{node} restarted or is new, and may vote again in {} s", left.as_secs())
        }
        Event::NodeReplicated { node, replicas } => {
            format!("{node} has replicas ({replicas}): a failover to one of them would lose locks")
        }
        Event::ClockSkew { node, ahead_micros } => {
            format!("the clock of {node} is {} ms ahead of ours", ahead_micros / 1000)
        }
        Event::NodeFailed { node, cause } => format!("{node} did not answer: {cause}"),
        Event::ClockJumped { by } => {
            format!("the machine slept, or its clock jumped by {} ms", by.as_millis())
        }
        _ => "something happened".to_owned(),
    }
}

/// The fields of an event, times in milliseconds.
pub(crate) fn fields(event: &Event) -> Map<String, Value> {
    let fields = match event {
        Event::Acquired { name, fence, waited, took, attempts, votes, validity } => json!({
            "lock": name, "fence": fence.get(), "waited_ms": millis(*waited), "took_ms": millis(*took),
            "attempts": attempts, "votes": votes, "validity_ms": millis(*validity),
        }),
        Event::Refused { name, attempt, votes, denied, missing } => json!({
            "lock": name, "attempt": attempt, "votes": votes, "denied": denied, "missing": missing,
        }),
        Event::Waiting { name, holder, left } => json!({
            "lock": name, "holder": holder.as_ref().map(|owner| owner.who.as_str()), "left_ms": left.map(millis),
        }),
        Event::GaveUp { name, why, waited, attempts } => json!({
            "lock": name, "why": why, "waited_ms": millis(*waited), "attempts": attempts,
        }),
        Event::Adopted { name, fence } => json!({ "lock": name, "fence": fence.get() }),
        Event::Extended { name, left, votes } | Event::ExtendFailed { name, left, votes } => {
            json!({ "lock": name, "left_ms": millis(*left), "votes": votes })
        }
        Event::ToppedUp { name, node } => json!({ "lock": name, "node": &**node }),
        Event::Lost { name, fence, loss, held } => json!({
            "lock": name, "fence": fence.get(), "reason": loss.kind(), "held_ms": millis(*held),
        }),
        Event::Released { name, fence, outcome, held, .. } => json!({
            "lock": name, "fence": fence.get(), "outcome": outcome, "held_ms": millis(*held),
        }),
        Event::GivenAway { name, fence, held } => {
            json!({ "lock": name, "fence": fence.get(), "held_ms": millis(*held) })
        }
        Event::ForceReleased { name, outcome } => json!({ "lock": name, "outcome": outcome }),
        Event::NodeUp { node, version } => json!({ "node": &**node, "version": &**version }),
        Event::NodeDown { node, cause } | Event::NodeFailed { node, cause } => {
            json!({ "node": &**node, "cause": cause.to_string(), "cause_kind": cause.kind() })
        }
        Event::NodeQuarantined { node, left } => json!({ "node": &**node, "left_ms": millis(*left) }),
        Event::NodeReplicated { node, replicas } => json!({ "node": &**node, "replicas": replicas }),
        Event::ClockSkew { node, ahead_micros } => {
            json!({ "node": &**node, "ahead_ms": ahead_micros / 1000 })
        }
        Event::ClockJumped { by } => json!({ "by_ms": millis(*by) }),
        _ => json!({}),
    };
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
