//! A lock as the nodes see it, for people.

use crate::output::duration::show;
use crate::output::{relative_time, subject, table};
use quorlock::node::{Content, View};
use quorlock::{Fence, Holder, Inspection, Listing, NodeView, Owner, StoredLock, Token};
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

/// The slots of a semaphore that are taken, for people. If it is not known how many it has, the
/// first 16 were inspected.
pub(crate) fn permits_text(
    semaphore: &str,
    slots: Option<u32>,
    permits: &[Inspection],
    now: SystemTime,
) -> String {
    let taken = permits.len();
    let of = slots.map_or("its first 16".to_owned(), |slots| slots.to_string());
    let summary = format!("semaphore `{semaphore}`: {taken} of {of} slots taken");
    if permits.is_empty() { summary } else { format!("{summary}\n\n{}", locks_table(permits, now)) }
}

/// The locks as a table, one line for each holder.
fn locks_table(locks: &[Inspection], now: SystemTime) -> String {
    let mut table = table::with(&HEADER);
    for lock in locks {
        for row in rows(lock, now) {
            table.add_row(row);
        }
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
        ("name", Some(subject::label(&lock.name))),
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
    format!("{} is free{but}; {fence}", subject::phrase(slice::from_ref(&lock.name)))
}

/// The holder of a lock, for people, without the reason.
pub(crate) fn holder_text(holder: &Holder) -> String {
    match holder {
        Holder::Owner { owner, .. } => owner_text(owner),
        Holder::Shared { readers } => match readers.as_slice() {
            [one] => format!("{} (shared)", owner_text(&one.owner)),
            [one, ..] => {
                format!("{} clients that share it, such as {}", readers.len(), owner_text(&one.owner))
            }
            [] => holder.to_string(),
        },
        other => other.to_string(),
    }
}

fn owner_text(owner: &Owner) -> String {
    format!("{} (pid {})", owner.who, owner.pid)
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

/// The holder of `inspected` that has `token`, even if it has the lock on less than a majority.
pub(crate) fn holder_with(inspected: &Inspection, token: Token) -> Option<Holder> {
    let of_majority = match &inspected.holder {
        Holder::Owner { token: held, .. } if *held == token => Some(inspected.holder.clone()),
        Holder::Shared { readers } => reader_with(readers, token),
        _ => None,
    };
    of_majority.or_else(|| {
        inspected.nodes.iter().find_map(|node| match &node.view.as_ref().ok()?.content {
            Content::Lock(stored) if stored.token == token => Some(owner_of(stored)),
            Content::Shared(readers) => reader_with(readers, token),
            _ => None,
        })
    })
}

fn reader_with(readers: &[StoredLock], token: Token) -> Option<Holder> {
    readers.iter().find(|reader| reader.token == token).map(owner_of)
}

fn owner_of(stored: &StoredLock) -> Holder {
    Holder::Owner { token: stored.token, fence: stored.fence, owner: stored.owner.clone() }
}

/// One row, or one for each client that shares the lock.
fn rows(lock: &Inspection, now: SystemTime) -> Vec<[String; 7]> {
    let left = remaining(lock.left);
    match &lock.holder {
        Holder::Owner { owner, fence, .. } => {
            vec![row(lock, owner_text(owner), Some((owner, *fence)), left, now)]
        }
        Holder::Shared { readers } if !readers.is_empty() => {
            let last = readers.len() - 1;
            let of_reader = |(at, reader): (usize, &StoredLock)| {
                // The reader that ends last comes last.
                let left = if at == last { left.clone() } else { format!("<{left}") };
                let holder = format!("shared: {}", owner_text(&reader.owner));
                row(lock, holder, Some((&reader.owner, reader.fence)), left, now)
            };
            readers.iter().enumerate().map(of_reader).collect()
        }
        other => vec![row(lock, holder_text(other), None, left, now)],
    }
}

fn row(
    lock: &Inspection,
    holder: String,
    owner: Option<(&Owner, Fence)>,
    left: String,
    now: SystemTime,
) -> [String; 7] {
    let dash = || "-".to_owned();
    let since = owner.map_or_else(dash, |(owner, _)| relative_time::show(owner.since, now));
    let fence = owner.map_or_else(dash, |(_, fence)| fence.to_string());
    let reason = owner.and_then(|(owner, _)| owner.reason.clone()).unwrap_or_else(dash);
    let votes = format!("{}/{}", lock.votes, lock.quorum.nodes());
    let [name, holder, reason] = [subject::label(&lock.name), holder, reason].map(table::truncate);
    [name, holder, since, left, fence, votes, reason]
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
        Ok(View { content: Content::Shared(readers), .. }) => match readers.len() {
            1 => "shared by 1 client".to_owned(),
            count => format!("shared by {count} clients"),
        },
        Ok(View { content: Content::Foreign(value), .. }) => {
            format!("held by another program (value `{value}`)")
        }
        Ok(_) => "an unknown value".to_owned(),
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
