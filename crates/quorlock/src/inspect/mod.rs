//! Reading what the nodes store for a lock, without taking it.

pub(crate) mod examine;
pub(crate) mod list;
pub(crate) mod slots;

use crate::context::event::Event;
use crate::error::{Holder, NodeOutcome, NodeReport, listed};
use crate::node::{Command, Content, Done, NodeError, Reply, View};
use crate::quorum::Nodes;
use crate::quorum::round::Round;
use quorlock_core::{Fence, Name, NameSet, Quorum, StoredLock};
use std::sync::Arc;
use std::time::Duration;

/// What the nodes store for a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The lock.
    pub name: Name,
    /// How many nodes decide.
    pub quorum: Quorum,
    /// Who has it on a majority of nodes; [`Holder::Nobody`] if no client has.
    pub holder: Holder,
    /// How long the holder has a majority, unless it extends; `None` if it is free or never expires.
    pub left: Option<Duration>,
    /// How many nodes the holder has it on.
    pub votes: usize,
    /// The highest fence counter of any node: no fence above it was handed out.
    pub fence: Option<Fence>,
    /// What each node stores, in the order of configuration.
    pub nodes: Vec<NodeView>,
}

impl Inspection {
    /// Whether a client has the lock on a majority of nodes, alone or shared.
    pub fn is_held(&self) -> bool {
        self.holder != Holder::Nobody
    }
}

/// What one node stores for a lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeView {
    /// The node.
    pub node: Arc<str>,
    /// What it stores, or why it gave no answer.
    pub view: Result<View, NodeError>,
}

/// Too few nodes answered to say who holds a lock.
#[derive(Clone, Debug, thiserror::Error)]
#[error("lock `{lock}` cannot be inspected: {quorum} nodes are needed, but {}", listed(.nodes))]
#[non_exhaustive]
pub struct InspectError {
    /// The lock.
    pub lock: Name,
    /// How many nodes must answer.
    pub quorum: Quorum,
    /// What each node answered.
    pub nodes: Vec<NodeReport>,
}

/// How many answers an inspection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// As many as decide.
    Majority,
    /// All that come in time.
    All,
}

/// Asks the nodes what they store for `name`.
///
/// # Cancel safety
/// Cancel safe: nothing is changed anywhere.
pub(crate) async fn inspect(
    nodes: &Nodes,
    name: &Name,
    answers: Answers,
) -> Result<Inspection, InspectError> {
    let round = nodes.ask(Command::Inspect { name: name.clone() });
    collect(nodes, name, round, answers).await
}

/// Asks the nodes what they store for each of `names`, at the same moment.
///
/// # Cancel safety
/// Cancel safe: nothing is changed anywhere.
pub(crate) async fn inspect_all(
    nodes: &Nodes,
    names: &NameSet,
    answers: Answers,
) -> Result<Vec<Inspection>, InspectError> {
    let ask = |name: &Name| (name.clone(), nodes.ask(Command::Inspect { name: name.clone() }));
    let rounds: Vec<(Name, Round)> = names.iter().map(ask).collect();
    let mut found = Vec::with_capacity(rounds.len());
    for (name, round) in rounds {
        found.push(collect(nodes, &name, round, answers).await?);
    }
    Ok(found)
}

/// Waits for the answers to `round`.
async fn collect(
    nodes: &Nodes,
    name: &Name,
    round: Round,
    answers: Answers,
) -> Result<Inspection, InspectError> {
    let mut round = Box::pin(round);
    let mut views: Vec<(usize, Result<View, NodeError>)> = Vec::new();
    while let Some((node, reply)) = round.as_mut().next().await {
        views.push((node, view_of(nodes, node, reply)));
        if answers == Answers::Majority && is_decided(nodes.quorum, &views) {
            break;
        }
    }
    views.sort_by_key(|(node, _)| *node);
    let answered = views.iter().filter(|(_, view)| view.is_ok()).count();
    if answered < nodes.quorum.needed() {
        let reports = views.into_iter().map(|(node, view)| report(nodes, node, view)).collect();
        return Err(InspectError { lock: name.clone(), quorum: nodes.quorum, nodes: reports });
    }
    Ok(summary(nodes, name, views))
}

fn view_of(nodes: &Nodes, node: usize, reply: Reply) -> Result<View, NodeError> {
    let cause = match reply {
        Reply::Done(Done::Seen(view)) => return Ok(*view),
        Reply::Failed(cause) => *cause,
        Reply::Done(_) | Reply::Denied(_) => NodeError::Protocol { reason: "not an inspection".into() },
    };
    nodes.ctx.emit(&Event::NodeFailed { node: nodes.id(node), cause: cause.clone() });
    Err(cause)
}

fn report(nodes: &Nodes, node: usize, view: Result<View, NodeError>) -> NodeReport {
    NodeReport { node: nodes.id(node), outcome: view.map_or_else(NodeOutcome::Failed, |_| NodeOutcome::Yes) }
}

/// Whether the views so far decide: one holder has a majority, or none can have one.
fn is_decided(quorum: Quorum, views: &[(usize, Result<View, NodeError>)]) -> bool {
    let answered = views.iter().filter(|(_, view)| view.is_ok()).count();
    let most = leader(views).map_or(0, |(_, votes)| votes);
    let unanswered = quorum.nodes() - views.len();
    most >= quorum.needed() || (answered >= quorum.needed() && most + unanswered < quorum.needed())
}

/// The content that most nodes store, and how many.
fn leader(views: &[(usize, Result<View, NodeError>)]) -> Option<(&Content, usize)> {
    let contents = || views.iter().filter_map(|(_, view)| view.as_ref().ok()).map(|view| &view.content);
    contents()
        .filter(|content| **content != Content::Free)
        .map(|content| (content, contents().filter(|other| same_holder(content, other)).count()))
        .max_by_key(|(_, votes)| *votes)
}

/// Two nodes may have been stamped with different fences of the same attempt.
fn same_holder(one: &Content, other: &Content) -> bool {
    match (one, other) {
        (Content::Lock(one), Content::Lock(other)) => one.token == other.token,
        (Content::Shared(_), Content::Shared(_)) => true,
        _ => one == other,
    }
}

fn summary(nodes: &Nodes, name: &Name, views: Vec<(usize, Result<View, NodeError>)>) -> Inspection {
    let winner = leader(&views).filter(|(_, votes)| *votes >= nodes.quorum.needed());
    let (content, votes) = winner.map_or((Content::Free, 0), |(content, votes)| (content.clone(), votes));
    let holding = || {
        let views = views.iter().filter_map(|(_, view)| view.as_ref().ok());
        views.filter(|view| same_holder(&content, &view.content))
    };
    let fence = views.iter().filter_map(|(_, view)| view.as_ref().ok()?.counter).max();
    let stamped = holding().filter_map(|view| match &view.content {
        Content::Lock(stored) => Some(stored.fence),
        _ => None,
    });
    let holder = match &content {
        Content::Shared(_) => {
            Holder::Shared { readers: readers(holding().map(|view| &view.content), nodes.quorum) }
        }
        _ => holder_of(content.clone(), granted_fence(&stamped.collect::<Vec<_>>(), nodes.quorum)),
    };
    // The holder has a majority for as long as its lock lasts on a quorum of nodes.
    let mut lefts: Vec<Option<Duration>> = holding().map(|view| view.left).collect();
    lefts.sort_by_key(|left| std::cmp::Reverse(left.unwrap_or(Duration::MAX)));
    let left = if votes > 0 { lefts.get(nodes.quorum.needed() - 1).copied().flatten() } else { None };
    Inspection {
        name: name.clone(),
        quorum: nodes.quorum,
        holder,
        left,
        votes,
        fence,
        nodes: views.into_iter().map(|(node, view)| NodeView { node: nodes.id(node), view }).collect(),
    }
}

/// The fence that was granted, among those that nodes store: the one of a majority. A node that was
/// stamped after the grant may store a higher one. Without a majority, the highest.
fn granted_fence(stored: &[Fence], quorum: Quorum) -> Option<Fence> {
    let alike = |fence: &&Fence| stored.iter().filter(|other| other == fence).count();
    stored.iter().find(|fence| alike(fence) >= quorum.needed()).or(stored.iter().max()).copied()
}

/// The shared holders that a majority of nodes has, as the first of these nodes has them. Each has the fence
/// that was granted to it.
fn readers<'a>(contents: impl Iterator<Item = &'a Content>, quorum: Quorum) -> Vec<StoredLock> {
    let mut seen: Vec<(StoredLock, Vec<Fence>)> = Vec::new();
    for content in contents {
        let Content::Shared(readers) = content else { continue };
        for reader in readers {
            match seen.iter_mut().find(|(known, _)| known.token == reader.token) {
                Some((_, fences)) => fences.push(reader.fence),
                None => seen.push((reader.clone(), vec![reader.fence])),
            }
        }
    }
    let held = seen.into_iter().filter(|(_, fences)| fences.len() >= quorum.needed());
    let granted = |(reader, fences): (StoredLock, Vec<Fence>)| StoredLock {
        fence: granted_fence(&fences, quorum).unwrap_or(reader.fence),
        ..reader
    };
    held.map(granted).collect()
}

fn holder_of(content: Content, stamped: Option<Fence>) -> Holder {
    match content {
        Content::Lock(stored) => {
            Holder::Owner { token: stored.token, fence: stamped.unwrap_or(stored.fence), owner: stored.owner }
        }
        Content::Shared(readers) => Holder::Shared { readers },
        Content::Foreign(value) => Holder::Foreign(value),
        Content::Free => Holder::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fence_of_a_majority_is_shown_even_if_one_node_was_raised_further() {
        let quorum = Quorum::of(3).unwrap();
        let granted = |stored: &[u64]| {
            let stored: Vec<Fence> = stored.iter().map(|number| Fence::new(*number)).collect();
            granted_fence(&stored, quorum).map(Fence::get)
        };
        assert_eq!(granted(&[11, 10, 10]), Some(10));
        assert_eq!(granted(&[10, 11]), Some(11));
        assert_eq!(granted(&[]), None);
    }
}
