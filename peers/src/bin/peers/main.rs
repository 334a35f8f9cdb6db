//! Compares quorlock with other lock clients: starts servers, runs the contestants in turn, prints medians.

mod args;
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
use clap::Parser;
use contestants::Contestant;
use indicatif::{ProgressBar, ProgressStyle};
use plan::Cell;
use row::{Report, Row, Skipped};
use server::Servers;
use std::fs;
use std::process::Command;
use trial::Trial;

fn main() -> Result<()> {
    let args = Args::parse();
    let report = match &args.from_json {
        Some(file) => {
            let rows = serde_json::from_str(&fs::read_to_string(file)?).context("not a report of ours")?;
            Report { machine: format!("from {}", file.display()), rows, skipped: Vec::new() }
        }
        None => contest(&args)?,
    };
    table::print(&report);
    goals::print(&report.rows);
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
    if args.realtime {
        realtime()?;
    }
    let mut skipped = Vec::new();
    let contestants = present(args, &mut skipped);
    let cells: Vec<Cell> = plan::cells().into_iter().filter(|cell| args.wants(cell.workload)).collect();
    let servers = Servers::start(5)?;
    let trials: usize = cells.iter().map(|cell| cell.entrants(&contestants).count() * args.reps()).sum();
    let bar = ProgressBar::new(trials as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} of {duration}  {msg}")?);
    let mut rows = Vec::new();
    for cell in &cells {
        if bar.is_hidden() {
            eprintln!("{}", cell.title());
        }
        rows.extend(fill(cell, &contestants, args, &servers, &bar, &mut skipped)?);
    }
    bar.finish_and_clear();
    let cores = std::thread::available_parallelism()?;
    let policy = if args.realtime { ", SCHED_RR" } else { "" };
    Ok(Report { machine: format!("{}, {cores} cores{policy}", server::version()?), rows, skipped })
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

/// Runs all contestants of one cell in turn, A B C A B C, and takes the medians.
fn fill(
    cell: &Cell,
    contestants: &[Contestant],
    args: &Args,
    servers: &Servers,
    bar: &ProgressBar,
    skipped: &mut Vec<Skipped>,
) -> Result<Vec<Row>> {
    let mut entrants: Vec<(&Contestant, Vec<Trial>, bool)> =
        cell.entrants(contestants).map(|contestant| (contestant, Vec::new(), true)).collect();
    for _ in 0..args.reps() {
        for (contestant, trials, runs) in entrants.iter_mut() {
            bar.inc(1);
            if !*runs {
                continue;
            }
            bar.set_message(format!("{} {}", cell.title(), contestant.name));
            match trial::run(cell, contestant, args.pace(), servers) {
                Ok(trial) => trials.push(trial),
                Err(error) => {
                    *runs = false;
                    let skip = Skipped::here(contestant.name, cell, &error);
                    bar.suspend(|| eprintln!("{skip}"));
                    skipped.push(skip);
                }
            }
        }
    }
    Ok(entrants
        .iter()
        .filter(|(_, trials, _)| !trials.is_empty())
        .map(|(contestant, trials, _)| Row::median(cell, contestant.name, trials))
        .collect())
}
