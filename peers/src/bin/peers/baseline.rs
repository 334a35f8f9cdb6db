//! quorlock compared with itself at another commit: the ratio of each repetition, and the median of these ratios.
//!
//! Both run one after the other in every repetition.
//! Other programs on the machine disturb such a pair alike, so their ratio varies less than either figure.

use crate::row::median;
use crate::trial::Trial;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};

/// One workload that quorlock and its baseline ran equally often.
#[derive(Debug)]
pub struct Comparison {
    pub workload: String,
    /// quorlock and its baseline, in the order of the repetitions.
    pub pairs: Vec<(Trial, Trial)>,
}

/// One figure that is compared.
struct Figure {
    title: &'static str,
    of: fn(&Trial) -> f64,
}

/// What is compared in every cell. For the first two more is better, for the others less.
const FIGURES: [Figure; 7] = [
    Figure { title: "cycles/s", of: |trial| trial.cycles_per_s },
    Figure { title: "handoffs/s", of: |trial| trial.handoffs_per_s },
    Figure { title: "p50", of: |trial| trial.acquire_p50_ms },
    Figure { title: "p99", of: |trial| trial.acquire_p99_ms },
    Figure { title: "client CPU", of: |trial| trial.client_cpu_us_per_cycle },
    Figure { title: "server CPU", of: |trial| trial.server_cpu_us_per_cycle },
    Figure { title: "allocs", of: |trial| trial.allocs_per_cycle },
];

/// Prints today's figures divided by those of the baseline, one line for each workload.
pub fn print(comparisons: &[Comparison]) {
    if comparisons.is_empty() {
        return;
    }
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(["workload"].into_iter().chain(FIGURES.map(|f| f.title)));
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for comparison in comparisons {
        let cells = FIGURES.iter().map(|figure| cell(&comparison.pairs, figure));
        table.add_row([comparison.workload.clone()].into_iter().chain(cells));
    }
    println!(
        "\nquorlock divided by its baseline: median of the ratios of all repetitions (lower-upper quartile)\n{table}"
    );
}

fn cell(pairs: &[(Trial, Trial)], figure: &Figure) -> String {
    let ratios = pairs.iter().map(|(today, before)| (figure.of)(today) / (figure.of)(before));
    summary(ratios.collect())
}

/// The median and the quartiles. A figure that one side lacks has no ratio.
fn summary(mut ratios: Vec<f64>) -> String {
    if ratios.is_empty() || !ratios.iter().all(|ratio| ratio.is_finite()) {
        return "-".to_owned();
    }
    ratios.sort_by(f64::total_cmp);
    let (lower, upper) = (ratios[ratios.len() / 4], ratios[ratios.len() - 1 - ratios.len() / 4]);
    format!("{:.2} ({lower:.2}-{upper:.2})", median(ratios))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_that_one_side_lacks_has_no_ratio() {
        assert_eq!(summary(vec![]), "-");
        assert_eq!(summary(vec![1.0, f64::NAN]), "-");
        assert_eq!(summary(vec![1.0, f64::INFINITY]), "-");
    }

    #[test]
    fn a_ratio_comes_with_its_quartiles() {
        assert_eq!(summary(vec![1.5]), "1.50 (1.50-1.50)");
        assert_eq!(summary(vec![9.0, 1.0, 2.0, 3.0, 0.5]), "2.00 (1.00-3.00)");
    }
}
