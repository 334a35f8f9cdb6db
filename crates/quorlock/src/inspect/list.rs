//! Listing the locks that are held, by asking all nodes.

use crate::context::event::Event;
use crate::error::{NodeOutcome, NodeReport, listed};
use crate::inspect::slots::{SlotsInspection, inspect_slots};
use crate::inspect::{Answers, InspectError, Inspection, inspect};
use crate::node::{Names, NodeError};
use crate::quorum::Nodes;
use quorlock_core::{Name, Quorum};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How many names are inspected at the same time.
const AT_ONCE: usize = 64;
/// How long a node may take to return its names.
const NAMES_TIMEOUT: Duration = Duration::from_secs(10);

/// The locks that are held.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listing {
    /// Each lock that a client has on a majority of nodes, in the order of their names.
    pub held: Vec<Inspection>,
    /// Whether these are all. Not if the nodes hold over [`Names::MOST`] names, too few returned all of
    /// theirs, or a name could not be inspected.
    pub complete: bool,
}

/// Why the held locks cannot be listed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// Too few nodes returned the names that they know.
    #[error("locks cannot be listed: {quorum} nodes are needed, but {}", listed(.nodes))]
    NoQuorum {
        /// How many nodes must answer.
        quorum: Quorum,
        /// What each node answered.
        nodes: Vec<NodeReport>,
    },
    /// Too few nodes answered when names were inspected.
    #[error(transparent)]
    Inspect(#[from] InspectError),
}

/// Asks the nodes for their names and inspects each.
///
/// A lock that is held has a majority of nodes, and each of them knows its name: so the names that any
/// majority knows are enough.
pub(crate) async fn list(nodes: &Nodes) -> Result<Listing, ListError> {
    let names = names(nodes).await?;
    let mut waiting = names.known.into_iter();
    let mut inspections = JoinSet::new();
    let (mut held, mut failed) = (Vec::new(), None);
    loop {
        for name in waiting.by_ref().take(AT_ONCE - inspections.len()) {
            let nodes = nodes.clone();
            inspections.spawn(async move { inspect(&nodes, &name, Answers::All).await });
        }
        match inspections.join_next().await {
            Some(Ok(Ok(found))) => held.extend(Some(found).filter(Inspection::is_held)),
            // One name that could not be inspected hides no others.
            Some(Ok(Err(error))) => failed = Some(error),
            // Only a runtime that shuts down ends an inspection early.
            Some(Err(_)) => {}
            None => break,
        }
    }
    match failed {
        Some(error) if held.is_empty() => return Err(error.into()),
        _ => held.sort_by(|one, other| one.name.cmp(&other.name)),
    }
    Ok(Listing { held, complete: names.complete && failed.is_none() })
}

/// Asks the nodes for their names, and what they have recorded for each semaphore of which a slot is taken.
pub(crate) async fn semaphores(nodes: &Nodes) -> Result<Vec<SlotsInspection>, ListError> {
    let names = names(nodes).await?;
    // A name that is stored is one that a client chose.
    let of_slot = |name: &Name| Name::new(name.as_slot()?.0).ok();
    let semaphores: BTreeSet<Name> = names.known.iter().filter_map(of_slot).collect();
    let (mut waiting, mut inspections, mut found) = (semaphores.into_iter(), JoinSet::new(), Vec::new());
    loop {
        for name in waiting.by_ref().take(AT_ONCE - inspections.len()) {
            let nodes = nodes.clone();
            inspections.spawn(async move { inspect_slots(&nodes, &name).await });
        }
        match inspections.join_next().await {
            // One semaphore that could not be inspected hides no others.
            Some(Ok(inspection)) => found.extend(inspection),
            // Only a runtime that shuts down ends an inspection early.
            Some(Err(_)) => {}
            None => break,
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// The names that a majority of nodes knows between them.
async fn names(nodes: &Nodes) -> Result<Names, ListError> {
    let mut calls = JoinSet::new();
    for (number, node) in nodes.all.iter().cloned().enumerate() {
        calls.spawn(async move {
            let names = timeout(NAMES_TIMEOUT, node.names()).await;
            (number, names.unwrap_or(Err(NodeError::Timeout { after: NAMES_TIMEOUT })))
        });
    }
    let needed = nodes.quorum.needed();
    let (mut known, mut outcome, mut complete) = (BTreeSet::<Name>::new(), Vec::new(), 0);
    while complete < needed
        && let Some(call) = calls.join_next().await
    {
        let Ok((number, names)) = call else { continue };
        match names {
            Ok(names) => {
                complete += usize::from(names.complete);
                known.extend(names.known);
                outcome.push((number, NodeOutcome::Yes));
            }
            Err(cause) => {
                let node = nodes.id(number);
                nodes.ctx.emit(&Event::NodeFailed { node, cause: cause.clone() });
                outcome.push((number, NodeOutcome::Failed(cause)));
            }
        }
    }
    if outcome.iter().filter(|(_, outcome)| matches!(outcome, NodeOutcome::Yes)).count() < needed {
        outcome.sort_by_key(|(number, _)| *number);
        let report = |(number, outcome)| NodeReport { node: nodes.id(number), outcome };
        return Err(ListError::NoQuorum {
            quorum: nodes.quorum,
            nodes: outcome.into_iter().map(report).collect(),
        });
    }
    let names = Names::new(known);
    Ok(if complete < needed { names.incomplete() } else { names })
}
