//! One command to many nodes: the nodes of a locker, and rounds to them.

pub(crate) mod round;
pub(crate) mod votes;

use crate::context::Context;
use crate::context::event::Event;
use crate::error::{NodeOutcome, NodeReport};
use crate::node::{Command, Commands, Node, NodeError, Reply, WakeThreshold};
use crate::quorum::round::{Round, send_without_reply};
use quorlock_core::{NodeSet, Quorum};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OnceCell, Semaphore};
use tokio::task::JoinSet;

/// The most attempts of one locker that are under way at the same moment; the others wait, first come,
/// first served. An attempt for several names counts once for each.
///
/// The node timeout counts from the moment of sending. With more votes under way than a server answers
/// within a fraction of it, all of them would time out, be undone and be sent again.
const MAX_ATTEMPTS: usize = 256;

/// The configured nodes and what they share. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Nodes(Arc<NodesInner>);

/// What all clones of [`Nodes`] share.
#[derive(Debug)]
pub(crate) struct NodesInner {
    pub(crate) all: Arc<[Arc<dyn Node>]>,
    pub(crate) quorum: Quorum,
    pub(crate) ctx: Context,
    /// One permit for each name of the attempts under way. Extends and releases need none.
    pub(crate) attempts: Semaphore,
    connected: OnceCell<()>,
}

impl Deref for Nodes {
    type Target = NodesInner;

    fn deref(&self) -> &NodesInner {
        &self.0
    }
}

impl Nodes {
    pub(crate) fn new(nodes: Vec<Arc<dyn Node>>, quorum: Quorum, ctx: Context) -> Self {
        Self(Arc::new(NodesInner {
            all: nodes.into(),
            quorum,
            ctx,
            attempts: Semaphore::new(MAX_ATTEMPTS),
            connected: OnceCell::new(),
        }))
    }

    /// Sends `commands` to all nodes, each of which has one node timeout to answer.
    #[inline]
    pub(crate) fn ask(&self, commands: impl Into<Commands>) -> Round {
        self.ask_within(commands, self.ctx.node_timeout)
    }

    /// Sends `commands` to all nodes. The round wakes its reader once a majority has done them, or can no
    /// longer.
    #[inline]
    pub(crate) fn ask_within(&self, commands: impl Into<Commands>, limit: Duration) -> Round {
        let mut commands = commands.into();
        commands.inject(self.ctx.injected);
        Round::send(&self.all, self.set(), commands, limit, WakeThreshold::majority(self.quorum))
    }

    /// Sends `commands` to some nodes. The round wakes its reader for each reply.
    pub(crate) fn ask_some(&self, to: NodeSet, commands: impl Into<Commands>, limit: Duration) -> Round {
        let mut commands = commands.into();
        commands.inject(self.ctx.injected);
        Round::send(&self.all, to, commands, limit, WakeThreshold::ONE)
    }

    /// Sends `commands` to all nodes and waits for none.
    pub(crate) fn send(&self, commands: impl Into<Commands>) {
        for command in commands.into() {
            send_without_reply(&self.all, self.set(), command);
        }
    }

    /// Sends `command` to one node and does not wait.
    pub(crate) fn send_to(&self, node: usize, command: Command) {
        send_without_reply(&self.all, NodeSet::from_iter([node]), command);
    }

    #[inline]
    fn set(&self) -> NodeSet {
        NodeSet::first(self.all.len())
    }

    /// The text that names a node to people.
    pub(crate) fn id(&self, node: usize) -> Arc<str> {
        self.all[node].id().into()
    }

    /// Waits, once, until a majority can answer or every node has been tried.
    ///
    /// Without it the first attempt of a new locker would run into its node timeout while it connects.
    pub(crate) async fn wait_connected(&self) {
        if !self.is_connected() {
            self.connected.get_or_init(|| self.connect_majority()).await;
        }
    }

    async fn connect_majority(&self) {
        let mut tried = JoinSet::new();
        for node in self.all.iter() {
            let node = node.clone();
            tried.spawn(async move {
                node.wait_connected().await;
                node.health().trouble.is_none()
            });
        }
        // A node counts after its first attempt only: one that still connects reports no trouble yet.
        let mut ready = 0;
        while let Some(is_ready) = tried.join_next().await {
            ready += usize::from(is_ready.unwrap_or(false));
            if ready >= self.quorum.needed() {
                break;
            }
        }
    }

    /// Whether [`Nodes::wait_connected`] has nothing left to wait for.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.initialized()
    }

    /// What `reply` means for a vote. A failure goes to the observers.
    #[inline]
    pub(crate) fn outcome_of(&self, node: usize, reply: &Reply) -> NodeOutcome {
        match reply {
            Reply::Done(_) => NodeOutcome::Yes,
            Reply::Denied(_) => NodeOutcome::No,
            Reply::Failed(cause) => {
                self.ctx.emit(&Event::NodeFailed { node: self.id(node), cause: NodeError::clone(cause) });
                NodeOutcome::Failed(NodeError::clone(cause))
            }
        }
    }

    /// Why each node cannot vote, as far as is known without asking.
    pub(crate) fn troubles(&self) -> Vec<NodeReport> {
        let silent = || NodeError::Timeout { after: self.ctx.node_timeout };
        let report = |node: &Arc<dyn Node>| NodeReport {
            node: node.id().into(),
            outcome: NodeOutcome::Failed(node.health().trouble.unwrap_or_else(silent)),
        };
        self.all.iter().map(report).collect()
    }
}
