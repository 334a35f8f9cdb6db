//! `quorlock config show`: every setting and where it came from.

use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::sanitize::sanitize_lines;
use crate::output::{Output, duration, table};
use crate::settings::{Setting, Settings};
use quorlock::RestartGuard;
use quorlock::node::NodeUrl;
use serde_json::{Map, Value, json};

/// Prints all settings.
pub(crate) fn show(settings: &Settings, output: Output) -> Result<Exit, Failure> {
    let rows = rows(settings);
    let object: Map<String, Value> = rows
        .iter()
        .map(|row| (row.name.to_owned(), json!({ "value": row.value, "source": row.source })))
        .collect();
    output.print(&Value::Object(object), || {
        let mut table = table::with(&["SETTING", "VALUE", "FROM"]);
        for row in &rows {
            table.add_row([row.name, &row.value, &row.source]);
        }
        let files: Vec<String> = settings.files.iter().map(|file| file.display().to_string()).collect();
        let read = if files.is_empty() { "none".to_owned() } else { files.join(", ") };
        format!("{}\n\nfiles read: {}", table::text(&table), sanitize_lines(&read))
    })?;
    Ok(Exit::Success)
}

struct Row {
    name: &'static str,
    value: String,
    source: String,
}

fn rows(settings: &Settings) -> Vec<Row> {
    let span = |span: &std::time::Duration| duration::show(*span);
    let maybe = |absent: &'static str| {
        move |given: &Option<std::time::Duration>| given.map_or(absent.to_owned(), duration::show)
    };
    vec![
        row("nodes", &settings.nodes, |urls| {
            urls.iter().map(|url| without_secrets(url)).collect::<Vec<_>>().join(", ")
        }),
        row("require_nodes", &settings.require_nodes, bool::to_string),
        row("ttl", &settings.ttl, span),
        row("longest_ttl", &settings.longest_ttl, span),
        row("wait", &settings.wait, span),
        row("node_timeout", &settings.node_timeout, maybe("50ms; up to 500ms for file:")),
        row("connect_timeout", &settings.connect_timeout, span),
        row("drift", &settings.drift, f64::to_string),
        row("restart_guard", &settings.restart_guard, |guard| {
            match guard {
                None => "strict with two or more nodes",
                Some(RestartGuard::Off) => "off",
                Some(_) => "strict",
            }
            .to_owned()
        }),
        row("durable", &settings.durable, bool::to_string),
        row("allow_eviction", &settings.allow_eviction, bool::to_string),
        row("kill_grace", &settings.kill_grace, maybe("a sixth of the ttl, at most 5s")),
        row("on_lost", &settings.on_lost, |on_lost| format!("{on_lost:?}").to_lowercase()),
    ]
}

fn row<T>(name: &'static str, setting: &Setting<T>, show: impl Fn(&T) -> String) -> Row {
    Row {
        name,
        value: sanitize_lines(&show(&setting.value)),
        source: sanitize_lines(&setting.source.to_string()),
    }
}

/// An address without its password.
fn without_secrets(url: &str) -> String {
    url.parse::<NodeUrl>().map_or_else(|error| format!("(cannot be used: {error})"), |url| url.to_string())
}
