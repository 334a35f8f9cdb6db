//! Which nodes will be marked, and which are left as they are.

use crate::commands::doctor::{NodeState, restart_guard};
use crate::output::duration::show;
use crate::settings::Settings;
use quorlock::node::{EpochFacts, Facts};
use quorlock::{NodeExamination, Quorum};
use std::time::Duration;

/// All nodes as they were found.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) nodes: Vec<Node>,
}

/// One node as it was found.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) url: String,
    pub(super) name: String,
    pub(super) state: NodeState,
    pub(super) epoch: Option<EpochFacts>,
}

impl Node {
    /// Whether it could vote if it were known to be new.
    pub(super) fn needs_mark(&self) -> bool {
        matches!(self.state, NodeState::NoEpoch | NodeState::Quarantined { .. })
    }
}

impl Plan {
    pub(super) fn new(settings: &Settings, examined: Vec<NodeExamination>) -> Self {
        let guard = restart_guard(settings);
        let nodes = settings.nodes.value.iter().zip(examined).map(|(url, examination)| Node {
            url: url.clone(),
            state: NodeState::of(&examination, guard),
            epoch: match &examination.found {
                Ok(Facts::Server(facts)) => facts.epoch.clone(),
                Ok(Facts::Database(facts)) => facts.epoch.clone(),
                _ => None,
            },
            name: examination.node,
        });
        Self { nodes: nodes.collect() }
    }

    pub(super) fn to_mark(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.needs_mark())
    }

    pub(super) fn voting(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.state.can_vote())
    }

    /// The longest ttl that any of them has recorded.
    pub(super) fn recorded_longest_ttl(&self) -> Duration {
        let epochs = self.nodes.iter().filter_map(|node| node.epoch.as_ref());
        epochs.map(|epoch| epoch.longest_ttl).max().unwrap_or_default()
    }

    /// How many nodes must be able to vote.
    pub(super) fn needed(&self) -> usize {
        Quorum::of(self.nodes.len()).map_or(self.nodes.len(), Quorum::needed)
    }

    /// What will be done and why, for people.
    pub(super) fn intent(&self, settings: &Settings) -> String {
        let names: Vec<&str> = self.to_mark().map(|node| node.name.as_str()).collect();
        let longest = show(settings.longest_ttl.value);
        format!(
            "these nodes will be marked as new: {}\n  \
             They may then vote at once. A node that may have forgotten locks does not vote for the longest ttl\n  \
             ({longest}) plus 10 s. Go on only if no client acquired a lock with these nodes within that time.",
            names.join(", ")
        )
    }
}
