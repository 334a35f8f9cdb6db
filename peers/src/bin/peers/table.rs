//! The report as text: one table per workload, nodes and clients.

use crate::row::{Report, Row};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

const COLUMNS: [&str; 15] = [
    "contestant",
    "version",
    "cycles/s",
    "min-max",
    "handoffs/s",
    "p50 ms",
    "p99 ms",
    "client us",
    "server us",
    "cores",
    "max/min",
    "of processes",
    "failed",
    "MB",
    "allocs",
];

pub fn print(report: &Report) {
    println!("{}", report.machine());
    for rows in report.rows.chunk_by(|a, b| a.title() == b.title()) {
        println!("\n{}{}", rows[0].title(), note(rows));
        let mut table = Table::new();
        table.load_style(UTF8_BORDERS_ONLY).set_header(COLUMNS);
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for row in rows {
            table.add_row(cells(row));
        }
        println!("{table}");
    }
    for skipped in &report.skipped {
        println!("{skipped}");
    }
}

fn note(rows: &[Row]) -> String {
    let runs = rows.iter().map(|row| row.runs).min().unwrap_or(0);
    if runs == 1 { " (one run: no result)".to_owned() } else { format!(" (median of {runs})") }
}

fn cells(row: &Row) -> Vec<String> {
    let held = row.workload.ends_with("-held");
    let speed =
        if held { format!("{} of a core", percent(row.client_cores)) } else { number(row.cycles_per_s) };
    let range = format!("{}-{}", number(row.cycles_per_s_min), number(row.cycles_per_s_max));
    vec![
        row.contestant.clone(),
        row.version.clone(),
        speed,
        if held { String::new() } else { range },
        number(row.handoffs_per_s),
        number(row.acquire_p50_ms),
        number(row.acquire_p99_ms),
        number(row.client_cpu_us_per_cycle),
        number(row.server_cpu_us_per_cycle),
        format!("{} + {}", number(row.client_cores), number(row.server_cores)),
        number(row.fairness),
        number(row.process_fairness),
        number(row.failed),
        number(row.rss_mb),
        number(row.allocs_per_cycle),
    ]
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0))
}

/// Three digits that matter.
pub fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(value) if value.abs() >= 10_000.0 => format!("{:.1}k", value / 1000.0),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) if value.abs() >= 0.1 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_show_what_matters() {
        let table =
            [(45_678.0, "45.7k"), (456.7, "457"), (45.67, "45.7"), (4.567, "4.57"), (0.0567, "0.057")];
        for (value, text) in table {
            assert_eq!(number(Some(value)), text);
        }
        assert_eq!(number(None), "-");
    }
}
