//! One look at locks and nodes, as a page, a line or an object.

use crate::commands::status;
use crate::duration::show;
use crate::failure::Failure;
use crate::since;
use crate::view;
use anstyle::{AnsiColor, Style};
use quorlock::node::Health;
use quorlock::{Inspection, Listing, Lock, Locker, Wall};
use serde_json::{Value, json};
use std::time::Duration;

const UP: Style = AnsiColor::Green.on_default();
const DOWN: Style = AnsiColor::Red.on_default().bold();

/// What was seen, and when.
#[derive(Debug)]
pub(super) struct Look {
    at: Wall,
    nodes: Vec<(String, Health)>,
    seen: Result<Seen, Failure>,
}

#[derive(Debug)]
enum Seen {
    One(Inspection),
    All(Listing),
}

impl Look {
    pub(super) async fn at_one(locker: &Locker, lock: &Lock) -> Self {
        let seen = lock.inspect().await.map(Seen::One).map_err(Failure::from);
        Self { at: since::now(), nodes: locker.health(), seen }
    }

    pub(super) async fn at_all(locker: &Locker) -> Self {
        let seen = locker.list().await.map(Seen::All).map_err(Failure::from);
        Self { at: since::now(), nodes: locker.health(), seen }
    }

    /// For a terminal.
    pub(super) fn page(&self, interval: Duration) -> String {
        let title = format!("quorlock  {}  every {}  (q: quit)", since::time(self.at), show(interval));
        let nodes: Vec<String> = self.nodes.iter().map(|(node, health)| node_line(node, health)).collect();
        let body = match &self.seen {
            Ok(Seen::One(lock)) => status::one(lock, self.at),
            Ok(Seen::All(listing)) if listing.complete => status::all(listing, self.at),
            Ok(Seen::All(listing)) => format!("{}\n(not all)", status::all(listing, self.at)),
            Err(failure) => format!("{DOWN}error:{DOWN:#} {}", failure.message()),
        };
        format!("{title}\nnodes: {} up\n{}\n\n{body}", self.up(), nodes.join("\n"))
    }

    /// For a file or a pipe.
    pub(super) fn line(&self) -> String {
        let seen = match &self.seen {
            Ok(Seen::One(lock)) => brief(lock),
            Ok(Seen::All(listing)) => {
                let locks: Vec<String> = listing.held.iter().map(brief).collect();
                if locks.is_empty() { "no lock is held".to_owned() } else { locks.join("; ") }
            }
            Err(failure) => format!("error: {}", failure.message().replace('\n', " ")),
        };
        format!("{} nodes {} up: {seen}", since::time(self.at), self.up())
    }

    /// For programs.
    pub(super) fn object(&self) -> Value {
        let mut object = match &self.seen {
            Ok(Seen::One(lock)) => json!({ "lock": view::lock_json(lock, self.at, false) }),
            Ok(Seen::All(listing)) => status::all_json(listing, self.at),
            Err(failure) => failure.to_json(),
        };
        object["time"] = (self.at.as_micros() / 1_000_000).into();
        object["health"] = self.nodes.iter().map(|(node, health)| node_json(node, health)).collect();
        object
    }

    /// How many nodes are up, of how many.
    fn up(&self) -> String {
        let up = self.nodes.iter().filter(|(_, health)| health.trouble.is_none()).count();
        format!("{up}/{}", self.nodes.len())
    }
}

fn brief(lock: &Inspection) -> String {
    if !lock.is_held() {
        return view::free(lock);
    }
    let left = lock.left.map(|left| format!(" for another {}", show(left))).unwrap_or_default();
    format!("`{}` held by {}{left}", lock.name, view::who(&lock.holder))
}

fn node_line(node: &str, health: &Health) -> String {
    let version = health.version.as_deref().map(|it| format!("  {it}")).unwrap_or_default();
    match &health.trouble {
        None => format!("  {UP}up  {UP:#}  {node}{version}"),
        Some(cause) => format!("  {DOWN}down{DOWN:#}  {node}  {cause}"),
    }
}

fn node_json(node: &str, health: &Health) -> Value {
    json!({
        "node": node,
        "up": health.trouble.is_none(),
        "kind": health.trouble.as_ref().map(|cause| cause.kind()),
        "cause": health.trouble.as_ref().map(ToString::to_string),
        "version": health.version,
    })
}
