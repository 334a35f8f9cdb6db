//! Pages for readers, made of a template and the figures of one run.

mod contestants;
mod growth;
mod performance;

use crate::engines::{Clients, Engines};
use crate::figures::Figures;
use crate::row::{Report, Row};
use anyhow::{Context, Result, bail};

/// Everything that the pages show.
pub struct Sources<'a> {
    pub report: &'a Report,
    pub engines: Engines,
    pub clients: Clients,
}

/// PERFORMANCE.md.
pub fn performance(sources: Sources<'_>) -> Result<String> {
    let figures = Figures { rows: &sources.report.rows, clients: sources.clients };
    fill(include_str!("../../../../page/performance.md"), |place| {
        performance::section(place, sources.report, &figures, &sources.engines)
    })
}

/// docs/performance-growth.md.
pub fn growth(report: &Report) -> Result<String> {
    fill(include_str!("../../../../page/growth.md"), |place| growth::section(place, report))
}

/// Replaces every `{{place}}` of a template. A place without text leaves no empty line.
fn fill(template: &str, section: impl Fn(&str) -> Option<String>) -> Result<String> {
    let mut page = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (place, after) = after.split_once("}}").context("a place without an end")?;
        let Some(text) = section(place) else { bail!("the template has an unknown place {place}") };
        page += before;
        page += text.trim_end();
        rest = after;
    }
    page += rest;
    while page.contains("\n\n\n") {
        page = page.replace("\n\n\n", "\n\n");
    }
    Ok(page.trim_end().to_owned() + "\n")
}

/// How and where the figures of the rows that are `here` were measured; how long each run was.
fn machine(report: &Report, here: impl Fn(&&Row) -> bool, seconds: &str) -> String {
    let runs = report.rows.iter().filter(here).map(|row| row.runs).min().unwrap_or(0);
    let policy = if report.realtime { ", real-time policy `SCHED_RR`" } else { "" };
    format!(
        "One run of `peers/run {}` on {}: {}, loopback, {} cores that clients and servers share{policy}.\n\
         Every figure is the median of {runs} interleaved runs of {seconds}.",
        report.command, report.date, report.server, report.cores
    )
}

/// A Markdown table.
fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    let rows: String = rows.into_iter().map(|cells| line(&cells)).collect();
    format!("{}|{}\n{rows}", line(&head), "---|".repeat(head.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_and_unknown_ones_refused() {
        let text =
            |place: &str| (place != "nothing").then(|| if place == "a" { "A".into() } else { String::new() });
        assert_eq!(fill("x\n\n{{a}}\n\n{{empty}}\n\ny\n", text).unwrap(), "x\n\nA\n\ny\n");
        assert!(fill("{{nothing}}", text).is_err());
    }

    #[test]
    fn a_table_has_a_line_under_its_head() {
        assert_eq!(table(&["a", "b"], [vec!["1".into(), "2".into()]]), "| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
