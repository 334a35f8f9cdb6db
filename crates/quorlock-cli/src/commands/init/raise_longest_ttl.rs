//! `quorlock init --raise`: all nodes record a longer ttl.

use crate::output::duration::show;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::Output;
use crate::settings::Settings;
use crate::output::table;
use serde_json::{Value, json};

/// Records the longest ttl on all nodes, and says where that failed.
pub(super) async fn raise(settings: &Settings, output: Output) -> Result<Exit, Failure> {
    let locker = settings.build(settings.read_only_builder())?;
    let longest = settings.longest_ttl.value;
    let results = locker.raise_longest_ttl(longest).await.map_err(|error| settings.unusable(error))?;
    let failed = results.iter().filter(|(_, result)| result.is_err()).count();
    let exit = if failed > 0 { Exit::NoQuorum } else { Exit::Success };
    let nodes: Vec<Value> = results
        .iter()
        .map(|(node, result)| match result {
            Ok(()) => json!({ "node": node, "result": "recorded" }),
            Err(error) => {
                json!({ "node": node, "result": "failed", "kind": error.kind(), "cause": error.to_string() })
            }
        })
        .collect();
    let object = json!({
        "longest_ttl_ms": u64::try_from(longest.as_millis()).unwrap_or(u64::MAX),
        "nodes": nodes,
        "exit_code": exit.code(),
    });
    output.print(&object, || {
        let mut table = table::with(&["NODE", "RESULT"]);
        for (node, result) in &results {
            let words = match result {
                Ok(()) => format!("recorded: clients may use a ttl of up to {}", show(longest)),
                Err(error) => format!("failed: {error}"),
            };
            table.add_row([node.clone(), words]);
        }
        let advice = match failed {
            0 => "all nodes have recorded it".to_owned(),
            _ => format!("{failed} of {} have not: use no longer ttl before all have", results.len()),
        };
        format!("{}\n\n{advice}", table::text(&table))
    })?;
    Ok(exit)
}
