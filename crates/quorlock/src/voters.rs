//! The nodes of a locker as one body: rounds to them, reports about them, and getting them ready.

use crate::error::{NodeReport, Said};
use crate::event::Event;
use crate::gate::Gate;
use crate::node::{Command, Node, NodeError, Reply};
use crate::round::{Round, send_and_forget};
use crate::surroundings::Surroundings;
use quorlock_core::{Quorum, Tally, Verdict};
use std::sync::Arc;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;

/// The configured nodes and what they share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Voters {
    pub(crate) nodes: Arc<[Arc<dyn Node>]>,
    pub(crate) quorum: Quorum,
    pub(crate) around: Surroundings,
    /// What every attempt passes first.
    pub(crate) gate: Gate,
    ready: Arc<OnceCell<()>>,
}

impl Voters {
    pub(crate) fn new(nodes: Vec<Arc<dyn Node>>, quorum: Quorum, around: Surroundings) -> Self {
        Self { nodes: nodes.into(), quorum, around, gate: Gate::default(), ready: Arc::default() }
    }

    /// Sends `command` to all nodes.
    pub(crate) fn ask(&self, command: &Command) -> Round {
        self.ask_some(0..self.nodes.len(), command)
    }

    /// Sends `command` to the nodes with the numbers `to`.
    pub(crate) fn ask_some(&self, to: impl IntoIterator<Item = usize>, command: &Command) -> Round {
        Round::send(&self.nodes, to, command, self.around.node_timeout)
    }

    /// Sends `command` to all nodes and waits for none.
    pub(crate) fn tell(&self, command: &Command) {
        send_and_forget(&self.nodes, 0..self.nodes.len(), command);
    }

    /// Sends `command` to one node and does not wait.
    pub(crate) fn tell_one(&self, node: usize, command: &Command) {
        send_and_forget(&self.nodes, [node], command);
    }

    /// The node's name.
    pub(crate) fn id(&self, node: usize) -> Arc<str> {
        self.nodes[node].id().into()
    }

    /// Waits, once, until a majority can answer or every node has been tried.
    ///
    /// Without it the first attempt of a new locker would run into its node timeout while connections are made.
    pub(crate) async fn settle(&self) {
        self.ready
            .get_or_init(|| async {
                let mut waits = JoinSet::new();
                for node in self.nodes.iter() {
                    let node = node.clone();
                    waits.spawn(async move {
                        node.settle().await;
                        node.health().trouble.is_none()
                    });
                }
                // Only nodes that settled count: one that still connects has no trouble to tell of yet.
                let mut well = 0;
                while let Some(is_well) = waits.join_next().await {
                    well += usize::from(is_well.unwrap_or(false));
                    if well >= self.quorum.needed() {
                        break;
                    }
                }
            })
            .await;
    }

    /// What `reply` means; a failure is told to the observers.
    pub(crate) fn hear(&self, node: usize, reply: &Reply) -> Said {
        match reply {
            Reply::Done(_) => Said::Yes,
            Reply::Denied(_) => Said::No,
            Reply::Failed(cause) => {
                self.around.emit(&Event::NodeFailed { node: self.id(node), cause: cause.clone() });
                Said::Failed(cause.clone())
            }
        }
    }

    /// Why each node cannot vote, as far as is known without asking.
    pub(crate) fn troubles(&self) -> Vec<NodeReport> {
        let silent = || NodeError::Timeout { after: self.around.node_timeout };
        let nodes = self.nodes.iter();
        nodes
            .map(|node| NodeReport {
                node: node.id().into(),
                said: Said::Failed(node.health().trouble.unwrap_or_else(silent)),
            })
            .collect()
    }
}

/// The replies of one round, counted and kept for a report.
#[derive(Debug)]
pub(crate) struct Poll<'a> {
    voters: &'a Voters,
    pub(crate) tally: Tally,
    said: Vec<(usize, Said)>,
}

impl<'a> Poll<'a> {
    pub(crate) fn new(voters: &'a Voters) -> Self {
        Self { voters, tally: Tally::new(voters.quorum), said: Vec::new() }
    }

    /// Counts `reply` of `node`.
    pub(crate) fn count(&mut self, node: usize, reply: &Reply) -> Verdict {
        let said = self.voters.hear(node, reply);
        let vote = said.vote();
        self.said.push((node, said));
        self.tally.count(vote)
    }

    /// What each node said, in the order of configuration.
    pub(crate) fn report(mut self) -> Vec<NodeReport> {
        self.said.sort_by_key(|(node, _)| *node);
        let voters = self.voters;
        self.said.into_iter().map(|(node, said)| NodeReport { node: voters.id(node), said }).collect()
    }
}
