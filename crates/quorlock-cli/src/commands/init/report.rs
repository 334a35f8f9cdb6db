//! What became of each node.

use super::Marked;
use super::plan::{Node, Plan};
use crate::commands::doctor::State;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::Output;
use crate::output::table;
use quorlock::node::NodeError;
use serde_json::{Value, json};

/// What became of all nodes.
pub(super) struct Outcome {
    /// Each node with what became of it.
    nodes: Vec<(String, Fate)>,
    dangers: Vec<String>,
    needed: usize,
}

/// What became of one node.
enum Fate {
    Marked,
    /// It could vote already.
    LeftVoting,
    /// It cannot vote.
    Failed {
        kind: &'static str,
        cause: String,
    },
}

impl Outcome {
    pub(super) fn new(plan: &Plan, dangers: Vec<String>, marked: Marked) -> Self {
        let mut marked = marked.into_iter();
        let marks = |node: &Node| matches!(node.state, State::Unmarked | State::Quarantined { .. });
        let nodes = plan.nodes.iter().map(|node| {
            let fate = if marks(node) {
                marked.next().map_or(Fate::LeftVoting, |(_, result)| match result {
                    Ok(()) => Fate::Marked,
                    Err(error) => Fate::failed(&error),
                })
            } else {
                Fate::of_state(&node.state)
            };
            (node.name.clone(), fate)
        });
        Self { nodes: nodes.collect(), dangers, needed: plan.needed() }
    }

    fn voters(&self) -> usize {
        self.nodes.iter().filter(|(_, fate)| !matches!(fate, Fate::Failed { .. })).count()
    }
}

impl Fate {
    fn failed(error: &NodeError) -> Self {
        Fate::Failed { kind: error.kind(), cause: error.to_string() }
    }

    fn of_state(state: &State) -> Self {
        match state {
            State::Refused(error) | State::Silent(error) => Self::failed(error),
            State::Denied => Fate::Failed {
                kind: "no_permission",
                cause: "our user lacks rights; see `quorlock doctor`".to_owned(),
            },
            _ => Fate::LeftVoting,
        }
    }

    fn words(&self) -> String {
        match self {
            Fate::Marked => "marked as new: votes from now on".to_owned(),
            Fate::LeftVoting => "votes already: left as it was".to_owned(),
            Fate::Failed { cause, .. } => format!("failed: {cause}"),
        }
    }

    fn to_json(&self, node: &str) -> Value {
        match self {
            Fate::Marked => json!({ "node": node, "result": "marked" }),
            Fate::LeftVoting => json!({ "node": node, "result": "voting" }),
            Fate::Failed { kind, cause } => {
                json!({ "node": node, "result": "failed", "kind": kind, "cause": cause })
            }
        }
    }
}

/// Says what became of the nodes, and whether a majority can vote.
pub(super) fn tell(outcome: &Outcome, output: Output) -> Result<Exit, Failure> {
    let (voters, needed) = (outcome.voters(), outcome.needed);
    let exit = if voters < needed { Exit::NoQuorum } else { Exit::Success };
    let nodes: Vec<Value> = outcome.nodes.iter().map(|(node, fate)| fate.to_json(node)).collect();
    let object = json!({
        "nodes": nodes,
        "can_vote": voters,
        "quorum": needed,
        "warnings": outcome.dangers,
        "exit_code": exit.code(),
    });
    output.print(&object, || {
        let mut table = table::with(&["NODE", "RESULT"]);
        for (node, fate) in &outcome.nodes {
            table.add_row([node.clone(), fate.words()]);
        }
        let count = outcome.nodes.len();
        let no_quorum = if voters < needed { format!("; {needed} are needed") } else { String::new() };
        format!("{}\n\n{voters} of {count} can vote{no_quorum}", table::text(&table))
    })?;
    Ok(exit)
}
