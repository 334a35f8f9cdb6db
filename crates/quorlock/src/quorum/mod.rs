//! The nodes of a locker as one body: rounds to them, and getting them ready.

pub(crate) mod round;
pub(crate) mod votes;

use crate::context::Surroundings;
use crate::context::event::Event;
use crate::error::{NodeReport, Said};
use crate::node::{Command, Enough, Node, NodeError, Reply};
use crate::quorum::round::{Hearing, Round, send_and_forget};
use quorlock_core::{NodeSet, Quorum};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;

/// The most attempts of one locker that are under way at the same moment; the others wait, first come,
/// first served.
///
/// The node timeout counts from the moment of sending. With more votes under way than a server answers
/// within a fraction of it, all of them would time out, be undone and be sent again.
const MAX_ATTEMPTS: usize = 256;

/// The configured nodes and what they share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Voters(Arc<Body>);

/// What all clones of [`Voters`] are.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) nodes: Arc<[Arc<dyn Node>]>,
    pub(crate) quorum: Quorum,
    pub(crate) around: Surroundings,
    /// One permit for each attempt under way. Extends and releases need none.
    pub(crate) attempts: Semaphore,
    ready: OnceCell<()>,
}

impl Deref for Voters {
    type Target = Body;

    fn deref(&self) -> &Body {
        &self.0
    }
}

impl Voters {
    pub(crate) fn new(nodes: Vec<Arc<dyn Node>>, quorum: Quorum, around: Surroundings) -> Self {
        let (nodes, attempts, ready) = (nodes.into(), Semaphore::new(MAX_ATTEMPTS), OnceCell::new());
        Self(Arc::new(Body { nodes, quorum, around, attempts, ready }))
    }

    /// Sends `command` to all nodes. The round sleeps until a majority has done it, or cannot any more.
    pub(crate) fn ask(&self, command: Command) -> Round {
        let (limit, enough) = (self.around.node_timeout, Enough::of(self.quorum));
        Round::send(&self.nodes, self.all(), command, limit, enough)
    }

    /// The same with a limit for all answers, to be pinned by the caller.
    pub(crate) fn hear_within(&self, command: Command, limit: Duration) -> Hearing {
        Hearing::begin(&self.nodes, self.all(), command, limit, Enough::of(self.quorum))
    }

    /// Sends `command` to some nodes.
    pub(crate) fn ask_some(&self, to: NodeSet, command: Command, limit: Duration) -> Round {
        Round::send(&self.nodes, to, command, limit, Enough::ONE)
    }

    fn all(&self) -> NodeSet {
        NodeSet::first(self.nodes.len())
    }

    /// Sends `command` to all nodes and waits for none.
    pub(crate) fn tell(&self, command: Command) {
        send_and_forget(&self.nodes, self.all(), command);
    }

    /// Sends `command` to one node and does not wait.
    pub(crate) fn tell_one(&self, node: usize, command: Command) {
        send_and_forget(&self.nodes, NodeSet::from_iter([node]), command);
    }

    /// The node's name.
    pub(crate) fn id(&self, node: usize) -> Arc<str> {
        self.nodes[node].id().into()
    }

    /// Waits, once, until a majority can answer or every node has been tried.
    ///
    /// Without it the first attempt of a new locker would run into its node timeout while connections are made.
    pub(crate) async fn settle(&self) {
        if self.is_settled() {
            return;
        }
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

    /// Whether [`Voters::settle`] has nothing left to wait for.
    pub(crate) fn is_settled(&self) -> bool {
        self.ready.initialized()
    }

    /// What `reply` means; a failure is told to the observers.
    pub(crate) fn hear(&self, node: usize, reply: &Reply) -> Said {
        match reply {
            Reply::Done(_) => Said::Yes,
            Reply::Denied(_) => Said::No,
            Reply::Failed(cause) => {
                self.around.emit(&Event::NodeFailed { node: self.id(node), cause: NodeError::clone(cause) });
                Said::Failed(NodeError::clone(cause))
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
