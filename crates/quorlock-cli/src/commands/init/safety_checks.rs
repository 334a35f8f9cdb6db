//! Signs that nodes are not new: marking them could give one lock to two holders.

use super::plan::{Node, Plan};
use super::with_nodes;
use crate::settings::Settings;
use quorlock::RestartGuard;
use std::collections::BTreeSet;

/// How many held locks a warning names.
const MAX_NAMES: usize = 5;

const RISK: &str =
    "if these nodes forgot locks that are still held, marking them can give one lock to two holders";

/// A warning for each sign.
pub(super) async fn warnings(settings: &Settings, plan: &Plan) -> Vec<String> {
    let mut warnings = Vec::new();
    let voting: Vec<&str> = plan.voting().map(|node| node.name.as_str()).collect();
    if !voting.is_empty() {
        warnings.push(format!("{} can vote already, so these nodes are in use: {RISK}", voting.join(", ")));
    }
    let restarted: Vec<&str> = plan
        .to_mark()
        .filter(|node| node.epoch.as_ref().is_some_and(|epoch| !epoch.is_of_this_run))
        .map(|node| node.name.as_str())
        .collect();
    if !restarted.is_empty() {
        warnings.push(format!("{} restarted after it had been in use: {RISK}", restarted.join(", ")));
    }
    let held = held_locks(settings, plan).await;
    if !held.is_empty() {
        let names: Vec<String> = held.iter().take(MAX_NAMES).map(|name| format!("`{name}`")).collect();
        let more = held.len().saturating_sub(MAX_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        warnings.push(format!("locks are held right now: {}{more}. Do not go on: {RISK}", names.join(", ")));
    }
    warnings
}

/// The locks that any node stores. Each node is asked alone: together, nodes that forgot a lock
/// would outvote the one that stores it.
async fn held_locks(settings: &Settings, plan: &Plan) -> BTreeSet<String> {
    let mut held = BTreeSet::new();
    for node in &plan.nodes {
        held.extend(held_on(settings, node).await);
    }
    held
}

async fn held_on(settings: &Settings, node: &Node) -> Vec<String> {
    // Without the restart guard nothing is written to the node, not even an epoch.
    let alone = with_nodes(settings, vec![node.url.clone()], RestartGuard::Off);
    let Ok(locker) = alone.build(alone.read_only_builder()) else { return Vec::new() };
    let Ok(listing) = locker.list().await else { return Vec::new() };
    listing.held.iter().map(|lock| lock.name.as_str().to_owned()).collect()
}
