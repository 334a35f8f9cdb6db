//! Writes the published pages, their plots and the results that they show.

use crate::args::Args;
use crate::contestants::here;
use crate::engines;
use crate::page::{self, Sources};
use crate::plots;
use crate::row::Report;
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Where the results of the three programs are, below `peers/results`.
const RUN: &str = "published.json";
const ENGINES: &str = "engines.json";
const CLIENTS: &str = "clients.json";

pub fn run(args: &Args, report: &Report) -> Result<()> {
    let root = args.into.clone().unwrap_or_else(|| here().join(".."));
    let results = root.join("peers/results");
    let plots = root.join("docs/plots");
    fs::create_dir_all(&results)?;
    fs::create_dir_all(&plots)?;
    if args.from_json.is_none() {
        fs::write(results.join(RUN), serde_json::to_string_pretty(report)? + "\n")?;
        measure_others(args, &results);
    }
    let sources = Sources {
        report,
        engines: engines::read(&results.join(ENGINES))?,
        clients: engines::read(&results.join(CLIENTS))?,
    };
    fs::write(root.join("PERFORMANCE.md"), page::performance(sources)?)?;
    fs::write(root.join("docs/performance-growth.md"), page::growth(report)?)?;
    let growth = report.rows.iter().filter(|row| row.workload.starts_with("growth-"));
    plots::draw(&growth.cloned().collect::<Vec<_>>(), &plots)
}

/// Runs the two programs that measure engines and sidecar clients. A failure costs their part of the page, not the page.
fn measure_others(args: &Args, results: &Path) {
    if args.keep_others {
        return;
    }
    let (rounds, seconds) = (args.reps().to_string(), args.pace().seconds.to_string());
    let engines = here().join("engines/run");
    measure(&engines, &[&rounds, &seconds], &results.join(ENGINES));
    let clients = here().join("../clients/bench/run");
    measure(&clients, &["--rounds", &rounds], &results.join(CLIENTS));
}

/// How long the two programs take: about thirty runs in each round, which need a while to start.
pub fn minutes(args: &Args) -> u64 {
    const RUNS: f64 = 30.0;
    const START: f64 = 1.5;
    match args.keep_others {
        true => 0,
        false => (args.reps() as f64 * RUNS * (args.pace().seconds + START) / 60.0).ceil() as u64,
    }
}

/// Runs a program that writes its results to `file`.
fn measure(program: &Path, arguments: &[&str], file: &Path) {
    eprintln!("{} {}", program.display(), arguments.join(" "));
    let file_flag = ["--json".as_ref(), file.as_os_str()];
    let status = Command::new(program).args(arguments).args(file_flag).stdout(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => eprintln!("skipped {}: {status}", program.display()),
        Err(reason) => eprintln!("skipped {}: {reason}", program.display()),
    }
}
