//! The medians of several trials, as they stand in the report.

use crate::baseline::Comparison;
use crate::contestants::here;
use crate::plan::{self, Cell};
use crate::trial::Trial;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Everything that a run measured, as it is written as JSON.
#[derive(Debug, Deserialize, Serialize)]
pub struct Report {
    /// The day on which the run began.
    pub date: String,
    /// The arguments of `peers/run`.
    pub command: String,
    /// Name and version.
    pub server: String,
    pub cores: usize,
    /// Whether all ran under `SCHED_RR`.
    pub realtime: bool,
    /// How long each run was measured, where its workload does not say.
    pub seconds: f64,
    pub rows: Vec<Row>,
    pub skipped: Vec<Skipped>,
    /// quorlock and its baseline, if there is one.
    #[serde(skip)]
    pub comparisons: Vec<Comparison>,
}

impl Report {
    /// The servers and the machine, for people.
    pub fn machine(&self) -> String {
        let policy = if self.realtime { ", SCHED_RR" } else { "" };
        format!("{}, {} cores{policy}, {}", self.server, self.cores, self.date)
    }
}

/// A contestant in one cell. A number that does not exist or is infinite is `null`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Row {
    pub contestant: String,
    pub version: String,
    pub workload: String,
    pub what: String,
    /// What grows, in a workload about growth; else 0.
    pub size: usize,
    pub nodes: usize,
    pub clients: usize,
    pub processes: usize,
    pub cycles_per_s: Option<f64>,
    pub cycles_per_s_min: Option<f64>,
    pub cycles_per_s_max: Option<f64>,
    /// How often another client got the lock than the one before.
    pub handoffs_per_s: Option<f64>,
    pub acquire_p50_ms: Option<f64>,
    pub acquire_p99_ms: Option<f64>,
    pub client_cpu_us_per_cycle: Option<f64>,
    pub server_cpu_us_per_cycle: Option<f64>,
    pub client_cores: Option<f64>,
    pub server_cores: Option<f64>,
    pub busiest_server_cores: Option<f64>,
    /// Most turns of a client to fewest.
    pub fairness: Option<f64>,
    /// Most turns of a process to fewest.
    pub process_fairness: Option<f64>,
    pub failed: Option<f64>,
    pub rss_mb: Option<f64>,
    pub allocs_per_cycle: Option<f64>,
    pub commands_per_cycle: Option<f64>,
    pub runs: usize,
}

impl Row {
    pub fn median(cell: &Cell, contestant: &str, trials: &[Trial]) -> Self {
        let median = |of: fn(&Trial) -> f64| finite(median(trials.iter().map(of).collect()));
        let speeds = || trials.iter().map(|trial| trial.cycles_per_s);
        Self {
            contestant: contestant.to_owned(),
            version: trials.first().map(|trial| trial.version.clone()).unwrap_or_default(),
            workload: cell.workload.to_owned(),
            what: cell.what.to_owned(),
            size: cell.size,
            nodes: cell.nodes,
            clients: cell.clients,
            processes: cell.processes,
            cycles_per_s: median(|trial| trial.cycles_per_s),
            cycles_per_s_min: finite(speeds().fold(f64::INFINITY, f64::min)),
            cycles_per_s_max: finite(speeds().fold(0.0, f64::max)),
            handoffs_per_s: median(|trial| trial.handoffs_per_s),
            acquire_p50_ms: median(|trial| trial.acquire_p50_ms),
            acquire_p99_ms: median(|trial| trial.acquire_p99_ms),
            client_cpu_us_per_cycle: median(|trial| trial.client_cpu_us_per_cycle),
            server_cpu_us_per_cycle: median(|trial| trial.server_cpu_us_per_cycle),
            client_cores: median(|trial| trial.client_cores),
            server_cores: median(|trial| trial.server_cores),
            busiest_server_cores: median(|trial| trial.busiest_server_cores),
            fairness: median(|trial| trial.fairness),
            process_fairness: median(|trial| trial.process_fairness),
            failed: median(|trial| trial.failed),
            rss_mb: median(|trial| trial.rss_mb),
            allocs_per_cycle: median(|trial| trial.allocs_per_cycle),
            commands_per_cycle: median(|trial| trial.commands_per_cycle),
            runs: trials.len(),
        }
    }

    pub fn title(&self) -> String {
        plan::title(&self.workload, &self.what, self.size, self.nodes, self.clients)
    }
}

/// A contestant that did not run, everywhere or in one cell, and why.
#[derive(Debug, Deserialize, Serialize)]
pub struct Skipped {
    pub contestant: String,
    pub cell: Option<String>,
    pub reason: String,
}

impl Skipped {
    pub fn everywhere(contestant: &str, reason: String) -> Self {
        Self { contestant: contestant.to_owned(), cell: None, reason: without_directory(&reason) }
    }

    pub fn here(contestant: &str, cell: &Cell, error: &anyhow::Error) -> Self {
        let reason = without_directory(&format!("{error:#}"));
        Self { contestant: contestant.to_owned(), cell: Some(cell.title()), reason }
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cell = self.cell.as_deref().unwrap_or("everywhere");
        write!(f, "skipped {} ({cell}): {}", self.contestant, self.reason)
    }
}

/// A reason is published, where this machine's directories are of no use.
fn without_directory(reason: &str) -> String {
    reason.replace(&here().display().to_string(), "peers")
}

/// The middle one, or the mean of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[half],
        _ => (values[half - 1] + values[half]) / 2.0,
    }
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 4.0]), 4.0);
        assert_eq!(median(vec![9.0, 1.0, 4.0, 6.0]), 5.0);
        assert_eq!(median(vec![1.0, f64::INFINITY, f64::INFINITY]), f64::INFINITY);
        assert!(median(vec![]).is_nan());
    }
}
