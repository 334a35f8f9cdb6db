//! The text that Prometheus scrapes, read strictly.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

/// Every sample by its series, `name{label="value"}`, labels in order of their names.
///
/// # Panics
/// If a line is malformed, a series comes twice, or a sample has no type that was declared before
/// it.
pub fn parse(text: &str) -> BTreeMap<String, f64> {
    let (mut samples, mut types) = (BTreeMap::new(), BTreeSet::new());
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or_else(|| panic!("no type: {line}"));
            assert!(["counter", "gauge", "histogram", "summary"].contains(&kind), "{line}");
            assert!(types.insert(name.to_owned()), "declared twice: {line}");
        } else if line.starts_with('#') {
            assert!(line.starts_with("# HELP "), "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
            let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            let series = checked(series, &types);
            assert!(samples.insert(series, value).is_none(), "twice: {line}");
        }
    }
    samples
}

fn checked(series: &str, types: &BTreeSet<String>) -> String {
    let (name, labels) = series.split_once('{').map_or((series, ""), |(name, rest)| {
        (name, rest.strip_suffix('}').unwrap_or_else(|| panic!("open labels: {series}")))
    });
    assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'), "bad name: {series}");
    let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
    let is_typed = types.contains(name) || family.is_some_and(|family| types.contains(family));
    assert!(is_typed, "no type: {series}");
    let mut labels: Vec<&str> =
        labels.split_inclusive("\",").map(|label| label.trim_end_matches(',')).collect();
    labels.sort_unstable();
    for label in labels.iter().filter(|label| !label.is_empty()) {
        let (key, value) = label.split_once("=\"").unwrap_or_else(|| panic!("bad label: {series}"));
        assert!(!key.is_empty() && value.ends_with('"'), "bad label: {series}");
    }
    if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) }
}

/// What `promtool check metrics` says of `text`, with its words if it objects; `None` if it is not
/// installed.
///
/// # Panics
/// If it is there but cannot be spoken to.
pub fn promtool_agrees(text: &str) -> Option<Result<(), String>> {
    let started = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = started else {
        eprintln!("promtool is not installed: only our own parser has checked the text");
        return None;
    };
    promtool.stdin.take().expect("piped").write_all(text.as_bytes()).expect("promtool reads");
    let output = promtool.wait_with_output().expect("promtool ends");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(words) })
}
