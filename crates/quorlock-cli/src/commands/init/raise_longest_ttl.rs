//! `quorlock init --raise`: all nodes record a longer ttl.

use crate::output::duration::show;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{Output, json, table};
use crate::settings::Settings;
use quorlock::node::NodeError;
use quorlock::{NodeOutcome, NodeReport};
use serde_json::{Value, json};

/// Records the longest ttl on all nodes, and prints where that failed.
pub(super) async fn raise(settings: &Settings, output: Output) -> Result<Exit, Failure> {
    let locker = settings.build(settings.read_only_builder())?;
    let longest = settings.longest_ttl.value;
    let raised = locker.raise_longest_ttl(longest).await;
    let reports = raised.map_err(|error| settings.config_failure(error))?;
    let failed = reports.iter().filter(|report| failure(report).is_some()).count();
    let exit = if failed > 0 { Exit::NoQuorum } else { Exit::Success };
    let nodes: Vec<Value> = reports.iter().map(to_json).collect();
    let object = json!({
        "longest_ttl_ms": json::millis(longest),
        "nodes": nodes,
        "exit_code": exit.code(),
    });
    output.print(&object, || {
        let mut table = table::with(&["NODE", "RESULT"]);
        for report in &reports {
            let result = match failure(report) {
                None => format!("recorded: clients may use a ttl of up to {}", show(longest)),
                Some(error) => format!("failed: {error}"),
            };
            table.add_row([report.node.to_string(), result]);
        }
        let advice = match failed {
            0 => "all nodes have recorded it".to_owned(),
            _ => format!("{failed} of {} have not: use no longer ttl before all have", reports.len()),
        };
        format!("{}\n\n{advice}", table::text(&table))
    })?;
    Ok(exit)
}

fn to_json(report: &NodeReport) -> Value {
    let node = &*report.node;
    match failure(report) {
        None => json!({ "node": node, "result": "recorded" }),
        Some(error) => {
            json!({ "node": node, "result": "failed", "kind": error.kind(), "cause": error.to_string() })
        }
    }
}

fn failure(report: &NodeReport) -> Option<&NodeError> {
    match &report.outcome {
        NodeOutcome::Failed(error) => Some(error),
        _ => None,
    }
}
