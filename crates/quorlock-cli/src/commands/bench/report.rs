//! The result of the measurement.

use super::client::Counters;
use crate::args::{Bench, Names};
use crate::output::exit_code::Exit;
use crate::output::table;
use quorlock::Locker;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The result of the measurement.
pub(super) struct BenchReport {
    clients: u32,
    names: &'static str,
    lasted: Duration,
    nodes: usize,
    quorum: usize,
    cycles: u64,
    p50: Option<Duration>,
    p99: Option<Duration>,
    longest: Duration,
    failures: BTreeMap<&'static str, u64>,
}

impl BenchReport {
    pub(super) fn new(args: &Bench, locker: &Locker, counters: &Counters, lasted: Duration) -> Self {
        let (quorum, acquires) = (locker.quorum(), counters.acquires());
        Self {
            clients: args.clients,
            names: match args.names {
                Names::Own => "own",
                Names::One => "one",
            },
            lasted,
            nodes: quorum.nodes(),
            quorum: quorum.needed(),
            cycles: counters.cycles(),
            p50: acquires.percentile(50),
            p99: acquires.percentile(99),
            longest: acquires.longest(),
            failures: counters.failures().clone(),
        }
    }

    /// No lock was acquired in all that time: there is no quorum.
    pub(super) fn exit(&self) -> Exit {
        if self.cycles == 0 { Exit::NoQuorum } else { Exit::Success }
    }

    pub(super) fn to_json(&self) -> Value {
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        json!({
            "clients": self.clients,
            "names": self.names,
            "seconds": self.lasted.as_secs_f64(),
            "nodes": self.nodes,
            "quorum": self.quorum,
            "failures_tolerated": self.tolerated(),
            "cycles": self.cycles,
            "cycles_per_second": self.per_second(),
            "acquire_us": {
                "p50": self.p50.map(micros), "p99": self.p99.map(micros), "longest": micros(self.longest),
            },
            "failures": self.failures,
        })
    }

    pub(super) fn to_text(&self) -> String {
        let shown = |time: Option<Duration>| time.map_or("-".to_owned(), millis);
        let header =
            ["NODES", "MAY FAIL", "CLIENTS", "CYCLES/S", "ACQUIRE P50", "P99", "LONGEST", "FAILURES"];
        let mut table = table::with(&header);
        table.add_row([
            self.nodes.to_string(),
            self.tolerated().to_string(),
            self.clients.to_string(),
            self.per_second().to_string(),
            shown(self.p50),
            shown(self.p99),
            millis(self.longest),
            self.failures.values().sum::<u64>().to_string(),
        ]);
        let failures: String =
            self.failures.iter().map(|(kind, count)| format!("\nfailed: {kind} {count} times")).collect();
        format!("{}{failures}", table::text(&table))
    }

    fn tolerated(&self) -> usize {
        self.nodes - self.quorum
    }

    /// Locks acquired and released per second.
    fn per_second(&self) -> u64 {
        let millis = u64::try_from(self.lasted.as_millis()).unwrap_or(u64::MAX).max(1);
        self.cycles.saturating_mul(1000) / millis
    }
}

/// A short time: `0.42ms`.
fn millis(span: Duration) -> String {
    format!("{:.2}ms", span.as_secs_f64() * 1000.0)
}
