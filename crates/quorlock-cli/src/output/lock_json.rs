//! A lock as the nodes see it, for programs.

use crate::output::{json, lock_view, subject};
use quorlock::node::Content;
use quorlock::{Holder, Inspection, Listing, NodeView, StoredLock, Token};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

/// All held locks.
pub(crate) fn listing_json(listing: &Listing, now: SystemTime) -> Value {
    json!({ "locks": locks_json(&listing.held, now, false), "complete": listing.complete })
}

/// Each of `locks`.
pub(crate) fn locks_json(locks: &[Inspection], now: SystemTime, show_token: bool) -> Vec<Value> {
    locks.iter().map(|lock| lock_json(lock, now, show_token)).collect()
}

/// The lock, with tokens only if `show_token`.
pub(crate) fn lock_json(lock: &Inspection, now: SystemTime, show_token: bool) -> Value {
    let held_for = match &lock.holder {
        Holder::Owner { owner, .. } => now.duration_since(owner.since).ok().or(Some(Duration::ZERO)),
        _ => None,
    };
    let slot = subject::slot(&lock.name);
    let nodes: Vec<Value> = lock.nodes.iter().map(|node| node_json(node, &lock.holder, show_token)).collect();
    let mut object = json!({
        "name": subject::given_name(&lock.name),
        "semaphore": slot.map(|_| subject::given_name(&lock.name)),
        "slot": slot,
        "held": lock.is_held(),
        "mode": mode(&lock.holder),
        "holder": json::holder(&lock.holder),
        "readers": readers(&lock.holder).iter().map(|it| reader_json(it, show_token)).collect::<Vec<_>>(),
        "held_ms": held_for.map(json::millis),
        "remaining_ms": lock.left.map(json::millis),
        "fence": lock_view::fence_of(&lock.holder),
        "last_fence": lock.fence.map(|fence| fence.get()),
        "votes": lock.votes,
        "nodes": lock.quorum.nodes(),
        "per_node": nodes,
    });
    if show_token {
        object["token"] = lock_view::token_of(&lock.holder).map(|token| token.to_string()).into();
    }
    object
}

/// How the lock is held; `None` if it is free or another program has it.
fn mode(holder: &Holder) -> Option<&'static str> {
    match holder {
        Holder::Owner { .. } => Some("exclusive"),
        Holder::Shared { .. } => Some("shared"),
        _ => None,
    }
}

fn readers(holder: &Holder) -> &[StoredLock] {
    match holder {
        Holder::Shared { readers } => readers,
        _ => &[],
    }
}

fn reader_json(reader: &StoredLock, show_token: bool) -> Value {
    let mut object = json::reader(reader);
    if show_token {
        object["token"] = reader.token.as_str().into();
    }
    object
}

fn node_json(node: &NodeView, holder: &Holder, show_token: bool) -> Value {
    let name = &*node.node;
    let view = match &node.view {
        Ok(view) => view,
        Err(cause) => {
            return json!({ "node": name, "state": "failed", "kind": cause.kind(), "cause": cause.to_string() });
        }
    };
    let left = view.left.map(json::millis);
    match &view.content {
        Content::Free => json!({ "node": name, "state": "free" }),
        Content::Lock(stored) if is_held_by(stored.token, holder) => json!({
            "node": name, "state": "holds", "fence": stored.fence.get(), "remaining_ms": left,
        }),
        Content::Lock(stored) => {
            let mut object = json!({
                "node": name, "state": "other", "fence": stored.fence.get(), "remaining_ms": left,
                "owner": stored.owner.who, "pid": stored.owner.pid,
            });
            if show_token {
                object["token"] = stored.token.as_str().into();
            }
            object
        }
        Content::Shared(readers) => {
            let readers: Vec<Value> = readers.iter().map(|it| reader_json(it, show_token)).collect();
            json!({ "node": name, "state": "shared", "readers": readers, "remaining_ms": left })
        }
        Content::Foreign(value) => {
            json!({ "node": name, "state": "foreign", "foreign": value, "remaining_ms": left })
        }
        _ => json!({ "node": name, "state": "unknown" }),
    }
}

fn is_held_by(token: Token, holder: &Holder) -> bool {
    lock_view::token_of(holder) == Some(token)
}
