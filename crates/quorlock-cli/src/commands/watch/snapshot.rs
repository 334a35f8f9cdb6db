//! Locks and nodes at one time, as a page, a line or an object.

use crate::args::SlotArgs;
use crate::commands::inspect_lock::Found;
use crate::output::duration::show;
use crate::output::failure::Failure;
use crate::output::{json, lock_json, lock_view, relative_time, subject};
use anstyle::{AnsiColor, Style};
use quorlock::node::NodeHealth;
use quorlock::{Inspection, Listing, Locker};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};

const UP: Style = AnsiColor::Green.on_default();
const DOWN: Style = AnsiColor::Red.on_default().bold();

/// Locks and nodes at one time.
#[derive(Debug)]
pub(super) struct Snapshot {
    time: SystemTime,
    nodes: Vec<NodeHealth>,
    locks: Result<Locks, Failure>,
}

#[derive(Debug)]
enum Locks {
    One(Box<Found>),
    All(Listing),
}

impl Snapshot {
    pub(super) async fn of_name(locker: &Locker, name: &str, slots: SlotArgs) -> Self {
        let locks = Found::inspect(locker, name, slots).await.map(|found| Locks::One(Box::new(found)));
        Self { time: SystemTime::now(), nodes: locker.health(), locks }
    }

    pub(super) async fn of_all(locker: &Locker) -> Self {
        let locks = locker.list().await.map(Locks::All).map_err(Failure::from);
        Self { time: SystemTime::now(), nodes: locker.health(), locks }
    }

    /// For a terminal.
    pub(super) fn to_page(&self, interval: Duration) -> String {
        let time = relative_time::date_time(self.time);
        let title = format!("quorlock  {time}  every {}  (q: quit)", show(interval));
        let nodes: Vec<String> = self.nodes.iter().map(node_line).collect();
        let body = match &self.locks {
            Ok(Locks::One(found)) => found.text(self.time),
            Ok(Locks::All(listing)) if listing.complete => lock_view::listing_text(listing, self.time),
            Ok(Locks::All(listing)) => format!("{}\n(not all)", lock_view::listing_text(listing, self.time)),
            Err(failure) => format!("{DOWN}error:{DOWN:#} {}", failure.message()),
        };
        format!("{title}\nnodes: {} up\n{}\n\n{body}", self.up(), nodes.join("\n"))
    }

    /// For a file or a pipe.
    pub(super) fn to_line(&self) -> String {
        let locks = match &self.locks {
            Ok(Locks::One(found)) if found.is_semaphore() => briefs(&found.permits, "no slot is taken"),
            Ok(Locks::One(found)) => brief(&found.lock),
            Ok(Locks::All(listing)) => briefs(&listing.held, "no lock is held"),
            Err(failure) => format!("error: {}", failure.message().replace('\n', " ")),
        };
        format!("{} nodes {} up: {locks}", relative_time::date_time(self.time), self.up())
    }

    /// For programs.
    pub(super) fn to_json(&self) -> Value {
        let mut object = match &self.locks {
            Ok(Locks::One(found)) => json!({ "lock": found.to_json(self.time, false) }),
            Ok(Locks::All(listing)) => lock_json::listing_json(listing, self.time),
            Err(failure) => failure.to_json(),
        };
        object["time"] = json::unix_seconds(self.time).into();
        object["health"] = self.nodes.iter().map(node_json).collect();
        object
    }

    /// How many nodes are up, of how many.
    fn up(&self) -> String {
        let up = self.nodes.iter().filter(|node| node.health.trouble.is_none()).count();
        format!("{up}/{}", self.nodes.len())
    }
}

fn briefs(locks: &[Inspection], none: &str) -> String {
    let locks: Vec<String> = locks.iter().map(brief).collect();
    if locks.is_empty() { none.to_owned() } else { locks.join("; ") }
}

fn brief(lock: &Inspection) -> String {
    if !lock.is_held() {
        return lock_view::free_text(lock);
    }
    let left = lock.left.map(|left| format!(" for another {}", show(left))).unwrap_or_default();
    format!("`{}` held by {}{left}", subject::label(&lock.name), lock_view::holder_text(&lock.holder))
}

fn node_line(NodeHealth { node, health, .. }: &NodeHealth) -> String {
    let version = health.version.as_deref().map(|it| format!("  {it}")).unwrap_or_default();
    match &health.trouble {
        None => format!("  {UP}up  {UP:#}  {node}{version}"),
        Some(cause) => format!("  {DOWN}down{DOWN:#}  {node}  {cause}"),
    }
}

fn node_json(NodeHealth { node, health, .. }: &NodeHealth) -> Value {
    json!({
        "node": &**node,
        "up": health.trouble.is_none(),
        "kind": health.trouble.as_ref().map(|cause| cause.kind()),
        "cause": health.trouble.as_ref().map(ToString::to_string),
        "version": health.version,
    })
}
