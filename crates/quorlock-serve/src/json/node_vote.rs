//! How one node voted, for problems that name the nodes.

use quorlock::node::NodeHealth;
use quorlock::{NodeOutcome, NodeReport};
use serde::Serialize;
use utoipa::ToSchema;

/// How one node voted in a round that failed.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = NodeSaid)]
pub(crate) struct NodeVoteJson {
    node: String,
    /// `yes`, `no` or `failed`.
    said: &'static str,
    cause: Option<String>,
}

impl From<&NodeReport> for NodeVoteJson {
    fn from(report: &NodeReport) -> Self {
        let (said, cause) = match &report.outcome {
            NodeOutcome::Yes => ("yes", None),
            NodeOutcome::No => ("no", None),
            NodeOutcome::Failed(cause) => ("failed", Some(cause.to_string())),
            _ => ("unknown", None),
        };
        Self { node: report.node.to_string(), said, cause }
    }
}

impl From<&NodeHealth> for NodeVoteJson {
    /// Whether the node can vote now.
    fn from(node: &NodeHealth) -> Self {
        let cause = node.health.trouble.as_ref().map(ToString::to_string);
        let said = if cause.is_some() { "failed" } else { "yes" };
        Self { node: node.node.to_string(), said, cause }
    }
}
