//! The result for each node.

use super::plan::Plan;
use crate::commands::doctor::NodeState;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, table};
use quorlock::node::NodeError;
use quorlock::{NodeOutcome, NodeReport};
use serde_json::{Value, json};

/// The result of `quorlock init`.
pub(super) struct InitReport {
    /// Each node with its result.
    nodes: Vec<(String, NodeResult)>,
    warnings: Vec<String>,
    needed: usize,
}

/// The result for one node.
enum NodeResult {
    Marked,
    /// It could vote already.
    LeftVoting,
    /// It cannot vote.
    Failed {
        kind: &'static str,
        cause: String,
    },
}

impl InitReport {
    pub(super) fn new(plan: &Plan, warnings: Vec<String>, marked: Vec<NodeReport>) -> Self {
        let mut marked = marked.into_iter();
        let nodes = plan.nodes.iter().map(|node| {
            let result = if node.needs_mark() {
                marked.next().map_or(NodeResult::LeftVoting, |report| match report.outcome {
                    NodeOutcome::Failed(error) => NodeResult::failed(&error),
                    _ => NodeResult::Marked,
                })
            } else {
                NodeResult::of_state(&node.state)
            };
            (node.name.clone(), result)
        });
        Self { nodes: nodes.collect(), warnings, needed: plan.needed() }
    }

    /// Prints the result for each node, and whether a majority can vote.
    pub(super) fn print(&self, output: Output) -> Result<Exit, Failure> {
        let (voters, needed) = (self.voters(), self.needed);
        let exit = if voters < needed { Exit::NoQuorum } else { Exit::Success };
        let nodes: Vec<Value> = self.nodes.iter().map(|(node, result)| result.to_json(node)).collect();
        let object = json!({
            "nodes": nodes,
            "can_vote": voters,
            "quorum": needed,
            "warnings": self.warnings,
            "exit_code": exit.code(),
        });
        output.print(&object, || {
            let mut table = table::with(&["NODE", "RESULT"]);
            for (node, result) in &self.nodes {
                table.add_row([node.clone(), result.to_text()]);
            }
            let count = self.nodes.len();
            let no_quorum = if voters < needed { format!("; {needed} are needed") } else { String::new() };
            format!("{}\n\n{voters} of {count} can vote{no_quorum}", table::text(&table))
        })?;
        Ok(exit)
    }

    fn voters(&self) -> usize {
        self.nodes.iter().filter(|(_, result)| !matches!(result, NodeResult::Failed { .. })).count()
    }
}

impl NodeResult {
    fn failed(error: &NodeError) -> Self {
        NodeResult::Failed { kind: error.kind(), cause: error.to_string() }
    }

    fn of_state(state: &NodeState) -> Self {
        match state {
            NodeState::Refused(error) | NodeState::Silent(error) => Self::failed(error),
            NodeState::Denied => NodeResult::Failed {
                kind: "no_permission",
                cause: "our user lacks permissions; see `quorlock doctor`".to_owned(),
            },
            _ => NodeResult::LeftVoting,
        }
    }

    fn to_text(&self) -> String {
        match self {
            NodeResult::Marked => "marked as new: votes from now on".to_owned(),
            NodeResult::LeftVoting => "votes already: left as it was".to_owned(),
            NodeResult::Failed { cause, .. } => format!("failed: {cause}"),
        }
    }

    fn to_json(&self, node: &str) -> Value {
        match self {
            NodeResult::Marked => json!({ "node": node, "result": "marked" }),
            NodeResult::LeftVoting => json!({ "node": node, "result": "voting" }),
            NodeResult::Failed { kind, cause } => {
                json!({ "node": node, "result": "failed", "kind": kind, "cause": cause })
            }
        }
    }
}
