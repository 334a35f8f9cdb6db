//! A subscription to the release hints of all nodes.

use crate::acquire::name_queue::{NameQueue, NameQueues};
use crate::node::Wakeup;
use crate::quorum::Nodes;
use quorlock_core::NameSet;
use std::sync::Arc;

/// Hints about some names notify a wakeup until this is dropped.
#[derive(Debug)]
pub(crate) struct HintSubscription<'a> {
    nodes: &'a Nodes,
    /// The queue of each name, and the number of our wakeup among the listeners of its wakeup.
    queues: Vec<(Arc<NameQueue>, Option<u64>)>,
}

impl<'a> HintSubscription<'a> {
    /// Hints about the name of `queue` notify its own wakeup: for the task whose turn it is.
    pub(crate) fn of_queue(nodes: &'a Nodes, queue: &Arc<NameQueue>) -> Self {
        queue.subscribe(nodes);
        Self { nodes, queues: vec![(queue.clone(), None)] }
    }

    /// Hints about any of `names` notify `wakeup`.
    pub(crate) fn of_names(nodes: &'a Nodes, queues: &NameQueues, names: &NameSet, wakeup: &Wakeup) -> Self {
        let subscribe = |name: &quorlock_core::Name| {
            let queue = queues.of(&name.clone().into());
            let listener = queue.wakeup().add_listener(wakeup);
            queue.subscribe(nodes);
            (queue, Some(listener))
        };
        Self { nodes, queues: names.iter().map(subscribe).collect() }
    }
}

impl Drop for HintSubscription<'_> {
    fn drop(&mut self) {
        for (queue, listener) in &self.queues {
            queue.unsubscribe(self.nodes);
            if let Some(listener) = listener {
                queue.wakeup().remove_listener(*listener);
            }
        }
    }
}
