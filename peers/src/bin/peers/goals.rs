//! The goals that quorlock has set itself, as ratios within one run, and whether they were met.

use crate::row::Row;
use crate::table::number;
use comfy_table::Table;
use comfy_table::presets::UTF8_BORDERS_ONLY;

/// A ratio and the bound it shall keep.
struct Goal {
    what: &'static str,
    bound: Bound,
    ratio: fn(&Rows<'_>) -> Option<f64>,
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

pub fn print(rows: &[Row]) {
    let rows = Rows(rows);
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(["goal", "bound", "found", ""]);
    let mut found_any = false;
    for goal in GOALS {
        let Some(ratio) = (goal.ratio)(&rows) else { continue };
        found_any = true;
        let (bound, met) = match goal.bound {
            Bound::AtLeast(bound) => (format!(">= {}", number(Some(bound))), ratio >= bound),
            Bound::AtMost(bound) => (format!("<= {}", number(Some(bound))), ratio <= bound),
        };
        table.add_row([goal.what, &bound, &number(Some(ratio)), if met { "met" } else { "MISSED" }]);
    }
    if found_any {
        println!("\nGoals of quorlock\n{table}");
    }
}

/// Rows to look numbers up in.
struct Rows<'a>(&'a [Row]);

type Field = fn(&Row) -> Option<f64>;

const SPEED: Field = |row| row.cycles_per_s;
const HANDOFFS: Field = |row| row.handoffs_per_s;
const P50: Field = |row| row.acquire_p50_ms;
const P99: Field = |row| row.acquire_p99_ms;
const CLIENT: Field = |row| row.client_cpu_us_per_cycle;

const PEERS: [&str; 6] = ["rslock", "redsync", "redsync-failfast", "node-redlock", "redlock-py", "redisson"];

impl Rows<'_> {
    fn find(&self, who: &str, workload: &str, nodes: usize) -> Option<&Row> {
        self.0.iter().find(|row| row.contestant == who && row.workload == workload && row.nodes == nodes)
    }

    fn get(&self, who: &str, workload: &str, nodes: usize, field: Field) -> Option<f64> {
        field(self.find(who, workload, nodes)?)
    }

    /// quorlock compared with another.
    fn versus(&self, other: &str, workload: &str, nodes: usize, field: Field) -> Option<f64> {
        Some(self.get("quorlock", workload, nodes, field)? / self.get(other, workload, nodes, field)?)
    }

    /// The values of all peers.
    fn peers(&self, workload: &str, nodes: usize, field: Field) -> impl Iterator<Item = f64> {
        PEERS.iter().filter_map(move |peer| self.get(peer, workload, nodes, field))
    }

    fn versus_lowest(&self, workload: &str, nodes: usize, field: Field) -> Option<f64> {
        let best = self.peers(workload, nodes, field).min_by(f64::total_cmp)?;
        Some(self.get("quorlock", workload, nodes, field)? / best)
    }

    fn versus_highest(&self, workload: &str, nodes: usize, field: Field) -> Option<f64> {
        let best = self.peers(workload, nodes, field).max_by(f64::total_cmp)?;
        Some(self.get("quorlock", workload, nodes, field)? / best)
    }

    fn grown(&self, clients: usize) -> Option<f64> {
        let row = self.0.iter().find(|row| {
            row.contestant == "quorlock" && row.workload == "W6-growth" && row.clients == clients
        })?;
        CLIENT(row)
    }
}

use Bound::{AtLeast, AtMost};

const GOALS: &[Goal] = &[
    goal("W1 N=5 cycles/s vs redsync", AtLeast(5.0), |r| r.versus("redsync", "W1", 5, SPEED)),
    goal("W1 N=5 cycles/s vs node-redlock", AtLeast(5.0), |r| r.versus("node-redlock", "W1", 5, SPEED)),
    goal("W1 N=5 cycles/s vs rslock", AtLeast(2.0), |r| r.versus("rslock", "W1", 5, SPEED)),
    goal("W1 N=5 cycles/s vs redlock-py", AtLeast(50.0), |r| r.versus("redlock-py", "W1", 5, SPEED)),
    goal("W1 N=5 plain cycles/s vs floor-split", AtLeast(0.8), |r| {
        Some(r.get("quorlock-plain", "W1", 5, SPEED)? / r.get("floor-split", "W1", 5, SPEED)?)
    }),
    goal("W1 N=5 plain cycles/s vs floor", AtLeast(0.8), |r| {
        Some(r.get("quorlock-plain", "W1", 5, SPEED)? / r.get("floor", "W1", 5, SPEED)?)
    }),
    goal("W1 N=5 cost of fence and guard, share of cycles/s", AtMost(0.25), |r| {
        Some(1.0 - r.versus("quorlock-plain", "W1", 5, SPEED)?)
    }),
    goal("W1 N=5 client CPU vs rslock", AtMost(1.0 / 6.0), |r| r.versus("rslock", "W1", 5, CLIENT)),
    goal("W1 N=1 cycles/s vs redis-crate", AtLeast(1.0), |r| r.versus("redis-crate", "W1", 1, SPEED)),
    goal("W1 N=5 sidecar over a unix socket vs redsync used directly", AtLeast(1.0), |r| {
        Some(r.get("quorlock-serve", "W1", 5, SPEED)? / r.get("redsync", "W1", 5, SPEED)?)
    }),
    goal("W1 N=5 sidecar over a unix socket, share of direct use", AtLeast(0.55), |r| {
        Some(r.get("quorlock-serve", "W1", 5, SPEED)? / r.get("quorlock", "W1", 5, SPEED)?)
    }),
    goal("W1 N=5 CPU of sidecar and client per cycle, in µs", AtMost(50.0), |r| {
        r.get("quorlock-serve", "W1", 5, CLIENT)
    }),
    goal("W2 N=5 p50 vs best peer", AtMost(0.5), |r| r.versus_lowest("W2", 5, P50)),
    goal("W3 cycles/s vs redsync", AtLeast(1.3), |r| r.versus("redsync", "W3", 5, SPEED)),
    goal("W3 handoffs/s vs redsync", AtLeast(1.3), |r| r.versus("redsync", "W3", 5, HANDOFFS)),
    goal("W3 max/min per client", AtMost(1.5), |r| r.find("quorlock", "W3", 5)?.fairness),
    goal("W4 cycles/s vs best peer", AtLeast(1.5), |r| r.versus_highest("W4", 5, SPEED)),
    goal("W4 handoffs/s vs best peer", AtLeast(1.5), |r| r.versus_highest("W4", 5, HANDOFFS)),
    goal("W4 p99 wait vs best peer", AtMost(0.5), |r| r.versus_lowest("W4", 5, P99)),
    goal("W5 p99 two nodes mute vs healthy", AtMost(1.5), |r| {
        Some(r.get("quorlock", "W5-mute", 5, P99)? / r.get("quorlock", "W1", 5, P99)?)
    }),
    goal("W6 client CPU at 10 000 clients vs 100", AtMost(1.5), |r| Some(r.grown(10_000)? / r.grown(100)?)),
    goal("W6 MB for 10 000 held locks", AtMost(50.0), |r| r.find("quorlock", "W6-held", 5)?.rss_mb),
    goal("W6 cores for 10 000 held locks", AtMost(0.05), |r| r.find("quorlock", "W6-held", 5)?.client_cores),
];

const fn goal(what: &'static str, bound: Bound, ratio: fn(&Rows<'_>) -> Option<f64>) -> Goal {
    Goal { what, bound, ratio }
}
