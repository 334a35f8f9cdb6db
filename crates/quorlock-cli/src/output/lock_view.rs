//! A lock as the nodes see it, for people and for programs.

use crate::output::duration::show;
use crate::output::{json, relative_time, table};
use quorlock::node::{Content, View};
use quorlock::{Holder, Inspection, Listing, NodeView, Token};
use serde_json::{Value, json};
use std::slice;
use std::time::{Duration, SystemTime};

const HEADER: [&str; 7] = ["NAME", "HOLDER", "SINCE", "REMAINING", "FENCE", "VOTES", "REASON"];

/// One lock for people: its holder, and what each node stores.
pub(crate) fn lock_text(lock: &Inspection, now: SystemTime) -> String {
    if !lock.is_held() {
        return format!("{}\n\n{}", free_text(lock), nodes_table(lock));
    }
    let summary = locks_table(slice::from_ref(lock), now);
    format!("{summary}\n{}\n{}", whole_values(lock), nodes_table(lock))
}

/// All held locks for people.
pub(crate) fn listing_text(listing: &Listing, now: SystemTime) -> String {
    match (listing.held.is_empty(), listing.complete) {
        (true, true) => "no lock is held".to_owned(),
        (true, false) => "no lock was found".to_owned(),
        _ => locks_table(&listing.held, now),
    }
}

/// All held locks for programs.
pub(crate) fn listing_json(listing: &Listing, now: SystemTime) -> Value {
    let locks: Vec<Value> = listing.held.iter().map(|lock| lock_json(lock, now, false)).collect();
    json!({ "locks": locks, "complete": listing.complete })
}

/// The locks as a table, one line each.
fn locks_table(locks: &[Inspection], now: SystemTime) -> String {
    let mut table = table::with(&HEADER);
    for lock in locks {
        table.add_row(row(lock, now));
    }
    table::text(&table)
}

/// The values of `lock` that [`locks_table`] truncates, whole, one line each; empty if there are
/// none.
fn whole_values(lock: &Inspection) -> String {
    let reason = match &lock.holder {
        Holder::Owner { owner, .. } => owner.reason.clone(),
        _ => None,
    };
    let values = [
        ("name", Some(lock.name.to_string())),
        ("holder", Some(holder_text(&lock.holder))),
        ("reason", reason),
    ];
    let long = values
        .into_iter()
        .filter_map(|(what, value)| Some((what, value.filter(|it| table::truncate(it.clone()) != *it)?)));
    long.map(|(what, value)| format!("{what}: {value}\n")).collect()
}

/// What each node stores for `lock`, one line each.
fn nodes_table(lock: &Inspection) -> String {
    let holder = token_of(&lock.holder);
    let mut table = table::with(&["NODE", "SAYS", "REMAINING"]);
    for node in &lock.nodes {
        let left = node.view.as_ref().map_or_else(|_| "-".to_owned(), remaining_of);
        table.add_row([node.node.to_string(), stored_text(node, holder), left]);
    }
    table::text(&table)
}

/// A free lock, for people.
pub(crate) fn free_text(lock: &Inspection) -> String {
    let fence = lock.fence.map_or("it never had a fence".to_owned(), |fence| format!("last fence {fence}"));
    let is_contended = lock.nodes.iter().any(|node| matches!(&node.view, Ok(view) if !is_free(view)));
    let but = if is_contended { " (some nodes hold it, but no majority)" } else { "" };
    format!("lock `{}` is free{but}; {fence}", lock.name)
}

/// The holder of a lock, for people, without the reason.
pub(crate) fn holder_text(holder: &Holder) -> String {
    match holder {
        Holder::Owner { owner, .. } => format!("{} (pid {})", owner.who, owner.pid),
        other => other.to_string(),
    }
}

/// The holder of a lock and since when it holds it, for people.
pub(crate) fn holder_since_text(holder: &Holder, now: SystemTime) -> String {
    match holder {
        Holder::Owner { owner, .. } => {
            format!("{} since {}", holder_text(holder), relative_time::show(owner.since, now))
        }
        other => holder_text(other),
    }
}

/// The lock for programs, with the token only if `show_token`.
pub(crate) fn lock_json(lock: &Inspection, now: SystemTime, show_token: bool) -> Value {
    let held_for = match &lock.holder {
        Holder::Owner { owner, .. } => now.duration_since(owner.since).ok().or(Some(Duration::ZERO)),
        _ => None,
    };
    let holder = token_of(&lock.holder);
    let nodes: Vec<Value> = lock.nodes.iter().map(|node| node_json(node, holder, show_token)).collect();
    let mut object = json!({
        "name": lock.name.as_str(),
        "held": lock.is_held(),
        "holder": json::holder(&lock.holder),
        "held_ms": held_for.map(json::millis),
        "remaining_ms": lock.left.map(json::millis),
        "fence": fence_of(&lock.holder),
        "last_fence": lock.fence.map(|fence| fence.get()),
        "votes": lock.votes,
        "nodes": lock.quorum.nodes(),
        "per_node": nodes,
    });
    if show_token {
        object["token"] = holder.map(|token| token.to_string()).into();
    }
    object
}

/// The token of a holder that has one.
pub(crate) fn token_of(holder: &Holder) -> Option<Token> {
    match holder {
        Holder::Owner { token, .. } => Some(*token),
        _ => None,
    }
}

/// The fence of a holder that has one.
pub(crate) fn fence_of(holder: &Holder) -> Option<u64> {
    match holder {
        Holder::Owner { fence, .. } => Some(fence.get()),
        _ => None,
    }
}

fn row(lock: &Inspection, now: SystemTime) -> [String; 7] {
    let dash = || "-".to_owned();
    let (since, reason) = match &lock.holder {
        Holder::Owner { owner, .. } => {
            (relative_time::show(owner.since, now), owner.reason.clone().unwrap_or_else(dash))
        }
        _ => (dash(), dash()),
    };
    let fence = fence_of(&lock.holder).map_or_else(dash, |fence| fence.to_string());
    let votes = format!("{}/{}", lock.votes, lock.quorum.nodes());
    let [name, holder, reason] =
        [lock.name.to_string(), holder_text(&lock.holder), reason].map(table::truncate);
    [name, holder, since, remaining(lock.left), fence, votes, reason]
}

fn stored_text(node: &NodeView, holder: Option<Token>) -> String {
    match &node.view {
        Err(cause) => format!("no answer: {cause}"),
        Ok(View { content: Content::Free, .. }) => "free".to_owned(),
        Ok(View { content: Content::Lock(stored), .. }) if Some(stored.token) == holder => {
            "holds it".to_owned()
        }
        Ok(View { content: Content::Lock(stored), .. }) => {
            table::truncate(format!("held by {} (pid {})", stored.owner.who, stored.owner.pid))
        }
        Ok(View { content: Content::Foreign(value), .. }) => {
            format!("held by another program (value `{value}`)")
        }
        Ok(_) => "an unknown value".to_owned(),
    }
}

fn node_json(node: &NodeView, holder: Option<Token>, show_token: bool) -> Value {
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
        Content::Lock(stored) if Some(stored.token) == holder => json!({
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
        Content::Foreign(value) => {
            json!({ "node": name, "state": "foreign", "foreign": value, "remaining_ms": left })
        }
        _ => json!({ "node": name, "state": "unknown" }),
    }
}

fn remaining_of(view: &View) -> String {
    if is_free(view) { "-".to_owned() } else { remaining(view.left) }
}

/// The remaining time of something that is held.
fn remaining(left: Option<Duration>) -> String {
    left.map_or_else(|| "no end".to_owned(), show)
}

fn is_free(view: &View) -> bool {
    view.content == Content::Free
}
