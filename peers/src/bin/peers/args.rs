//! The command line.

use crate::contestants::BASELINE;
use crate::trial::Pace;
use std::path::PathBuf;

/// Compares quorlock with other lock clients on servers of its own.
#[derive(clap::Parser)]
pub struct Args {
    /// One short run of each, to see that everything works. Its numbers are no result.
    #[arg(long)]
    quick: bool,
    /// Write all medians to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Draw plots into this directory.
    #[arg(long)]
    pub plots: Option<PathBuf>,
    /// Only these contestants.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these workloads, by the start of their names: W1, W5-mute, W6.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// How often each contestant runs (default 5).
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    reps: Option<u16>,
    /// How long each run is measured (default 3).
    #[arg(long)]
    seconds: Option<f64>,
    /// Run servers and contestants under the real-time policy `SCHED_RR`, so that other programs disturb them less. Needs the
    /// permission to do so.
    #[arg(long)]
    pub realtime: bool,
    /// Run the quorlock of this commit as well, as the contestant `baseline`, and print ratios. `peers/run` builds it.
    #[arg(long, value_name = "REV")]
    pub baseline: Option<String>,
    /// Run nothing; print and draw what an earlier run wrote.
    #[arg(long, conflicts_with = "json")]
    pub from_json: Option<PathBuf>,
}

impl Args {
    pub fn reps(&self) -> usize {
        self.reps.map_or(if self.quick { 1 } else { 5 }, usize::from)
    }

    pub fn pace(&self) -> Pace {
        let seconds = self.seconds.unwrap_or(if self.quick { 1.0 } else { 3.0 });
        Pace { seconds, warmup: if self.quick { 0.5 } else { 1.0 } }
    }

    pub fn wants(&self, workload: &str) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|wanted| workload.starts_with(wanted.as_str()))
    }

    pub fn wants_contestant(&self, name: &str) -> bool {
        let is_baseline = self.baseline.is_some() && name == BASELINE;
        is_baseline || self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }

    /// A wanted contestant or workload that does not exist.
    pub fn unknown(&self, contestants: &[&str], workloads: &[&str]) -> Option<&str> {
        let nobody = self.only.iter().find(|wanted| !contestants.contains(&wanted.as_str()));
        let nothing =
            self.workloads.iter().find(|wanted| !workloads.iter().any(|it| it.starts_with(*wanted)));
        nobody.or(nothing).map(String::as_str)
    }
}
