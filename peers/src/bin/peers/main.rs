//! Compares quorlock with other lock clients: starts servers, runs the contestants in turn, prints medians.

mod args;
mod baseline;
mod contestants;
mod faults;
mod goals;
mod plan;
mod plots;
mod process;
mod row;
mod server;
mod stage;
mod table;
mod trial;

use anyhow::{Context, Result, bail, ensure};
use args::Args;
use baseline::Comparison;
use clap::Parser;
use contestants::{BASELINE, Contestant};
use indicatif::{ProgressBar, ProgressStyle};
use plan::Cell;
use row::{Report, Row, Skipped};
use server::Servers;
use std::fs;
use std::process::Command;
use trial::{Pace, Trial};

fn main() -> Result<()> {
    let args = Args::parse();
    let report = match &args.from_json {
        Some(file) => {
            let rows = serde_json::from_str(&fs::read_to_string(file)?).context("not a report of ours")?;
            Report {
                machine: format!("from {}", file.display()),
                rows,
                skipped: Vec::new(),
                comparisons: Vec::new(),
            }
        }
        None => contest(&args)?,
    };
    table::print(&report);
    goals::print(&report.rows);
    baseline::print(&report.comparisons);
    if let Some(file) = &args.json {
        fs::write(file, serde_json::to_string_pretty(&report.rows)? + "\n")?;
    }
    if let Some(directory) = &args.plots {
        fs::create_dir_all(directory)?;
        plots::draw(&report.rows, directory)?;
    }
    Ok(())
}

fn contest(args: &Args) -> Result<Report> {
    check_names(args)?;
    let has_baseline = std::env::var_os("PEERS_BASELINE").is_some();
    ensure!(args.baseline.is_none() || has_baseline, "`peers/run --baseline` builds the baseline: use that");
    if args.realtime {
        realtime()?;
    }
    let mut skipped = Vec::new();
    let contestants = present(args, &mut skipped);
    let cells: Vec<Cell> = plan::cells().into_iter().filter(|cell| args.wants(cell.workload)).collect();
    let servers = Servers::start(5)?;
    let mut entries: Vec<Entry<'_>> = cells
        .iter()
        .flat_map(|cell| cell.entrants(&contestants).map(move |contestant| (cell, contestant)))
        .enumerate()
        .map(|(place, (cell, contestant))| Entry::new(place, cell, contestant))
        .collect();
    let bar = ProgressBar::new((entries.len() * args.reps()) as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} of {duration}  {msg}")?);
    for rep in 1..=args.reps() {
        if bar.is_hidden() {
            eprintln!("run {rep} of {}", args.reps());
        }
        // A B C C B A: what comes first in one repetition comes last in the next.
        entries.reverse();
        for entry in &mut entries {
            bar.set_message(format!("{} {}", entry.cell.title(), entry.contestant.name));
            if let Some(skip) = entry.run(args.pace(), &servers) {
                bar.suspend(|| eprintln!("{skip}"));
                skipped.push(skip);
            }
            bar.inc(1);
        }
    }
    entries.sort_by_key(|entry| entry.place);
    let rows = entries.iter().filter_map(Entry::row).collect();
    let comparisons = entries.iter().filter_map(|entry| entry.comparison(&entries)).collect();
    bar.finish_and_clear();
    let cores = std::thread::available_parallelism()?;
    let policy = if args.realtime { ", SCHED_RR" } else { "" };
    Ok(Report {
        machine: format!("{}, {cores} cores{policy}", server::version()?),
        rows,
        skipped,
        comparisons,
    })
}

/// Gives this process the lowest real-time priority. Everything it starts inherits it.
fn realtime() -> Result<()> {
    let status =
        Command::new("chrt").args(["--rr", "--pid", "1"]).arg(std::process::id().to_string()).status();
    ensure!(status.context("no chrt here")?.success(), "chrt may not do that here");
    Ok(())
}

fn check_names(args: &Args) -> Result<()> {
    let contestants = contestants::names();
    let mut workloads: Vec<&str> = plan::cells().iter().map(|cell| cell.workload).collect();
    workloads.dedup();
    if let Some(unknown) = args.unknown(&contestants, &workloads) {
        bail!("there is no {unknown}; there are {} and {}", contestants.join(", "), workloads.join(", "));
    }
    Ok(())
}

/// The wanted contestants that can run here. Those that cannot are named with the reason.
fn present(args: &Args, skipped: &mut Vec<Skipped>) -> Vec<Contestant> {
    let mut contestants = contestants::all();
    contestants.retain(|contestant| args.wants_contestant(contestant.name));
    contestants.retain(|contestant| {
        let Some(reason) = contestant.missing() else { return true };
        let skip = Skipped::everywhere(contestant.name, reason);
        eprintln!("{skip}");
        skipped.push(skip);
        false
    });
    contestants
}

/// One contestant in one cell. All of them run in turn, so that cells can be compared with each other, too.
struct Entry<'a> {
    /// Its place in the report.
    place: usize,
    cell: &'a Cell,
    contestant: &'a Contestant,
    trials: Vec<Trial>,
    /// Whether it failed, and is not run again.
    failed: bool,
}

impl<'a> Entry<'a> {
    fn new(place: usize, cell: &'a Cell, contestant: &'a Contestant) -> Self {
        Self { place, cell, contestant, trials: Vec::new(), failed: false }
    }

    /// Runs it once more; why it is left out from now on, if it failed.
    fn run(&mut self, pace: Pace, servers: &Servers) -> Option<Skipped> {
        if self.failed {
            return None;
        }
        match trial::run(self.cell, self.contestant, pace, servers) {
            Ok(trial) => {
                self.trials.push(trial);
                None
            }
            Err(error) => {
                self.failed = true;
                Some(Skipped::here(self.contestant.name, self.cell, &error))
            }
        }
    }

    /// The medians.
    fn row(&self) -> Option<Row> {
        (!self.trials.is_empty()).then(|| Row::median(self.cell, self.contestant.name, &self.trials))
    }

    /// quorlock and its baseline in the same cell.
    fn comparison(&self, entries: &[Entry<'_>]) -> Option<Comparison> {
        let same_cell = |other: &&Entry<'_>| other.cell.title() == self.cell.title();
        let baseline = entries.iter().filter(same_cell).find(|other| other.contestant.name == BASELINE)?;
        let pairs: Vec<_> = self.trials.iter().cloned().zip(baseline.trials.iter().cloned()).collect();
        (self.contestant.name == "quorlock" && !pairs.is_empty())
            .then(|| Comparison { workload: self.cell.title(), pairs })
    }
}
