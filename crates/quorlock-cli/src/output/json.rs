//! Values that several answers share, as JSON.

use quorlock::{Holder, NodeOutcome, NodeReport};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A holder, without its token.
pub(crate) fn holder(holder: &Holder) -> Value {
    match holder {
        Holder::Owner { owner, fence, .. } => json!({
            "owner": owner.who, "pid": owner.pid, "reason": owner.reason, "fence": fence.get(),
            "since": unix_seconds(owner.since),
        }),
        Holder::Foreign(value) => json!({ "foreign": value }),
        _ => Value::Null,
    }
}

/// What one node answered.
pub(crate) fn node_report(report: &NodeReport) -> Value {
    match &report.outcome {
        NodeOutcome::Yes => json!({ "node": &*report.node, "said": "yes" }),
        NodeOutcome::No => json!({ "node": &*report.node, "said": "no" }),
        NodeOutcome::Failed(cause) => {
            json!({ "node": &*report.node, "said": "failed", "kind": cause.kind(), "cause": cause.to_string() })
        }
        _ => json!({ "node": &*report.node }),
    }
}

/// A duration in milliseconds.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Whole seconds since 1970.
pub(crate) fn unix_seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
