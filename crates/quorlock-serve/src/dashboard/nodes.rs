//! The state of each node, as the overview and the readiness check report it.

use crate::dashboard::node_facts_cache::{NodeFactsCache, guarantee};
use crate::json::millis;
use quorlock::node::{Facts, NodeError, NodeHealth};
use quorlock::{Locker, NodeExamination};
use serde::Serialize;
use utoipa::ToSchema;

/// A node right now.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Node {
    /// Its address, without secrets.
    pub(crate) node: String,
    /// Whether it replies.
    pub(crate) up: bool,
    /// Whether its votes count.
    pub(crate) can_vote: bool,
    /// How long the last reply took, with fractions.
    pub(crate) round_trip_ms: Option<f64>,
    /// How far its clock is ahead of ours, with fractions.
    pub(crate) clock_ahead_ms: Option<f64>,
    /// How long it may not vote, if it restarted.
    pub(crate) quarantine_ms: Option<u64>,
    pub(crate) version: Option<String>,
    /// `durable`, `restart-guarded`, `unguarded`, `consensus`, `this-machine`, `this-process` or `unknown`.
    pub(crate) guarantee: &'static str,
    /// The same for people.
    pub(crate) guarantee_text: &'static str,
    /// The age of its epoch: how long it has forgotten nothing.
    pub(crate) epoch_age_ms: Option<u64>,
    /// Why it cannot vote.
    pub(crate) trouble: Option<String>,
    /// Commands that wait for its reply.
    pub(crate) queue: usize,
}

/// All nodes, in the order of configuration.
pub(crate) fn nodes(locker: &Locker, facts: &NodeFactsCache) -> Vec<Node> {
    let facts = facts.last(locker);
    locker.health().into_iter().map(|node| describe(node, &facts)).collect()
}

fn describe(node: NodeHealth, facts: &[NodeExamination]) -> Node {
    let NodeHealth { node, health, .. } = node;
    let facts = facts.iter().find(|found| *found.node == *node).and_then(|found| found.found.as_ref().ok());
    let quarantine = match &health.trouble {
        Some(NodeError::Quarantined { left }) => Some(*left),
        _ => None,
    };
    let epoch = match facts {
        Some(Facts::Server(facts)) => facts.epoch.as_ref(),
        Some(Facts::Database(facts)) => facts.epoch.as_ref(),
        _ => None,
    };
    let (guarantee, guarantee_text) = guarantee(facts);
    Node {
        up: health.trouble.is_none() || quarantine.is_some(),
        can_vote: health.trouble.is_none(),
        round_trip_ms: health.round_trip.map(|span| fraction(span.as_secs_f64() * 1000.0)),
        #[allow(clippy::cast_precision_loss)] // Far below 2^53.
        clock_ahead_ms: health.clock_ahead_micros.map(|micros| fraction(micros as f64 / 1000.0)),
        quarantine_ms: quarantine.map(millis),
        version: health.version,
        guarantee,
        guarantee_text,
        epoch_age_ms: epoch.map(|epoch| millis(epoch.age)),
        trouble: health.trouble.map(|trouble| trouble.to_string()),
        queue: health.queued,
        node: node.to_string(),
    }
}

/// To thousandths.
fn fraction(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
