//! One run: all contestants in all workloads, in turn.

use crate::args::Args;
use crate::baseline::Comparison;
use crate::contestants::{self, BASELINE, Contestant};
use crate::plan::{self, Cell};
use crate::publish;
use crate::row::{Report, Row, Skipped};
use crate::server::Servers;
use crate::trial::{self, Pace, Trial};
use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use peers::protocol::Workload;
use std::process::Command;
use std::time::Duration;

pub fn run(args: &Args) -> Result<Report> {
    check_names(args)?;
    let has_baseline = std::env::var_os("PEERS_BASELINE").is_some();
    ensure!(args.baseline.is_none() || has_baseline, "`peers/run --baseline` builds the baseline: use that");
    if args.realtime {
        realtime()?;
    }
    let mut skipped = Vec::new();
    let contestants = present(args, &mut skipped);
    let cells = if args.publish { plan::published() } else { plan::cells() };
    let cells: Vec<Cell> = cells.into_iter().filter(|cell| args.wants(cell.workload)).collect();
    let program = args.server().find()?;
    let servers = Servers::start(cells.iter().map(|cell| cell.nodes).max().unwrap_or(0), &program)?;
    let mut entries: Vec<Entry<'_>> = cells
        .iter()
        .flat_map(|cell| cell.entrants(&contestants).map(move |contestant| (cell, contestant)))
        .enumerate()
        .map(|(place, (cell, contestant))| Entry::new(place, cell, contestant))
        .collect();
    let date = today()?;
    let (runs, others) = (entries.len() * args.reps(), if args.publish { publish::minutes(args) } else { 0 });
    eprintln!("{}, {runs} runs, about {} minutes", program.version, minutes(args, &entries) + others);
    run_all(args, &mut entries, &servers, &mut skipped)?;
    entries.sort_by_key(|entry| entry.place);
    Ok(Report {
        date,
        command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        server: program.version,
        cores: std::thread::available_parallelism()?.get(),
        realtime: args.realtime,
        seconds: args.pace().seconds,
        rows: entries.iter().filter_map(Entry::row).collect(),
        skipped,
        comparisons: entries.iter().filter_map(|entry| entry.comparison(&entries)).collect(),
    })
}

/// All repetitions of all entries.
fn run_all(
    args: &Args,
    entries: &mut [Entry<'_>],
    servers: &Servers,
    skipped: &mut Vec<Skipped>,
) -> Result<()> {
    let bar = ProgressBar::new((entries.len() * args.reps()) as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} of {duration}  {msg}")?);
    for rep in 1..=args.reps() {
        if bar.is_hidden() {
            eprintln!("run {rep} of {}", args.reps());
        }
        // A B C C B A: what comes first in one repetition comes last in the next.
        entries.reverse();
        for entry in entries.iter_mut() {
            bar.set_message(format!("{} {}", entry.cell.title(), entry.contestant.name));
            if let Some(skip) = entry.run(args.pace(), servers) {
                bar.suspend(|| eprintln!("{skip}"));
                skipped.push(skip);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(())
}

/// How long all runs take, by what a contestant usually needs to start.
fn minutes(args: &Args, entries: &[Entry<'_>]) -> u64 {
    const START: f64 = 0.7;
    // Clients that poll for one name wait longer than the time that is measured.
    const POLLING: f64 = 2.5;
    let pace = args.pace();
    let each = entries.iter().map(|entry| {
        let polls = entry.cell.load == Workload::One && entry.contestant.name != "quorlock";
        let measured = entry.cell.seconds.unwrap_or(pace.seconds);
        START + pace.warmup.max(entry.contestant.least_warmup) + measured + if polls { POLLING } else { 0.0 }
    });
    let all = Duration::from_secs_f64(each.sum::<f64>() * args.reps() as f64);
    all.as_secs().div_ceil(60)
}

/// The day, as `2026-11-18`.
fn today() -> Result<String> {
    let output = Command::new("date").args(["-u", "+%F"]).output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
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
