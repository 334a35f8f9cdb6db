//! The sections of PERFORMANCE.md.

use super::contestants::label;
use super::{machine, table};
use crate::engines::Engines;
use crate::figures::{CLIENT, Field, Figures, HANDOFFS, P50, PEERS, SERVER, SPEED};
use crate::goals;
use crate::row::{Report, Row};
use crate::table::number;

/// The text of a place in the template; `None` if there is no such place.
pub fn section(place: &str, report: &Report, figures: &Figures<'_>, engines: &Engines) -> Option<String> {
    Some(match place {
        "machine" => {
            let is_here = |row: &&Row| !row.workload.starts_with("growth-");
            machine(report, is_here, &format!("{} s", report.seconds))
        }
        "summary" => summary(figures),
        "own_names_5" => own_names(figures, 5),
        "own_names_1" => own_names(figures, 1),
        "contended" => contended(figures),
        "goals" => goals_table(figures),
        "engines" => engines_table(engines),
        "primitives" => primitives(figures),
        "skipped" => skipped(report, engines),
        _ => return None,
    })
}

/// One comparison of the first table.
struct Column {
    title: &'static str,
    workload: &'static str,
    nodes: usize,
    field: Field,
    /// Whether a small figure is good.
    less_is_better: bool,
}

const fn column(title: &'static str, workload: &'static str, nodes: usize, field: Field) -> Column {
    Column { title, workload, nodes, field, less_is_better: false }
}

const SUMMARY: [Column; 6] = [
    column("5 nodes, 100 clients, own names: cycles/s", "W1", 5, SPEED),
    Column { less_is_better: true, ..column("client CPU per cycle there", "W1", 5, CLIENT) },
    Column { less_is_better: true, ..column("5 nodes, 1 client: time to acquire (p50)", "W2", 5, P50) },
    column("5 nodes, 100 clients, one name: handoffs/s", "W7-handoffs", 5, HANDOFFS),
    column("1 node, 100 clients, own names: cycles/s", "W1", 1, SPEED),
    column("1 node, 100 clients, one name: handoffs/s", "W7-handoffs", 1, HANDOFFS),
];

/// How many times as good quorlock is as each peer.
fn summary(figures: &Figures<'_>) -> String {
    let head: Vec<&str> =
        ["quorlock compared with"].into_iter().chain(SUMMARY.map(|column| column.title)).collect();
    let rows = PEERS.iter().filter_map(|peer| {
        let row = figures.find(peer, "W1", 5).or_else(|| figures.find(peer, "W1", 1))?;
        let cells = SUMMARY.iter().map(|column| {
            let ratio = figures.versus(peer, column.workload, column.nodes, column.field);
            times(ratio.map(|ratio| if column.less_is_better { 1.0 / ratio } else { ratio }))
        });
        Some([label(row)].into_iter().chain(cells).collect())
    });
    table(&head, rows)
}

fn times(ratio: Option<f64>) -> String {
    match ratio.filter(|ratio| ratio.is_finite()) {
        None => "-".to_owned(),
        Some(ratio) if ratio >= 10.0 => format!("{ratio:.0} times"),
        Some(ratio) => format!("{ratio:.1} times"),
    }
}

fn own_names(figures: &Figures<'_>, nodes: usize) -> String {
    let head = [
        "contestant",
        "cycles/s",
        "acquire p50, ms",
        "acquire p99, ms",
        "client CPU, µs per cycle",
        "server CPU, µs per cycle",
    ];
    let rows = figures.in_cell("W1", nodes).map(|row| {
        vec![
            label(row),
            speed(row),
            number(row.acquire_p50_ms),
            number(row.acquire_p99_ms),
            number(row.client_cpu_us_per_cycle),
            number(row.server_cpu_us_per_cycle),
        ]
    });
    table(&head, rows)
}

/// The median with the lowest and highest.
fn speed(row: &Row) -> String {
    let [median, low, high] = [row.cycles_per_s, row.cycles_per_s_min, row.cycles_per_s_max].map(number);
    let median = if row.contestant == "quorlock" { format!("**{median}**") } else { median };
    format!("{median} [{low}-{high}]")
}

fn contended(figures: &Figures<'_>) -> String {
    let head = [
        "5 nodes",
        "W7, 1 process: handoffs/s",
        "W7, 10 processes: handoffs/s",
        "most turns of a process to fewest",
        "W4, 10 processes: handoffs/s",
        "p99 wait, ms",
        "most turns of a process to fewest",
    ];
    let rows = figures.in_cell("W7-handoffs", 5).map(|row| {
        let many = figures.find(&row.contestant, "W7-processes", 5);
        let busy = figures.find(&row.contestant, "W4", 5);
        let turns = |row: Option<&Row>| row.map_or_else(|| "-".to_owned(), turns);
        vec![
            label(row),
            number(row.handoffs_per_s),
            number(many.and_then(|row| row.handoffs_per_s)),
            turns(many),
            number(busy.and_then(|row| row.handoffs_per_s)),
            number(busy.and_then(|row| row.acquire_p99_ms)),
            turns(busy),
        ]
    });
    table(&head, rows)
}

fn turns(row: &Row) -> String {
    row.process_fairness.map_or_else(|| "one had none".to_owned(), |ratio| number(Some(ratio)))
}

fn goals_table(figures: &Figures<'_>) -> String {
    let rows = goals::results(figures).into_iter().map(|goal| {
        let verdict = match (goal.is_met, goal.why) {
            (true, _) => "met".to_owned(),
            (false, None) => "**missed**".to_owned(),
            (false, Some(why)) => format!("**missed**: {why}"),
        };
        vec![goal.what.to_owned(), goal.bound, goal.found, verdict]
    });
    table(&["goal", "bound", "result", ""], rows)
}

fn engines_table(engines: &Engines) -> String {
    let head = [
        "engine",
        "native lock",
        "cycles/s of 100 clients, quorlock and native",
        "ratio (goal: at least 1)",
        "acquire p50 of 1 client, µs, quorlock and native",
        "ratio (goal: at most 1.3)",
    ];
    let rows = engines.natives().into_iter().filter_map(|(engine, native)| {
        let pair = |clients, who: &str| engines.find(engine, "own", clients, who);
        let (ours, theirs) = (pair(100, "quorlock")?, pair(100, native)?);
        let (our_one, their_one) = (pair(1, "quorlock")?, pair(1, native)?);
        let (speed, wait) = (ours.rate / theirs.rate, our_one.p50_us / their_one.p50_us);
        Some(vec![
            engines.server(engine).to_owned(),
            native.to_owned(),
            format!("{:.0}, {:.0}", ours.rate, theirs.rate),
            verdict(speed, speed >= 1.0),
            format!("{:.0}, {:.0}", our_one.p50_us, their_one.p50_us),
            verdict(wait, wait <= 1.3),
        ])
    });
    match engines.rows.is_empty() {
        true => "Not measured in this run.".to_owned(),
        false => table(&head, rows),
    }
}

fn verdict(ratio: f64, is_met: bool) -> String {
    if is_met { format!("{ratio:.2}") } else { format!("**{ratio:.2}, missed**") }
}

/// What a cycle takes and frees, and the workload that measures it.
const PRIMITIVES: [(&str, &str); 4] = [
    ("one name of its own, alone", "W1"),
    ("one name that all share", "W8-readers"),
    ("4 names of its own together", "W9-names"),
    ("a permit of its own semaphore with 16 slots", "W10-permits"),
];

fn primitives(figures: &Figures<'_>) -> String {
    let head = [
        "5 nodes, 100 clients of quorlock; a cycle takes and frees",
        "cycles/s",
        "client CPU, µs per cycle",
        "server CPU, µs per cycle",
    ];
    let rows = PRIMITIVES.iter().filter_map(|(what, workload)| {
        let row = figures.find("quorlock", workload, 5)?;
        Some(vec![(*what).to_owned(), number(SPEED(row)), number(CLIENT(row)), number(SERVER(row))])
    });
    table(&head, rows)
}

/// What did not run, so that no reader takes a missing row for a choice.
fn skipped(report: &Report, engines: &Engines) -> String {
    let contestants = report.skipped.iter().map(|skipped| skipped.to_string());
    let engines = engines.skipped.iter().map(|skipped| format!("skipped {skipped}"));
    let lines: Vec<String> = contestants.chain(engines).collect();
    if lines.is_empty() { String::new() } else { format!("- What did not run: {}.", lines.join("; ")) }
}
