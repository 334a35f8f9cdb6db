//! The goals that quorlock has set itself, as ratios within one run, and whether they were met.

use crate::engines::Clients;
use crate::figures::{CLIENT, Figures, HANDOFFS, P50, P99, SERVER, SPEED};
use crate::row::Report;
use crate::table::number;
use comfy_table::Table;
use comfy_table::presets::UTF8_BORDERS_ONLY;

/// A figure and the bound that it shall keep.
struct Goal {
    what: &'static str,
    bound: Bound,
    unit: Unit,
    found: fn(&Figures<'_>) -> Option<f64>,
}

#[derive(Clone, Copy)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Copy)]
enum Unit {
    Times,
    /// A small ratio, written as `1/6`.
    Fraction,
    Percent,
    Microseconds,
    Megabytes,
    Ratio,
}

/// A goal that a run can decide, in words.
pub struct Result {
    pub what: &'static str,
    pub bound: String,
    pub found: String,
    pub is_met: bool,
    /// What bounds the figure of a missed goal, by figures of the same run.
    pub why: Option<String>,
}

/// All goals for which there are figures.
pub fn results(figures: &Figures<'_>) -> Vec<Result> {
    GOALS.iter().filter_map(|goal| goal.result(figures)).collect()
}

pub fn print(report: &Report) {
    let results = results(&Figures { rows: &report.rows, clients: Clients::default() });
    if results.is_empty() {
        return;
    }
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(["goal", "bound", "found", ""]);
    for result in results {
        let verdict = if result.is_met { "met" } else { "MISSED" };
        table.add_row([result.what, &result.bound, &result.found, verdict]);
    }
    println!("\nGoals of quorlock\n{table}");
}

impl Goal {
    fn result(&self, figures: &Figures<'_>) -> Option<Result> {
        let found = (self.found)(figures).filter(|found| found.is_finite())?;
        let (words, bound, is_met) = match self.bound {
            Bound::AtLeast(bound) => ("at least", bound, found >= bound),
            Bound::AtMost(bound) => ("at most", bound, found <= bound),
        };
        let why = REASONS.iter().find(|(what, _)| *what == self.what);
        Some(Result {
            what: self.what,
            bound: format!("{words} {}", self.unit.text(bound)),
            found: self.unit.text(found),
            is_met,
            why: why.filter(|_| !is_met).and_then(|(_, reason)| reason(figures)),
        })
    }
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Unit::Times => format!("{} times", short(value)),
            Unit::Fraction if value < 1.0 => format!("1/{}", short(1.0 / value)),
            Unit::Fraction | Unit::Ratio => short(value),
            Unit::Percent => format!("{} %", short(value * 100.0)),
            Unit::Microseconds => format!("{} µs", short(value)),
            Unit::Megabytes => format!("{} MB", short(value)),
        }
    }
}

/// As many digits as a goal needs.
fn short(value: f64) -> String {
    let text = if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.2}") };
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

use Bound::{AtLeast, AtMost};
use Unit::{Fraction, Megabytes, Microseconds, Percent, Ratio, Times};

const NODE_REDLOCK: &str = "W1, 5 nodes: cycles/s against node-redlock";
const MERGED_FLOOR: &str =
    "W1, 5 nodes: share of the floor with one call for all releases, without fence and guard";
const SIDECAR_SHARE: &str = "W1, 5 nodes: cycles/s through the sidecar, share of direct use";
const W2_PEER: &str = "W2, 1 client, 5 nodes: p50 against the best peer";
const W4_CYCLES: &str = "W4: cycles/s against the best peer";
const W6_CPU: &str = "W6: client CPU per cycle with 10 000 clients against 100";

const GOALS: &[Goal] = &[
    goal("W1, 5 nodes: cycles/s against redsync", AtLeast(5.0), Times, |f| {
        f.versus("redsync", "W1", 5, SPEED)
    }),
    goal(NODE_REDLOCK, AtLeast(5.0), Times, |f| f.versus("node-redlock", "W1", 5, SPEED)),
    goal("W1, 5 nodes: cycles/s against rslock", AtLeast(2.0), Times, |f| f.versus("rslock", "W1", 5, SPEED)),
    goal("W1, 5 nodes: cycles/s against redlock-py", AtLeast(50.0), Times, |f| {
        f.versus("redlock-py", "W1", 5, SPEED)
    }),
    goal("W1, 5 nodes: cost of fence and guard", AtMost(0.25), Percent, |f| {
        Some(1.0 - f.versus("quorlock-plain", "W1", 5, SPEED)?)
    }),
    goal(
        "W1, 5 nodes: share of the floor with a call per release, without fence and guard",
        AtLeast(0.8),
        Percent,
        |f| f.ratio("quorlock-plain", "floor-split", "W1", 5, SPEED),
    ),
    goal(MERGED_FLOOR, AtLeast(0.8), Percent, |f| f.ratio("quorlock-plain", "floor", "W1", 5, SPEED)),
    goal("W1, 5 nodes: client CPU per cycle against rslock", AtMost(1.0 / 6.0), Fraction, |f| {
        f.versus("rslock", "W1", 5, CLIENT)
    }),
    goal("W1, 5 nodes: the sidecar against redsync used directly", AtLeast(1.0), Times, |f| {
        f.ratio("quorlock-serve", "redsync", "W1", 5, SPEED)
    }),
    goal(SIDECAR_SHARE, AtLeast(0.55), Percent, |f| f.ratio("quorlock-serve", "quorlock", "W1", 5, SPEED)),
    goal("W1, 5 nodes: CPU of sidecar and client per cycle", AtMost(50.0), Microseconds, |f| {
        f.get("quorlock-serve", "W1", 5, CLIENT)
    }),
    goal("sidecar client in Python: a cycle against a plain HTTP loop", AtMost(1.3), Times, |f| {
        f.clients.python
    }),
    goal("sidecar client in JavaScript: a cycle against a plain HTTP loop", AtMost(1.3), Times, |f| {
        f.clients.javascript
    }),
    goal("W1, 1 node: cycles/s against the `redis` crate", AtLeast(1.0), Times, |f| {
        f.versus("redis-crate", "W1", 1, SPEED)
    }),
    goal(W2_PEER, AtMost(0.5), Times, |f| f.versus_lowest("W2", 5, P50)),
    goal(
        "W2, 1 client, 5 nodes: p50 against blocking sockets with the same votes",
        AtMost(1.25),
        Times,
        |f| f.versus("floor-fenced", "W2", 5, P50),
    ),
    goal("W3, 100 clients of 1 process on 1 name: handoffs/s against redsync", AtLeast(1.3), Times, |f| {
        f.versus("redsync", "W3", 5, HANDOFFS)
    }),
    goal("W3: most turns of a client to fewest", AtMost(1.5), Ratio, |f| {
        f.find("quorlock", "W3", 5)?.fairness
    }),
    goal(
        "W4, 100 clients of 10 processes on 1 name: handoffs/s against the best peer",
        AtLeast(1.5),
        Times,
        |f| f.versus_highest("W4", 5, HANDOFFS),
    ),
    goal(W4_CYCLES, AtLeast(1.5), Times, |f| f.versus_highest("W4", 5, SPEED)),
    goal("W4: p99 wait against the best peer", AtMost(0.5), Times, |f| f.versus_lowest("W4", 5, P99)),
    goal("W4: most turns of a process to fewest", AtMost(1.5), Ratio, |f| {
        f.find("quorlock", "W4", 5)?.process_fairness
    }),
    goal("W7, as W4 without work: most turns of a process to fewest", AtMost(1.5), Ratio, |f| {
        f.find("quorlock", "W7-processes", 5)?.process_fairness
    }),
    goal("W5, 2 of 5 nodes mute: p99 against healthy nodes", AtMost(1.5), Times, |f| {
        Some(f.get("quorlock", "W5-mute", 5, P99)? / f.get("quorlock", "W1", 5, P99)?)
    }),
    goal(W6_CPU, AtMost(1.5), Times, |f| {
        Some(f.with_clients(10_000, CLIENT)? / f.with_clients(100, CLIENT)?)
    }),
    goal("W6: memory of 10 000 locks held at once, ttl 30 s", AtMost(50.0), Megabytes, |f| {
        f.find("quorlock", "W6-held", 5)?.rss_mb
    }),
    goal("W6: share of a core of 10 000 locks held at once", AtMost(0.05), Percent, |f| {
        f.find("quorlock", "W6-held", 5)?.client_cores
    }),
];

const fn goal(what: &'static str, bound: Bound, unit: Unit, found: fn(&Figures<'_>) -> Option<f64>) -> Goal {
    Goal { what, bound, unit, found }
}

/// Why a goal can be missed.
type Reason = fn(&Figures<'_>) -> Option<String>;

const REASONS: &[(&str, Reason)] = &[
    (NODE_REDLOCK, |f| {
        let quorlock = f.get("quorlock", "W1", 5, CLIENT)? + f.get("quorlock", "W1", 5, SERVER)?;
        let node = f.find("node-redlock", "W1", 5)?;
        Some(format!(
            "node-redlock fills {} of a core with its one thread; client and servers of quorlock use {} µs of CPU per cycle",
            Percent.text(node.client_cores?),
            number(Some(quorlock))
        ))
    }),
    (MERGED_FLOOR, |f| {
        Some(format!(
            "that floor sends in lock step from one thread, with no task, timer or name per lock: {} µs of client CPU per cycle, where quorlock has {}",
            number(f.get("floor", "W1", 5, CLIENT)),
            number(f.get("quorlock-plain", "W1", 5, CLIENT))
        ))
    }),
    (SIDECAR_SHARE, |f| {
        let empty = f.get("floor-http", "W1", 5, CLIENT)?;
        let direct = f.get("quorlock", "W1", 5, CLIENT)? + f.get("quorlock", "W1", 5, SERVER)?;
        Some(format!(
            "two empty HTTP exchanges of the same client and server use {} µs of CPU, direct use {} µs with its servers: \
             a sidecar that needs no time itself reaches {}",
            number(Some(empty)),
            number(Some(direct)),
            Percent.text(direct / (direct + empty))
        ))
    }),
    (W2_PEER, |f| {
        let best = f.versus_lowest("W2", 5, P50)? / f.versus("floor-fenced", "W2", 5, P50)?;
        Some(format!(
            "blocking sockets that send the same votes (`floor-fenced`) reach {} times",
            short(best)
        ))
    }),
    (W4_CYCLES, |f| {
        Some(format!(
            "each hold lasts 1 ms, so a mutex in memory makes {} cycles/s; a peer also counts a client that releases the lock and takes it again at once",
            number(Some(f.get("mutex", "W3", 5, SPEED)?))
        ))
    }),
    (W6_CPU, |f| {
        let clients = |field| Some(f.with_clients(10_000, field)? / f.with_clients(100, field)?);
        Some(format!(
            "the servers use {} times as much per cycle, too; that many names and tasks fit into no cache of the processor",
            short(clients(SERVER)?)
        ))
    }),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_digits_that_a_goal_needs() {
        for (value, text) in [(7.604, "7.6"), (95.4, "95"), (5.0, "5"), (0.631, "0.63"), (0.0, "0")] {
            assert_eq!(short(value), text);
        }
        assert_eq!(Fraction.text(1.0 / 6.0), "1/6");
        assert_eq!(Fraction.text(1.4), "1.4");
        assert_eq!(Percent.text(0.153), "15 %");
    }

    #[test]
    fn every_reason_belongs_to_a_goal() {
        for (what, _) in REASONS {
            assert!(GOALS.iter().any(|goal| goal.what == *what), "{what}");
        }
    }
}
