//! What the nodes said in a round: counted for the decision, kept for the report.

use crate::error::{NodeReport, Said};
use crate::node::{NodeError, Reply};
use crate::quorum::Voters;
use quorlock_core::{NodeSet, Tally, Verdict};

/// The replies of one round, counted and kept for a report. Nodes that are well take no memory.
#[derive(Debug)]
pub(crate) struct Poll<'a> {
    voters: &'a Voters,
    pub(crate) tally: Tally,
    said: Words,
}

impl<'a> Poll<'a> {
    pub(crate) fn new(voters: &'a Voters) -> Self {
        Self { voters, tally: Tally::new(voters.quorum), said: Words::default() }
    }

    /// Counts `reply` of `node`.
    pub(crate) fn count(&mut self, node: usize, reply: &Reply) -> Verdict {
        let said = self.voters.hear(node, reply);
        let vote = said.vote();
        self.said.note(node, said);
        self.tally.count(vote)
    }

    /// What each node said, in the order of configuration.
    pub(crate) fn report(self) -> Vec<NodeReport> {
        self.said.report(self.voters)
    }
}

/// The last word of each node.
#[derive(Debug, Default)]
pub(crate) struct Words {
    yes: NodeSet,
    no: NodeSet,
    failed: Vec<(usize, NodeError)>,
}

impl Words {
    pub(crate) fn note(&mut self, node: usize, said: Said) {
        self.yes.remove(node);
        self.no.remove(node);
        self.failed.retain(|(failed, _)| *failed != node);
        match said {
            Said::Yes => self.yes.insert(node),
            Said::No => self.no.insert(node),
            Said::Failed(cause) => self.failed.push((node, cause)),
        }
    }

    pub(crate) fn yes(&self) -> usize {
        self.yes.len()
    }

    pub(crate) fn no(&self) -> usize {
        self.no.len()
    }

    pub(crate) fn has_failed(&self, node: usize) -> bool {
        self.failed.iter().any(|(failed, _)| *failed == node)
    }

    /// Whether the node answered.
    pub(crate) fn is_heard(&self, node: usize) -> bool {
        self.yes.contains(node) || self.no.contains(node)
    }

    /// What each node said, in the order of configuration. Nodes that were not heard are left out.
    pub(crate) fn report(mut self, voters: &Voters) -> Vec<NodeReport> {
        let mut said: Vec<(usize, Said)> =
            self.failed.drain(..).map(|(node, cause)| (node, Said::Failed(cause))).collect();
        said.extend(self.yes.iter().map(|node| (node, Said::Yes)));
        said.extend(self.no.iter().map(|node| (node, Said::No)));
        said.sort_by_key(|(node, _)| *node);
        said.into_iter().map(|(node, said)| NodeReport { node: voters.id(node), said }).collect()
    }
}
