//! Runs many simulated worlds and reports which promises broke.

use quorlock_testkit::operations::write_operations;
use quorlock_testkit::simulator::{Counts, Fault, InjectedBug, Outcome, Setting, Uses, run};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "\
Runs simulated worlds: the shipped lock, its connections and scripts on simulated servers, with faults.

usage: sim [--seeds N] [--first N] [--seed N] [--nodes N] [--clients N] [--plain] [--bytes] [--inject-bug NAME] [--export FILE]
           [--list-bugs]

  --seeds N          how many worlds (default 100)
  --first N          the seed of the first (default 1)
  --seed N           one world only, with everything that happens in it
  --nodes N          how many servers vote (default 5)
  --clients N        how many machines contend (default 3)
  --bytes            with --seed: also every segment that arrives
  --plain            clients only acquire, hold and release, with the same settings and nodes
  --inject-bug NAME  inject a bug (also --plant); the run passes if it is found
  --export FILE      write what clients did as JSON lines, for porcupine/README.md in this crate
  --list-bugs        the bugs that can be injected (also --list-plants)";

struct Options {
    seeds: u64,
    first: u64,
    verbose: bool,
    setting: Setting,
    export: Option<File>,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => simulate(&options),
        Ok(None) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("sim: {problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options =
        Options { seeds: 100, first: 1, verbose: false, setting: Setting::new(1), export: None };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--seeds" => options.seeds = number(&value()?)?,
            "--first" => options.first = number(&value()?)?,
            "--seed" => {
                (options.first, options.seeds, options.verbose) = (number(&value()?)?, 1, true);
            }
            "--nodes" => options.setting.nodes = usize::try_from(number(&value()?)?).unwrap_or(usize::MAX),
            "--clients" => {
                options.setting.clients = usize::try_from(number(&value()?)?).unwrap_or(usize::MAX)
            }
            "--bytes" => options.setting.shows_bytes = true,
            "--plain" => options.setting.plain = true,
            "--inject-bug" | "--plant" => options.setting.injected_bug = Some(value()?.parse()?),
            "--export" => options.export = Some(create(&value()?)?),
            "--list-bugs" | "--list-plants" => {
                InjectedBug::ALL.iter().for_each(|bug| println!("{bug}"));
                return Ok(None);
            }
            "--help" | "-h" => {
                println!("{USAGE}");
                return Ok(None);
            }
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    if options.setting.nodes == 0 || options.setting.nodes > 31 || options.setting.clients == 0 {
        return Err("give 1 to 31 nodes and at least one client".to_owned());
    }
    Ok(Some(options))
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn create(path: &str) -> Result<File, String> {
    File::create(path).map_err(|error| format!("cannot write {path}: {error}"))
}

/// Sums over all worlds.
#[derive(Default)]
struct Report {
    passed: u64,
    failed: u64,
    simulated: Duration,
    acquisitions: u64,
    refusals: u64,
    contended: u64,
    losses: u64,
    lost_updates: u64,
    fenced_off: u64,
    forced_double_holds: u64,
    bytes: u64,
    digest: u64,
    uses: Uses,
    faults: Counts,
}

fn simulate(options: &Options) -> ExitCode {
    let start = Instant::now();
    let mut report = Report::default();
    for seed in options.first..options.first.saturating_add(options.seeds) {
        let outcome = run(&Setting { seed, ..options.setting.clone() });
        if options.verbose {
            outcome.history.timeline().iter().for_each(|line| println!("{line}"));
        }
        if let Some(file) = &options.export
            && let Err(error) = export(file, seed, &outcome)
        {
            eprintln!("sim: cannot export: {error}");
            return ExitCode::from(2);
        }
        let is_broken = !outcome.history.violations().is_empty();
        for violation in outcome.history.violations().iter().take(3) {
            println!("seed {seed}: {violation}");
        }
        report.add(outcome);
        if is_broken && options.setting.injected_bug.is_some() {
            println!("injected bug found; replay: {}", replay(options, seed));
            return close(&report, true);
        }
        if is_broken {
            println!("replay: {}", replay(options, seed));
        }
    }
    report.print(options);
    eprintln!("took {:?}", start.elapsed());
    let plenty = report.had_enough(options);
    close(&report, report.failed == 0 && plenty && options.setting.injected_bug.is_none())
}

fn export(file: &File, seed: u64, outcome: &Outcome) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    write_operations(&mut file, seed, &outcome.history.operations())?;
    file.flush()
}

fn replay(options: &Options, seed: u64) -> String {
    let bug = options.setting.injected_bug.map(|bug| format!(" --inject-bug {bug}")).unwrap_or_default();
    let Setting { nodes, clients, plain, .. } = options.setting;
    let plain = if plain { " --plain" } else { "" };
    format!("sim --seed {seed} --nodes {nodes} --clients {clients}{plain}{bug}")
}

fn close(report: &Report, is_good: bool) -> ExitCode {
    println!("{} passed, {} failed", report.passed, report.failed);
    if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Report {
    fn add(&mut self, outcome: Outcome) {
        let history = &outcome.history;
        if history.violations().is_empty() {
            self.passed += 1
        } else {
            self.failed += 1
        }
        self.simulated += outcome.lasted;
        self.acquisitions += history.acquisitions;
        self.refusals += history.refusals;
        self.contended += history.contended;
        self.losses += history.losses;
        self.lost_updates += history.lost_unfenced;
        self.fenced_off += history.fenced_off;
        self.forced_double_holds += history.forced_double_holds();
        self.bytes += outcome.bytes;
        self.digest = self.digest.rotate_left(1) ^ outcome.digest;
        self.uses.add(&history.uses);
        for (fault, count) in outcome.faults {
            *self.faults.entry(fault).or_default() += count;
        }
    }

    fn print(&self, options: &Options) {
        let last = options.first + options.seeds - 1;
        println!("seeds            {} to {last}", options.first);
        println!("simulated hours  {:.1}", self.simulated.as_secs_f64() / 3_600.0);
        println!("acquisitions     {}", self.acquisitions);
        println!("refused          {}", self.refusals);
        println!("contended        {}", self.contended);
        println!("locks lost       {}", self.losses);
        println!("updates lost     {} without fences at the resource", self.lost_updates);
        println!("writes refused   {} by fences at the resource", self.fenced_off);
        println!("double holds     {} after a forced release (not promised)", self.forced_double_holds);
        println!(
            "bytes            {} (digest {:016x} in process {})",
            self.bytes,
            self.digest,
            std::process::id()
        );
        for (what, count) in self.uses.list() {
            println!("use {what:<20} {count}");
        }
        for fault in Fault::ALL {
            println!("fault {fault:<18} {}", self.faults.get(&fault).copied().unwrap_or_default());
        }
        println!("worlds broken    {}", self.failed);
    }

    /// A run that saw too little proves too little.
    fn had_enough(&self, options: &Options) -> bool {
        if options.seeds < 20 {
            return true;
        }
        let mut is_enough = true;
        let is_plain = options.setting.plain;
        for (what, _) in self.uses.list().iter().filter(|(_, count)| *count == 0 && !is_plain) {
            println!("not enough: {what} never came");
            is_enough = false;
        }
        let expected = Fault::ALL.iter().filter(|fault| !is_plain || **fault != Fault::LoseCounter);
        for fault in expected.filter(|fault| !self.faults.contains_key(fault)) {
            println!("not enough: fault {fault} never came");
            is_enough = false;
        }
        if self.contended * 10 < self.acquisitions {
            println!(
                "not enough: only {} of {} acquisitions were contended",
                self.contended, self.acquisitions
            );
            is_enough = false;
        }
        is_enough
    }
}
