//! Which nodes are to be marked, and which are left as they are.

use crate::commands::doctor::{self, State};
use crate::output::duration::show;
use crate::settings::Settings;
use quorlock::node::{EpochFacts, Facts};
use quorlock::{NodeExamination, Quorum};
use std::time::Duration;

/// What is to be done with all nodes.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) nodes: Vec<Node>,
}

/// One node as it was found.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) url: String,
    pub(super) name: String,
    pub(super) state: State,
    pub(super) epoch: Option<EpochFacts>,
}

impl Plan {
    pub(super) fn new(settings: &Settings, examined: Vec<NodeExamination>) -> Self {
        let guard = doctor::guard(settings);
        let nodes = settings.nodes.value.iter().zip(examined).map(|(url, examination)| Node {
            url: url.clone(),
            state: State::of(&examination, guard),
            epoch: match &examination.found {
                Ok(Facts::Server(facts)) => facts.epoch.clone(),
                _ => None,
            },
            name: examination.node,
        });
        Self { nodes: nodes.collect() }
    }

    /// Those that could vote if they were known to be new.
    pub(super) fn to_mark(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| matches!(node.state, State::Unmarked | State::Quarantined { .. }))
    }

    pub(super) fn voting(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.state.votes())
    }

    /// The longest ttl that any of them has recorded.
    pub(super) fn recorded(&self) -> Duration {
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
             They may then vote at once, instead of after the longest ttl ({longest}) and 10 s, for which a node\n  \
             waits that may have forgotten locks. That is right only if no lock was ever taken with them, or none\n  \
             within that time.",
            names.join(", ")
        )
    }
}
