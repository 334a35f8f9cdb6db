//! A subscription to the release hints of all nodes.

use crate::acquire::name_queue::NameQueue;
use crate::quorum::Nodes;
use quorlock_core::Name;

/// Hints about one name wake its queue until this is dropped.
#[derive(Debug)]
pub(crate) struct HintSubscription<'a> {
    nodes: &'a Nodes,
    name: &'a Name,
}

impl<'a> HintSubscription<'a> {
    pub(crate) fn start(nodes: &'a Nodes, name: &'a Name, queue: &NameQueue) -> Self {
        for node in nodes.all.iter() {
            node.watch(name, queue.wakeup());
        }
        Self { nodes, name }
    }
}

impl Drop for HintSubscription<'_> {
    fn drop(&mut self) {
        for node in self.nodes.all.iter() {
            node.unwatch(self.name);
        }
    }
}
