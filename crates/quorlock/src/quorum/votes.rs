//! What the nodes answered in a round: counted for the decision, kept for the report.

use crate::error::{NodeOutcome, NodeReport};
use crate::node::{NodeError, Reply};
use crate::quorum::Nodes;
use quorlock_core::{NodeSet, Quorum, Verdict};

/// The last answer of each node in a round. Only nodes that failed take heap memory.
#[derive(Debug)]
pub(crate) struct Votes<'a> {
    nodes: &'a Nodes,
    yes: NodeSet,
    no: NodeSet,
    failed: Vec<(usize, NodeError)>,
}

impl<'a> Votes<'a> {
    pub(crate) fn new(nodes: &'a Nodes) -> Self {
        Self { nodes, yes: NodeSet::default(), no: NodeSet::default(), failed: Vec::new() }
    }

    /// Records the `reply` of `node`. A failure goes to the observers.
    #[inline]
    pub(crate) fn record(&mut self, node: usize, reply: &Reply) {
        let outcome = self.nodes.outcome_of(node, reply);
        self.set(node, outcome);
    }

    /// Records what `node` answered to a release. "Gone" after a failure is a yes: our own release got
    /// through.
    #[inline]
    pub(crate) fn record_release(&mut self, node: usize, reply: &Reply) {
        let outcome = self.nodes.outcome_of(node, reply);
        let is_ours = self.has_failed(node) && matches!(outcome, NodeOutcome::No);
        self.set(node, if is_ours { NodeOutcome::Yes } else { outcome });
    }

    /// Replaces what the node answered before.
    #[inline]
    fn set(&mut self, node: usize, outcome: NodeOutcome) {
        self.yes.remove(node);
        self.no.remove(node);
        if !self.failed.is_empty() {
            self.failed.retain(|(failed, _)| *failed != node);
        }
        match outcome {
            NodeOutcome::Yes => self.yes.insert(node),
            NodeOutcome::No => self.no.insert(node),
            NodeOutcome::Failed(cause) => self.failed.push((node, cause)),
        }
    }

    /// What the votes so far decide.
    pub(crate) fn verdict(&self) -> Verdict {
        let counted = self.yes() + self.no() + self.failed.len();
        self.quorum().verdict(self.yes(), self.quorum().nodes() - counted)
    }

    /// Whether more nodes answered no than a majority can spare, so that the others cannot matter.
    pub(crate) fn is_denied(&self) -> bool {
        self.no() > self.quorum().spare()
    }

    pub(crate) fn yes(&self) -> usize {
        self.yes.len()
    }

    pub(crate) fn no(&self) -> usize {
        self.no.len()
    }

    pub(crate) fn failed(&self) -> usize {
        self.failed.len()
    }

    fn quorum(&self) -> Quorum {
        self.nodes.quorum
    }

    fn has_failed(&self, node: usize) -> bool {
        self.failed.iter().any(|(failed, _)| *failed == node)
    }

    /// The nodes that did not answer.
    pub(crate) fn unanswered(&self) -> NodeSet {
        let is_open = |node: &usize| !self.yes.contains(*node) && !self.no.contains(*node);
        (0..self.quorum().nodes()).filter(is_open).collect()
    }

    /// What each node answered, in the order of configuration. Nodes without an answer or a failure are
    /// left out.
    pub(crate) fn into_report(self) -> Vec<NodeReport> {
        let failed = self.failed.into_iter().map(|(node, cause)| (node, NodeOutcome::Failed(cause)));
        let mut outcomes: Vec<(usize, NodeOutcome)> = failed.collect();
        outcomes.extend(self.yes.iter().map(|node| (node, NodeOutcome::Yes)));
        outcomes.extend(self.no.iter().map(|node| (node, NodeOutcome::No)));
        outcomes.sort_by_key(|(node, _)| *node);
        let report = |(node, outcome)| NodeReport { node: self.nodes.id(node), outcome };
        outcomes.into_iter().map(report).collect()
    }
}
