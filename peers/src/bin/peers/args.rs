//! The command line.

use crate::contestants::BASELINE;
use crate::server_program::ServerChoice;
use crate::trial::Pace;
use std::path::PathBuf;

/// Compares quorlock with other lock clients on servers of its own.
#[derive(clap::Parser)]
pub struct Args {
    /// One short run of each, to see that everything works. Its numbers are no result.
    #[arg(long)]
    quick: bool,
    /// Run what PERFORMANCE.md shows, and write that page, the page about growth, its plots and the results.
    #[arg(long, conflicts_with_all = ["baseline", "json", "plots"])]
    pub publish: bool,
    /// Where `--publish` writes, instead of this repository.
    #[arg(long, value_name = "DIRECTORY", requires = "publish")]
    pub into: Option<PathBuf>,
    /// With `--publish`: keep earlier results of the engines and of the sidecar clients in other languages.
    #[arg(long, requires = "publish")]
    pub keep_others: bool,
    /// Which server runs (default `system`, with `--publish` `newest`).
    #[arg(long, value_enum)]
    server: Option<ServerChoice>,
    /// Write all medians to this file.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Draw plots into this directory.
    #[arg(long)]
    pub plots: Option<PathBuf>,
    /// Only these contestants.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these workloads, or groups of them: W1, W5-mute, W6, growth.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// How often each contestant runs (default 5, with `--publish` 7).
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    reps: Option<u16>,
    /// How long each run is measured (default 3, with `--publish` 1).
    #[arg(long)]
    seconds: Option<f64>,
    /// Run servers and contestants under the real-time policy `SCHED_RR`, so that other programs disturb them less. Needs the
    /// permission to do so.
    #[arg(long)]
    pub realtime: bool,
    /// Run the quorlock of this commit as well, as the contestant `baseline`, and print ratios. `peers/run` builds it.
    #[arg(long, value_name = "REV")]
    pub baseline: Option<String>,
    /// Run nothing; print, draw or publish what an earlier run wrote.
    #[arg(long, conflicts_with = "json")]
    pub from_json: Option<PathBuf>,
}

impl Args {
    pub fn reps(&self) -> usize {
        let usual = match (self.quick, self.publish) {
            (true, _) => 1,
            (false, true) => 7,
            (false, false) => 5,
        };
        self.reps.map_or(usual, usize::from)
    }

    pub fn pace(&self) -> Pace {
        let (seconds, warmup) = match (self.quick, self.publish) {
            (true, true) => (0.3, 0.1),
            (true, false) => (1.0, 0.5),
            (false, true) => (1.0, 0.5),
            (false, false) => (3.0, 1.0),
        };
        Pace { seconds: self.seconds.unwrap_or(seconds), warmup }
    }

    pub fn server(&self) -> ServerChoice {
        let usual = if self.publish { ServerChoice::Newest } else { ServerChoice::System };
        self.server.unwrap_or(usual)
    }

    pub fn wants(&self, workload: &str) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|wanted| is_in(workload, wanted))
    }

    pub fn wants_contestant(&self, name: &str) -> bool {
        let is_baseline = self.baseline.is_some() && name == BASELINE;
        is_baseline || self.only.is_empty() || self.only.iter().any(|wanted| wanted == name)
    }

    /// A wanted contestant or workload that does not exist.
    pub fn unknown(&self, contestants: &[&str], workloads: &[&str]) -> Option<&str> {
        let contestant = self.only.iter().find(|wanted| !contestants.contains(&wanted.as_str()));
        let workload =
            self.workloads.iter().find(|wanted| !workloads.iter().any(|known| is_in(known, wanted)));
        contestant.or(workload).map(String::as_str)
    }
}

/// Whether `workload` is `wanted`, or one of the group `wanted`: `W5-mute` is in `W5`, `W10-permits` is not in `W1`.
fn is_in(workload: &str, wanted: &str) -> bool {
    workload.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_has_its_own_workloads_only() {
        for workload in ["W1", "W10-permits"] {
            assert!(is_in(workload, workload));
        }
        assert!(is_in("W10-permits", "W10"));
        assert!(!is_in("W10-permits", "W1"));
        assert!(!is_in("W1", "W1-mute"));
    }
}
