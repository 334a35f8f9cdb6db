//! One run of one contestant.

use crate::contestants::Contestant;
use crate::plan::{Cell, Trouble};
use crate::process::Process;
use crate::server::Servers;
use crate::stage::Stage;
use anyhow::{Context, Result, ensure};
use peers::histogram::Histogram;
use peers::protocol::{Order, Outcome, Workload};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// How long a contestant may take to connect and warm up.
const READY_LIMIT: Duration = Duration::from_secs(40);
/// The same if it takes all its locks in that time.
const HELD_LIMIT: Duration = Duration::from_secs(120);
/// How long the last waits may take after the end.
const ANSWER_LIMIT: Duration = Duration::from_secs(45);
/// What each node is given where some do not answer; quorlock's default.
const NODE_TIMEOUT_MS: u64 = 50;

/// How long a run takes.
#[derive(Clone, Copy)]
pub struct Pace {
    pub seconds: f64,
    pub warmup: f64,
}

/// What one run showed.
#[derive(Clone, Debug)]
pub struct Trial {
    pub version: String,
    pub cycles_per_s: f64,
    /// NaN where they are not counted.
    pub handoffs_per_s: f64,
    pub acquire_p50_ms: f64,
    pub acquire_p99_ms: f64,
    pub client_cpu_us_per_cycle: f64,
    pub server_cpu_us_per_cycle: f64,
    /// Share of one core.
    pub client_cores: f64,
    /// The same of all servers together.
    pub server_cores: f64,
    /// The same of the server that used most.
    pub busiest_server_cores: f64,
    /// Most turns of a client to fewest.
    pub fairness: f64,
    /// The same of processes; NaN where there is only one.
    pub process_fairness: f64,
    pub failed: f64,
    pub rss_mb: f64,
    /// NaN where they are not counted.
    pub allocs_per_cycle: f64,
    pub commands_per_cycle: f64,
}

pub fn run(cell: &Cell, contestant: &Contestant, pace: Pace, servers: &Servers) -> Result<Trial> {
    let stage = Stage::set(cell, contestant, servers)?;
    let seconds = cell.seconds.unwrap_or(pace.seconds);
    let ledger = (cell.load == Workload::One).then(NamedTempFile::new).transpose()?;
    let mut processes = (0..cell.processes)
        .map(|number| {
            let mut order = order(cell, &stage, seconds, pace.warmup.max(contestant.least_warmup), number);
            order.ledger = ledger.as_ref().map(|file| file.path().to_owned());
            Process::start(&contestant.command, &order.flags())
        })
        .collect::<Result<Vec<_>>>()?;
    let limit = if cell.load == Workload::Held { HELD_LIMIT } else { READY_LIMIT };
    for process in &mut processes {
        let word = process.line(limit).context("not ready")?;
        ensure!(word == "ready", "said {word:?} instead of ready");
    }
    let before = stage.work()?;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    processes.iter_mut().try_for_each(Process::go)?;
    sleep(Duration::from_secs_f64(seconds * 0.95));
    let rss_kb: u64 = processes.iter().filter_map(Process::rss_kb).sum();
    sleep(end.saturating_duration_since(Instant::now()));
    let work = stage.work()?.since(&before);
    let mut outcomes = Vec::new();
    for process in &mut processes {
        let line = process.line(ANSWER_LIMIT).context("no answer")?;
        outcomes.push(serde_json::from_str::<Outcome>(&line).with_context(|| format!("answered {line:?}"))?);
    }
    let process_fairness = process_fairness(&outcomes);
    let sum = sum(outcomes).context("no process")?;
    let cycles = sum.cycles as f64;
    Ok(Trial {
        cycles_per_s: cycles / sum.seconds,
        handoffs_per_s: sum.handoffs.map_or(f64::NAN, |handoffs| handoffs as f64 / sum.seconds),
        acquire_p50_ms: sum.acquire.percentile_ms(0.5).unwrap_or(f64::NAN),
        acquire_p99_ms: sum.acquire.percentile_ms(0.99).unwrap_or(f64::NAN),
        client_cpu_us_per_cycle: sum.cpu_us as f64 / cycles,
        server_cpu_us_per_cycle: work.cpu_us as f64 / cycles,
        client_cores: sum.cpu_us as f64 / 1e6 / sum.seconds,
        server_cores: work.cpu_us as f64 / 1e6 / sum.seconds,
        busiest_server_cores: work.busiest_cpu_us as f64 / 1e6 / sum.seconds,
        fairness: sum.most as f64 / sum.least as f64,
        process_fairness,
        failed: sum.failed as f64,
        rss_mb: rss_kb as f64 / 1024.0,
        allocs_per_cycle: sum.allocs.map_or(f64::NAN, |allocs| allocs as f64 / cycles),
        commands_per_cycle: work.commands as f64 / cycles,
        version: sum.version,
    })
}

fn order(cell: &Cell, stage: &Stage<'_>, seconds: f64, warmup: f64, process: usize) -> Order {
    // New names in every run: nothing that a run left behind can stand in the way of the next.
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let run =
        if process == 0 { RUNS.fetch_add(1, Ordering::Relaxed) } else { RUNS.load(Ordering::Relaxed) - 1 };
    let prefix = match cell.load.is_one_name() {
        true => format!("bench:{run}"),
        false => format!("bench:{run}:{process}"),
    };
    Order {
        nodes: stage.urls.clone(),
        clients: cell.clients / cell.processes,
        seconds,
        warmup,
        workload: cell.load,
        names: cell.names,
        slots: cell.slots,
        label_bytes: cell.label_bytes,
        hold_us: cell.hold_us,
        prefix,
        ttl_ms: cell.ttl_ms,
        node_timeout_ms: (cell.trouble != Trouble::None).then_some(NODE_TIMEOUT_MS),
        ledger: None,
    }
}

/// Most cycles of a process to fewest.
fn process_fairness(outcomes: &[Outcome]) -> f64 {
    let cycles = || outcomes.iter().map(|outcome| outcome.cycles);
    match (outcomes.len(), cycles().max(), cycles().min()) {
        (2.., Some(most), Some(least)) => most as f64 / least as f64,
        _ => f64::NAN,
    }
}

/// All processes as if they were one.
fn sum(outcomes: Vec<Outcome>) -> Option<Outcome> {
    outcomes.into_iter().reduce(|a, b| {
        let mut acquire: Histogram = a.acquire;
        acquire.merge(&b.acquire);
        Outcome {
            version: a.version,
            seconds: a.seconds,
            cycles: a.cycles + b.cycles,
            handoffs: a.handoffs.zip(b.handoffs).map(|(a, b)| a + b),
            failed: a.failed + b.failed,
            least: a.least.min(b.least),
            most: a.most.max(b.most),
            cpu_us: a.cpu_us + b.cpu_us,
            acquire,
            allocs: a.allocs.zip(b.allocs).map(|(a, b)| a + b),
        }
    })
}
