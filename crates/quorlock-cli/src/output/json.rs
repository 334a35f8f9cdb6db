//! Values that several answers share, as JSON.

use crate::output::subject;
use quorlock::{Fence, Holder, Name, NodeOutcome, NodeReport, Owner, StoredLock};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A holder, without its token.
pub(crate) fn holder(holder: &Holder) -> Value {
    match holder {
        Holder::Owner { owner, fence, .. } => owner_json(owner, *fence),
        Holder::Shared { readers } => {
            json!({ "shared": true, "readers": readers.iter().map(reader).collect::<Vec<_>>() })
        }
        Holder::Waiting => json!({ "waiting": true }),
        Holder::Foreign(value) => json!({ "foreign": value }),
        _ => Value::Null,
    }
}

/// A client that shares a lock, without its token.
pub(crate) fn reader(reader: &StoredLock) -> Value {
    owner_json(&reader.owner, reader.fence)
}

fn owner_json(owner: &Owner, fence: Fence) -> Value {
    json!({
        "owner": owner.who, "pid": owner.pid, "reason": owner.reason, "fence": fence.get(),
        "since": unix_seconds(owner.since),
    })
}

/// Adds the slot to an object about a slot, and all names to one about several.
pub(crate) fn add_slot(object: &mut Value, names: &[Name]) {
    if let [name] = names
        && let Some(slot) = subject::slot(name)
    {
        object["slot"] = slot.into();
    }
    if names.len() > 1 {
        object["names"] = names.iter().map(Name::as_str).collect();
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
