//! Which charts are drawn: contestants against clients and nodes, and what quorlock costs when one quantity grows.

use crate::chart::{Chart, Line};
use crate::contestants;
use crate::row::Row;
use anyhow::{Result, anyhow};
use std::path::Path;

/// Not in the plots: the limits of a lone client, which are not about many, and other runtimes of those that are there.
const ASIDE: [&str; 4] = ["floor-quorum", "floor-fenced", "quorlock-one-thread", "rslock-one-thread"];

type Field = fn(&Row) -> Option<f64>;

/// One picture: rows of a workload, what both axes show.
struct Plot {
    file: &'static str,
    title: &'static str,
    workload: &'static str,
    across: (&'static str, fn(&Row) -> f64),
    up: &'static str,
    lines: Lines,
}

enum Lines {
    /// A line for each contestant.
    Contestants(Field),
    /// Lines of quorlock.
    Quorlock([(&'static str, Field); 2]),
}

const CLIENTS: (&str, fn(&Row) -> f64) = ("clients", |row| row.clients as f64);
const NODES: (&str, fn(&Row) -> f64) = ("nodes", |row| row.nodes as f64);
const SPEED: (&str, Field) = ("cycles per second", |row| row.cycles_per_s);
const WAIT: (&str, Field) = ("acquire p99, ms", |row| row.acquire_p99_ms);

const PLOTS: [Plot; 12] = [
    compare("throughput-clients", "Throughput, own names, 5 nodes", "W6-growth", CLIENTS, SPEED),
    compare("latency-clients", "Time to acquire (p99), own names, 5 nodes", "W6-growth", CLIENTS, WAIT),
    compare("throughput-nodes", "Throughput, own names, 100 clients", "W1", NODES, SPEED),
    compare("latency-nodes", "Time to acquire (p99), own names, 100 clients", "W1", NODES, WAIT),
    growth("growth-names", "CPU of a cycle against names", "names that 100 clients take in turn"),
    growth("growth-clients", "CPU of a cycle against clients", "clients with own names"),
    growth("growth-nodes", "CPU of a cycle against nodes", "nodes"),
    Plot {
        up: "share of a core",
        lines: Lines::Quorlock([("client", |row| row.client_cores), ("all servers", |row| row.server_cores)]),
        ..growth("growth-held", "CPU of held locks, ttl 3 s", "locks held")
    },
    growth("growth-waiters", "CPU of a cycle against waiters", "clients of one process on one name"),
    growth(
        "growth-contenders",
        "CPU of a cycle against processes",
        "processes with a client each on one name",
    ),
    growth("growth-processes", "CPU of a cycle against processes", "processes that share 100 clients"),
    growth("growth-label", "CPU of a cycle against stored text", "bytes of owner and reason"),
];

const fn compare(
    file: &'static str,
    title: &'static str,
    workload: &'static str,
    across: (&'static str, fn(&Row) -> f64),
    up: (&'static str, Field),
) -> Plot {
    Plot { file, title, workload, across, up: up.0, lines: Lines::Contestants(up.1) }
}

const fn growth(workload: &'static str, title: &'static str, across: &'static str) -> Plot {
    Plot {
        file: workload,
        title,
        workload,
        across: (across, |row| row.size as f64),
        up: "µs of CPU",
        lines: Lines::Quorlock([
            ("client", |row| row.client_cpu_us_per_cycle),
            ("all servers", |row| row.server_cpu_us_per_cycle),
        ]),
    }
}

/// Draws every plot for which there are rows.
pub fn draw(rows: &[Row], directory: &Path) -> Result<()> {
    for plot in &PLOTS {
        let chart = plot.chart(rows);
        if chart.has_lines() {
            let file = directory.join(plot.file).with_extension("svg");
            chart.draw(&file).map_err(|error| anyhow!("{}: {error}", file.display()))?;
        }
    }
    Ok(())
}

impl Plot {
    fn chart<'a>(&'a self, rows: &'a [Row]) -> Chart<'a> {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.workload == self.workload).collect();
        let lines = match &self.lines {
            Lines::Contestants(field) => self.by_contestant(&rows, *field),
            Lines::Quorlock(fields) => {
                let line = |(colour, (name, field)): (usize, &(&'static str, Field))| Line {
                    name,
                    colour: 2 * colour,
                    points: self.points(&rows, "quorlock", *field),
                };
                fields.iter().enumerate().map(line).collect()
            }
        };
        Chart { title: self.title, across: self.across.0, up: self.up, lines }
    }

    fn by_contestant<'a>(&self, rows: &[&'a Row], field: Field) -> Vec<Line<'a>> {
        let mut lines: Vec<Line<'a>> = Vec::new();
        for row in rows.iter().filter(|row| !ASIDE.contains(&row.contestant.as_str())) {
            if lines.iter().all(|line| line.name != row.contestant) {
                let colour = contestants::names().iter().position(|name| *name == row.contestant);
                let points = self.points(rows, &row.contestant, field);
                lines.push(Line { name: &row.contestant, colour: colour.unwrap_or(0), points });
            }
        }
        lines.retain(|line| !line.points.is_empty());
        lines
    }

    /// What one contestant has; a logarithmic axis has no place for 0.
    fn points(&self, rows: &[&Row], contestant: &str, field: Field) -> Vec<(f64, f64)> {
        let rows = rows.iter().filter(|row| row.contestant == contestant);
        rows.filter_map(|row| Some(((self.across.1)(row), field(row).filter(|value| *value > 0.0)?)))
            .collect()
    }
}
