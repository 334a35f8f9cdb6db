//! Signs that nodes are not new, so that marking them could give one lock to two holders.

use super::plan::{Node, Plan};
use super::{RestartGuard, only};
use crate::settings::Settings;
use std::collections::BTreeSet;

const RISK: &str = "if locks are held that the others forgot, marking them can give one lock to two holders";

/// What speaks against it, for people.
pub(super) async fn find(settings: &Settings, plan: &Plan) -> Vec<String> {
    let mut dangers = Vec::new();
    let voting: Vec<&str> = plan.voting().map(|node| node.name.as_str()).collect();
    if !voting.is_empty() {
        dangers.push(format!("{} can vote already, so these nodes are in use: {RISK}", voting.join(", ")));
    }
    let restarted: Vec<&str> = plan
        .to_mark()
        .filter(|node| node.epoch.as_ref().is_some_and(|epoch| !epoch.is_of_this_run))
        .map(|node| node.name.as_str())
        .collect();
    if !restarted.is_empty() {
        dangers.push(format!("{} restarted after it had been in use: {RISK}", restarted.join(", ")));
    }
    let held = held(settings, plan).await;
    if !held.is_empty() {
        let names: Vec<String> = held.iter().take(5).map(|name| format!("`{name}`")).collect();
        let more = if held.len() > 5 { format!(" and {} more", held.len() - 5) } else { String::new() };
        dangers.push(format!("locks are held right now: {}{more}. Do not go on: {RISK}", names.join(", ")));
    }
    dangers
}

/// The locks that any node stores, asked of each alone: those that forgot would outvote the one that knows.
async fn held(settings: &Settings, plan: &Plan) -> BTreeSet<String> {
    let mut held = BTreeSet::new();
    for node in &plan.nodes {
        held.extend(held_on(settings, node).await);
    }
    held
}

async fn held_on(settings: &Settings, node: &Node) -> Vec<String> {
    // Without restart guard nothing is written there, not even that its memory is known from now on.
    let alone = only(settings, vec![node.url.clone()], RestartGuard::Off);
    let Ok(locker) = alone.build(alone.read_only_builder()) else { return Vec::new() };
    let Ok(listing) = locker.list().await else { return Vec::new() };
    listing.held.iter().map(|lock| lock.name.as_str().to_owned()).collect()
}
