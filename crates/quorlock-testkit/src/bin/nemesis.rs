//! Injects faults around real servers and reports which promises broke.

use quorlock_testkit::Binary;
use quorlock_testkit::nemesis::{Check, Contestant, Engine, Outcome, Row, Setting, run, run_client, table};
use quorlock_testkit::operations::write_operations;
use quorlock_testkit::simulator::InjectedBug;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const USAGE: &str = "\
Runs the shipped lock on real servers and in real client processes, with faults: bad networks; servers that are killed,
stopped, emptied or full, or whose clocks jump; clients that are paused, sleep, die, or whose clocks jump.
Clients hold names alone or shared, upgrade and downgrade them, hold several at once, and hold permits of a semaphore.

usage: nemesis [--engine redis|etcd|postgres|zookeeper|consul] [--seconds N] [--nodes N] [--clients N] [--seed N]
               [--valkey] [--show] [--inject-bug NAME] [--export FILE] [--contestants NAME,.. | all] [--table]

  --engine NAME      what the nodes are: independent redis servers (default), the members of one etcd, zookeeper or
                     consul cluster, or a postgres server with its standbys
  --seconds N        how long faults are injected (default 60); under 45 not every fault is demanded
  --nodes N          how many servers there are, 3 to 31 (default: 5 with redis, else 3)
  --clients N        how many client processes contend (default: 6 with redis and consul, else 10)
  --seed N           the schedule of faults (default: a new one); the effects depend on the machine, too
  --valkey           runs Valkey servers instead of Redis
  --show             prints everything that happened, not only what led to a violation
  --inject-bug NAME  inject a bug (also --plant): reachable-majority, late-deadline or no-restart-guard; passes if it is
                     found, which may take several runs
  --export FILE      write what clients did as JSON lines, for porcupine/README.md in this crate
  --contestants ..   one storm for each of these lock libraries (also --contestant NAME): quorlock, redsync,
                     node-redlock, redlock-py, rslock, redisson, rueidislock; their clients acquire, work and release.
                     `all` leaves out those that are not installed; peers/setup installs them
  --table            print only the table of --contestants, in Markdown";

/// What the command line asks for.
enum Order {
    Storm(Setting, Option<File>),
    Comparison { setting: Setting, contestants: Vec<Contestant>, is_table_only: bool },
    Help,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if run_client(&words) {
        return ExitCode::SUCCESS;
    }
    match parse(words.into_iter()) {
        Ok(Order::Storm(setting, export)) => run_and_report(&setting, export.as_ref()),
        Ok(Order::Comparison { setting, contestants, is_table_only }) => {
            compare(&setting, &contestants, is_table_only)
        }
        Ok(Order::Help) => {
            println!("{USAGE}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("nemesis: {problem}\n\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Order, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let mut setting = Setting::new(any_seed(), program);
    let (mut nodes, mut clients, mut contestants, mut is_table_only) = (None, None, Vec::new(), false);
    let mut export = None;
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--seconds" => setting.fault_phase = Duration::from_secs(number(&value()?)?),
            "--engine" => setting.engine = value()?.parse()?,
            "--nodes" => nodes = Some(usize::try_from(number(&value()?)?).unwrap_or(usize::MAX)),
            "--clients" => clients = Some(usize::try_from(number(&value()?)?).unwrap_or(usize::MAX)),
            "--seed" => setting.seed = number(&value()?)?,
            "--show" => setting.show = true,
            "--valkey" => setting.binary = Binary::Valkey,
            "--inject-bug" | "--plant" => setting.injected_bug = Some(value()?.parse()?),
            "--contestant" | "--contestants" => contestants = installed(&value()?)?,
            "--export" => export = Some(create(&value()?)?),
            "--table" => is_table_only = true,
            "--help" | "-h" => return Ok(Order::Help),
            other => return Err(format!("unknown argument `{other}`")),
        }
    }
    setting.nodes = nodes.unwrap_or(setting.engine.usual_nodes());
    setting.clients = clients.unwrap_or(setting.engine.usual_clients());
    if !(3..=31).contains(&setting.nodes) || !(1..=64).contains(&setting.clients) {
        return Err("give 3 to 31 nodes and 1 to 64 clients".to_owned());
    }
    if setting.fault_phase > Duration::from_secs(86_400) {
        return Err("a day is enough".to_owned());
    }
    if setting.injected_bug.is_some_and(|bug| !Setting::INJECTED_BUGS.contains(&bug)) {
        return Err("this bug can only be injected in the simulator".to_owned());
    }
    if setting.engine != Engine::Redis && (setting.injected_bug.is_some() || !contestants.is_empty()) {
        return Err("injected bugs and contestants need --engine redis".to_owned());
    }
    if setting.injected_bug.is_some() && !contestants.is_empty() {
        return Err("contestants run without injected bugs".to_owned());
    }
    if export.is_some() && !contestants.is_empty() {
        return Err("other libraries do not report what --export needs".to_owned());
    }
    match setting.engine.missing(setting.binary) {
        Some(missing) => Err(missing),
        None if contestants.is_empty() => Ok(Order::Storm(setting, export)),
        None => Ok(Order::Comparison { setting, contestants, is_table_only }),
    }
}

/// The contestants of `names`. With `all` those that are not installed are named on stderr and left out.
fn installed(names: &str) -> Result<Vec<Contestant>, String> {
    if names == "all" {
        let is_here = |contestant: &Contestant| match contestant.missing() {
            Some(missing) => {
                eprintln!("nemesis: {missing}");
                false
            }
            None => true,
        };
        return Ok(Contestant::ALL.into_iter().filter(is_here).collect());
    }
    names
        .split(',')
        .map(|name| {
            let contestant: Contestant = name.parse()?;
            contestant.missing().map_or(Ok(contestant), Err)
        })
        .collect()
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number"))
}

fn create(path: &str) -> Result<File, String> {
    File::create(path).map_err(|error| format!("cannot write {path}: {error}"))
}

fn any_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::from(now.subsec_micros())
}

fn run_and_report(setting: &Setting, export: Option<&File>) -> ExitCode {
    // Before anything can go wrong.
    eprintln!("seed {}", setting.seed);
    let outcome = run(setting);
    if let Some(file) = export
        && let Err(error) = write(file, setting.seed, &outcome)
    {
        eprintln!("nemesis: cannot export: {error}");
        return ExitCode::from(2);
    }
    let story = if setting.show { outcome.history.all() } else { outcome.history.evidence() };
    story.iter().for_each(|line| println!("{line}"));
    outcome.print(setting);
    if let Some(bug) = setting.injected_bug {
        return find(bug, &outcome);
    }
    let checks = [outcome.promises(), outcome.plenty()].concat();
    checks.iter().for_each(|check| println!("{check}"));
    let passed = checks.iter().filter(|check| Check::is_passed(check)).count();
    println!("{passed} passed, {} failed", checks.len() - passed);
    if passed == checks.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn write(file: &File, seed: u64, outcome: &Outcome) -> std::io::Result<()> {
    let mut file = BufWriter::new(file);
    write_operations(&mut file, seed, &outcome.history.operations())?;
    file.flush()
}

/// Runs one storm after the other with the same schedule. Only quorlock fails: the others do not promise
/// what its checks demand.
fn compare(setting: &Setting, contestants: &[Contestant], is_table_only: bool) -> ExitCode {
    eprintln!("seed {}", setting.seed);
    let (mut rows, mut broken) = (Vec::new(), Vec::new());
    for &contestant in contestants {
        eprintln!("{contestant}: {} s of faults", setting.fault_phase.as_secs());
        let setting = Setting { contestant: Some(contestant), ..setting.clone() };
        let outcome = run(&setting);
        if setting.show {
            outcome.history.all().iter().for_each(|line| println!("{line}"));
        }
        if !is_table_only {
            println!("contestant       {contestant}");
            outcome.print(&setting);
        }
        if contestant == Contestant::Quorlock {
            broken.extend(outcome.promises().into_iter().filter(|check| !check.is_passed()));
        }
        rows.push(Row::new(contestant, &outcome));
    }
    print!("{}", table(&rows));
    broken.iter().for_each(|check| println!("{check}"));
    if broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// An injected bug must break a promise, or the harness proves nothing.
fn find(bug: InjectedBug, outcome: &Outcome) -> ExitCode {
    let is_found = !outcome.history.violations().is_empty();
    outcome.promises().iter().for_each(|check| println!("{check}"));
    println!("injected bug {bug} {}", if is_found { "found" } else { "not found" });
    println!("{} passed, {} failed", u8::from(is_found), u8::from(!is_found));
    if is_found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
