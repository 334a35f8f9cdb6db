//! Writes the published pages, their plots and the results that they show.

use crate::args::Args;
use crate::contestants::here;
use crate::engines::{self, Clients};
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
        measure_others(args, &results)?;
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
fn measure_others(args: &Args, results: &Path) -> Result<()> {
    if args.keep_others {
        return Ok(());
    }
    let (rounds, seconds) = (args.reps().to_string(), args.pace().seconds.to_string());
    let engines_file = results.join(ENGINES).display().to_string();
    output("engines/run", &[&rounds, &seconds, "--json", &engines_file]);
    if let Some(clients) =
        output("../clients/bench/run", &["--rounds", &rounds]).map(|text| Clients::parse(&text))
    {
        fs::write(results.join(CLIENTS), serde_json::to_string_pretty(&clients)? + "\n")?;
    }
    Ok(())
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

/// Runs a program of this repository; what it printed, if it could be started.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    eprintln!("{program} {}", arguments.join(" "));
    let command = Command::new(here().join(program)).args(arguments).stderr(Stdio::inherit()).output();
    match command {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(reason) => {
            eprintln!("skipped {program}: {reason}");
            None
        }
    }
}
