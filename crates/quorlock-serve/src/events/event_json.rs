//! The fields of events as JSON.

use crate::json::millis;
use quorlock::Event;
use serde_json::{Map, Value, json};

/// The fields of an event, times in milliseconds.
pub(crate) fn event_fields(event: &Event) -> Map<String, Value> {
    let fields = match event {
        Event::Acquired { name, mode, fence, waited, took, attempts, votes, validity } => json!({
            "lock": name, "mode": mode, "fence": fence.get(), "waited_ms": millis(*waited), "took_ms": millis(*took),
            "attempts": attempts, "votes": votes, "validity_ms": millis(*validity),
        }),
        Event::Refused { name, attempt, votes, denied, missing } => json!({
            "lock": name, "attempt": attempt, "votes": votes, "denied": denied, "missing": missing,
        }),
        Event::Waiting { name, holder, left } => json!({
            "lock": name, "holder": holder.as_ref().map(|owner| owner.who.as_str()), "left_ms": left.map(millis),
        }),
        Event::GaveUp { name, reason, waited, attempts } => json!({
            "lock": name, "reason": reason.kind(), "waited_ms": millis(*waited), "attempts": attempts,
        }),
        Event::Adopted { name, fence } => json!({ "lock": name, "fence": fence.get() }),
        Event::ModeChanged { name, mode, fence } => {
            json!({ "lock": name, "mode": mode, "fence": fence.get() })
        }
        Event::Extended { name, left, votes } | Event::ExtendFailed { name, left, votes } => {
            json!({ "lock": name, "left_ms": millis(*left), "votes": votes })
        }
        Event::Repaired { name, node } => json!({ "lock": name, "node": &**node }),
        Event::Lost { name, fence, reason, held } => json!({
            "lock": name, "fence": fence.get(), "reason": reason.kind(), "held_ms": millis(*held),
        }),
        Event::Released { name, fence, outcome, held, .. } => json!({
            "lock": name, "fence": fence.get(), "outcome": outcome.kind(), "held_ms": millis(*held),
        }),
        Event::GivenAway { name, fence, held } => {
            json!({ "lock": name, "fence": fence.get(), "held_ms": millis(*held) })
        }
        Event::ForceReleased { name, outcome } => json!({ "lock": name, "outcome": outcome.kind() }),
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
