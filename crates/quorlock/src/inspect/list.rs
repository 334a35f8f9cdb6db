//! Which locks are held, asked of all nodes.

use crate::context::event::Event;
use crate::error::{NodeOutcome, NodeReport, listed};
use crate::inspect::{Hear, InspectError, Inspection, inspect};
use crate::node::{Names, NodeError};
use crate::quorum::Nodes;
use quorlock_core::{Name, Quorum};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How many names are inspected at the same time.
const AT_ONCE: usize = 64;
/// How long a node may take to tell its names.
const LONGEST_TELLING: Duration = Duration::from_secs(10);

/// The locks that are held.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listing {
    /// Each lock that somebody has on a majority of nodes, in the order of their names.
    pub held: Vec<Inspection>,
    /// Whether these are all. Not if the nodes hold over [`Names::MOST`] names, too few could tell all of theirs, or a
    /// name could not be looked at.
    pub complete: bool,
}

/// Why the held locks cannot be listed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// Too few nodes told which names they know.
    #[error("locks cannot be listed: {quorum} nodes are needed, but {}", listed(.nodes))]
    NoQuorum {
        /// How many nodes must tell.
        quorum: Quorum,
        /// What each node said.
        nodes: Vec<NodeReport>,
    },
    /// Too few nodes answered when names were looked at.
    #[error(transparent)]
    Inspect(#[from] InspectError),
}

/// Asks the nodes for their names and inspects each.
///
/// A lock that is held has a majority of nodes, and each of them knows its name: so the names that any majority knows
/// are enough.
pub(crate) async fn list(nodes: &Nodes) -> Result<Listing, ListError> {
    let names = names(nodes).await?;
    let mut waiting = names.known.into_iter();
    let mut looks = JoinSet::new();
    let (mut held, mut unseen) = (Vec::new(), None);
    loop {
        for name in waiting.by_ref().take(AT_ONCE - looks.len()) {
            let nodes = nodes.clone();
            looks.spawn(async move { inspect(&nodes, &name, Hear::All).await });
        }
        match looks.join_next().await {
            Some(Ok(Ok(seen))) => held.extend(Some(seen).filter(Inspection::is_held)),
            // One name that could not be looked at hides no others.
            Some(Ok(Err(error))) => unseen = Some(error),
            // Only a runtime that shuts down ends a look early.
            Some(Err(_)) => {}
            None => break,
        }
    }
    match unseen {
        Some(error) if held.is_empty() => return Err(error.into()),
        _ => held.sort_by(|one, other| one.name.cmp(&other.name)),
    }
    Ok(Listing { held, complete: names.complete && unseen.is_none() })
}

/// The names that a majority of nodes knows between them.
async fn names(nodes: &Nodes) -> Result<Names, ListError> {
    let mut tellings = JoinSet::new();
    for (number, node) in nodes.all.iter().cloned().enumerate() {
        tellings.spawn(async move {
            let told = timeout(LONGEST_TELLING, node.names()).await;
            (number, told.unwrap_or(Err(NodeError::Timeout { after: LONGEST_TELLING })))
        });
    }
    let needed = nodes.quorum.needed();
    let (mut known, mut outcome, mut complete) = (BTreeSet::<Name>::new(), Vec::new(), 0);
    while complete < needed
        && let Some(telling) = tellings.join_next().await
    {
        let Ok((number, told)) = telling else { continue };
        match told {
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
