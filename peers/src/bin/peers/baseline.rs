//! quorlock compared with itself at another commit, as ratios within one run.

use crate::contestants::BASELINE;
use crate::row::Row;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

/// One figure that is compared.
struct Figure {
    title: &'static str,
    of: fn(&Row) -> Option<f64>,
}

/// What is compared in every cell. For the first two more is better, for the others less.
const FIGURES: [Figure; 7] = [
    Figure { title: "cycles/s", of: |row| row.cycles_per_s },
    Figure { title: "handoffs/s", of: |row| row.handoffs_per_s },
    Figure { title: "p50", of: |row| row.acquire_p50_ms },
    Figure { title: "p99", of: |row| row.acquire_p99_ms },
    Figure { title: "client CPU", of: |row| row.client_cpu_us_per_cycle },
    Figure { title: "server CPU", of: |row| row.server_cpu_us_per_cycle },
    Figure { title: "allocs", of: |row| row.allocs_per_cycle },
];

/// Prints today's figures divided by those of the baseline, one line for each workload that both ran.
pub fn print(rows: &[Row]) {
    let compared: Vec<(&Row, &Row)> = rows
        .iter()
        .filter(|row| row.contestant == "quorlock")
        .filter_map(|row| Some((row, rows.iter().find(|other| is_baseline_of(other, row))?)))
        .collect();
    if compared.is_empty() {
        return;
    }
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(["workload"].into_iter().chain(FIGURES.map(|f| f.title)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for (row, baseline) in compared {
        let ratios = FIGURES.iter().map(|figure| ratio((figure.of)(row), (figure.of)(baseline)));
        table.add_row([row.title()].into_iter().chain(ratios));
    }
    println!("\nquorlock divided by its baseline\n{table}");
}

fn is_baseline_of(other: &Row, row: &Row) -> bool {
    other.contestant == BASELINE && other.title() == row.title()
}

fn ratio(today: Option<f64>, before: Option<f64>) -> String {
    match (today, before) {
        (Some(today), Some(before)) if before > 0.0 => format!("{:.2}", today / before),
        _ => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_one_side_lacks_has_no_ratio() {
        assert_eq!(ratio(Some(3.0), Some(2.0)), "1.50");
        assert_eq!(ratio(Some(3.0), None), "-");
        assert_eq!(ratio(Some(3.0), Some(0.0)), "-");
    }
}
