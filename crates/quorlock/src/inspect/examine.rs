//! Examining every node in detail, for people who set one up or search for a fault.

use crate::node::{Facts, NodeError, ServerFacts};
use crate::quorum::Nodes;
use serde::Serialize;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// What was found out about one node.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct NodeExamination {
    /// The node.
    pub node: String,
    /// What it is like, or why it gave no answer. A server that answers but cannot be a node is found
    /// with the reason among its facts.
    #[serde(serialize_with = "found")]
    pub found: Result<Facts, NodeError>,
}

/// Asks all nodes at the same time; the results are in the order of configuration.
pub(crate) async fn examine(nodes: &Nodes) -> Vec<NodeExamination> {
    // Connecting and asking have a limit each; a node implemented by the user has none of its own.
    let limit = 2 * nodes.ctx.connect_timeout + Duration::from_secs(1);
    let mut examinations = JoinSet::new();
    for (number, node) in nodes.all.iter().cloned().enumerate() {
        examinations.spawn(async move {
            let found = timeout(limit, node.examine()).await;
            (number, found.unwrap_or(Err(NodeError::Timeout { after: limit })))
        });
    }
    let mut found: Vec<Result<Facts, NodeError>> =
        nodes.all.iter().map(|_| Err(NodeError::Abandoned)).collect();
    while let Some(examination) = examinations.join_next().await {
        // An examination that panicked stays abandoned.
        if let Ok((number, facts)) = examination {
            found[number] = facts;
        }
    }
    let mut examined: Vec<NodeExamination> = found
        .into_iter()
        .enumerate()
        .map(|(number, found)| NodeExamination { node: nodes.all[number].id().to_owned(), found })
        .collect();
    refuse_twins(&mut examined);
    refuse_copies(&mut examined);
    examined
}

/// Refuses all servers that have the same epoch as another: one was started from a copy of the other's files.
fn refuse_copies(examined: &mut [NodeExamination]) {
    let epoch = |examination: &NodeExamination| {
        let facts = server(examination)?;
        Some((facts.run_id.clone(), facts.epoch.as_ref()?.nonce.clone()))
    };
    let epochs: Vec<Option<(String, String)>> = examined.iter().map(epoch).collect();
    let names: Vec<String> = examined.iter().map(|examination| examination.node.clone()).collect();
    for (at, epoch) in epochs.iter().enumerate() {
        // One server under two addresses is not two servers with one epoch.
        let is_copy = |other: &usize| match (epoch, &epochs[*other]) {
            (Some((run, nonce)), Some((other_run, other_nonce))) => run != other_run && nonce == other_nonce,
            _ => false,
        };
        let copy = (0..epochs.len()).find(is_copy);
        if let (Some(copy), Some(facts)) = (copy, server_mut(&mut examined[at])) {
            facts.refusal.get_or_insert(NodeError::SameEpoch { other: names[copy].as_str().into() });
        }
    }
}

/// Refuses each server that an earlier node is already.
fn refuse_twins(examined: &mut [NodeExamination]) {
    for at in 1..examined.len() {
        let (earlier, rest) = examined.split_at_mut(at);
        let Some(facts) = server_mut(&mut rest[0]) else { continue };
        let twin = earlier.iter().find(|other| {
            server(other).is_some_and(|other| !other.run_id.is_empty() && other.run_id == facts.run_id)
        });
        if let Some(twin) = twin {
            facts.refusal.get_or_insert(NodeError::SameServer { other: twin.node.as_str().into() });
        }
    }
}

fn server(examination: &NodeExamination) -> Option<&ServerFacts> {
    match &examination.found {
        Ok(Facts::Server(facts)) => Some(facts),
        _ => None,
    }
}

fn server_mut(examination: &mut NodeExamination) -> Option<&mut ServerFacts> {
    match &mut examination.found {
        Ok(Facts::Server(facts)) => Some(facts),
        _ => None,
    }
}

/// Facts as they are; an error as `{"kind": "error", "error": ...}`.
fn found<S: serde::Serializer>(found: &Result<Facts, NodeError>, out: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Trouble<'a> {
        Error { error: &'a NodeError },
    }
    match found {
        Ok(facts) => facts.serialize(out),
        Err(error) => Trouble::Error { error }.serialize(out),
    }
}
