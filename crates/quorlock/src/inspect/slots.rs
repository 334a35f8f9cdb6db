//! Reading how many slots the nodes have recorded for a semaphore, without using it.

use crate::error::{NodeOutcome, NodeReport};
use crate::inspect::InspectError;
use crate::node::{Command, Done, NodeError, RecordSlots, RefusedSlots, Reply, SlotsView};
use crate::quorum::Nodes;
use quorlock_core::{Name, Quorum};
use std::sync::Arc;

/// How many slots the nodes have recorded for a semaphore.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SlotsInspection {
    /// The semaphore.
    pub name: Name,
    /// How many nodes decide.
    pub quorum: Quorum,
    /// The number that a majority of nodes has recorded; `None` if no number has a majority.
    pub recorded: Option<u32>,
    /// The client that was refused last because it counts another number, since this one was recorded.
    pub refused: Option<RefusedSlots>,
    /// What each node has recorded, in the order of configuration.
    pub nodes: Vec<NodeSlots>,
}

/// How many slots one node has recorded.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeSlots {
    /// The node.
    pub node: Arc<str>,
    /// The number, if there is one, or why the node gave no answer.
    pub recorded: Result<Option<u32>, NodeError>,
}

impl SlotsInspection {
    /// Whether nodes have recorded different numbers.
    pub fn differs(&self) -> bool {
        let mut numbers = self.nodes.iter().filter_map(|node| node.recorded.as_ref().ok().copied().flatten());
        let first = numbers.next();
        numbers.any(|number| Some(number) != first)
    }
}

/// Asks the nodes what they have recorded for the semaphore `name`.
///
/// # Cancel safety
/// Cancel safe: nothing is changed anywhere.
pub(crate) async fn inspect_slots(nodes: &Nodes, name: &Name) -> Result<SlotsInspection, InspectError> {
    let command = Command::Slots { name: name.clone(), count: 0, record: RecordSlots::Nothing };
    let mut round = Box::pin(nodes.ask(command));
    let mut views: Vec<(usize, Result<SlotsView, NodeError>)> = Vec::new();
    while let Some((node, reply)) = round.as_mut().next().await {
        views.push((node, slots_view(reply)));
    }
    views.sort_by_key(|(node, _)| *node);
    let known = || views.iter().filter_map(|(_, view)| view.as_ref().ok());
    if known().count() < nodes.quorum.needed() {
        let outcome = |view: Result<_, _>| view.map_or_else(NodeOutcome::Failed, |_| NodeOutcome::Yes);
        let report = |(node, view)| NodeReport { node: nodes.id(node), outcome: outcome(view) };
        let reports = views.into_iter().map(report).collect();
        return Err(InspectError { lock: name.clone(), quorum: nodes.quorum, nodes: reports });
    }
    let has_majority =
        |number: &u32| known().filter(|view| view.recorded == Some(*number)).count() >= nodes.quorum.needed();
    Ok(SlotsInspection {
        name: name.clone(),
        quorum: nodes.quorum,
        recorded: known().filter_map(|view| view.recorded).find(has_majority),
        refused: known().filter_map(|view| view.refused).min_by_key(|refused| refused.ago),
        nodes: views
            .into_iter()
            .map(|(node, view)| NodeSlots { node: nodes.id(node), recorded: view.map(|view| view.recorded) })
            .collect(),
    })
}

/// What a node knows of a semaphore, by its reply.
pub(crate) fn slots_view(reply: Reply) -> Result<SlotsView, NodeError> {
    match reply {
        Reply::Done(Done::Slots(view)) => Ok(*view),
        Reply::Failed(cause) => Err(*cause),
        Reply::Done(_) | Reply::Denied(_) => Err(NodeError::Protocol { reason: "no slots".into() }),
    }
}
