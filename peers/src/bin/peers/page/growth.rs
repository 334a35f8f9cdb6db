//! The sections of docs/performance-growth.md: a table and a plot for each quantity that grows.

use super::{machine, table};
use crate::row::{Report, Row};
use crate::table::number;

/// A server executes commands on one thread, which is busy when it uses this share of a core.
const BUSY_SERVER: f64 = 0.85;
/// The machine is busy when client and servers use this share of its cores.
const BUSY_MACHINE: f64 = 0.9;

/// The workloads, what grows in each, and a title.
const QUANTITIES: [(&str, &str, &str); 8] = [
    ("growth-names", "names", "Names that 100 clients take in turn"),
    ("growth-clients", "clients", "Clients, each with its own name"),
    ("growth-nodes", "nodes", "Nodes"),
    ("growth-held", "locks", "Locks held and kept alive, ttl 3 s"),
    ("growth-waiters", "clients", "Clients of one process on one name"),
    ("growth-contenders", "processes", "Processes with one client each on one name"),
    ("growth-processes", "processes", "Processes that share 100 clients with own names"),
    ("growth-label", "bytes", "Length of owner and reason, which are stored with a lock"),
];

/// The text of a place in the template; `None` if there is no such place.
pub fn section(place: &str, report: &Report) -> Option<String> {
    Some(match place {
        "machine" => {
            let is_here = |row: &&Row| row.workload.starts_with("growth-");
            machine(report, is_here, "0.5 s, or of 3 s with 10 000 clients and with held locks")
        }
        "busy_server" => format!("{:.0} %", BUSY_SERVER * 100.0),
        "busy_machine" => format!("{:.0} %", BUSY_MACHINE * 100.0),
        "sections" => QUANTITIES.iter().map(|quantity| quantity_section(quantity, report)).collect(),
        _ => return None,
    })
}

fn quantity_section((workload, what, title): &(&str, &str, &str), report: &Report) -> String {
    let rows: Vec<&Row> = report.rows.iter().filter(|row| row.workload == *workload).collect();
    if rows.is_empty() {
        return String::new();
    }
    let table = match *workload {
        "growth-held" => held(&rows, report.cores),
        _ => cycles(what, &rows, report.cores),
    };
    format!(
        "## {title}\n\n{table}\n{}\n\n![{title}](plots/{workload}.svg)\n\n",
        verdict(what, &rows, report.cores)
    )
}

fn cycles(what: &str, rows: &[&Row], cores: usize) -> String {
    let has_handoffs = rows.iter().any(|row| row.handoffs_per_s.is_some());
    let mut head = vec![
        what,
        "cycles/s",
        "acquire p50, ms",
        "client CPU, µs per cycle",
        "server CPU, µs per cycle",
        "cores: client + servers (busiest)",
        "limit",
    ];
    if has_handoffs {
        head.insert(2, "handoffs/s");
    }
    let line = |row: &&Row| {
        let mut cells = vec![
            row.size.to_string(),
            number(row.cycles_per_s),
            number(row.acquire_p50_ms),
            number(row.client_cpu_us_per_cycle),
            number(row.server_cpu_us_per_cycle),
            cores_of(row),
            limit(row, cores).unwrap_or_default(),
        ];
        if has_handoffs {
            cells.insert(2, number(row.handoffs_per_s));
        }
        cells
    };
    table(&head, rows.iter().map(line))
}

fn held(rows: &[&Row], cores: usize) -> String {
    let head = ["locks", "MB of the client", "cores: client + servers (busiest)", "locks lost", "limit"];
    let line = |row: &&Row| {
        vec![
            row.size.to_string(),
            number(row.rss_mb),
            cores_of(row),
            number(row.failed),
            limit(row, cores).unwrap_or_default(),
        ]
    };
    table(&head, rows.iter().map(line))
}

fn cores_of(row: &Row) -> String {
    let [client, servers, busiest] =
        [row.client_cores, row.server_cores, row.busiest_server_cores].map(number);
    format!("{client} + {servers} ({busiest})")
}

/// What saturates; `None` if nothing does.
fn limit(row: &Row, cores: usize) -> Option<String> {
    let (client, servers) = (row.client_cores?, row.server_cores?);
    let mut limits = Vec::new();
    if row.busiest_server_cores? >= BUSY_SERVER {
        limits.push("a server's thread");
    }
    if client + servers >= BUSY_MACHINE * cores as f64 {
        limits.push(if client > servers {
            "all cores, most by the client"
        } else {
            "all cores, most by the servers"
        });
    }
    (!limits.is_empty()).then(|| limits.join(", "))
}

fn verdict(what: &str, rows: &[&Row], cores: usize) -> String {
    let first = rows.iter().find_map(|row| Some((row.size, limit(row, cores)?)));
    match first {
        Some((size, limit)) => format!("Saturated from {what} = {size}: {limit}."),
        None => "Nothing saturates: the clients wait for round trips.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(client: f64, servers: f64, busiest: f64) -> Row {
        let text = format!(
            r#"{{"contestant": "quorlock", "version": "1", "workload": "growth-names", "what": "", "size": 1, "nodes": 1,
            "clients": 1, "processes": 1, "runs": 1, "client_cores": {client}, "server_cores": {servers},
            "busiest_server_cores": {busiest}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_saturates_is_named() {
        assert_eq!(limit(&row(0.2, 0.3, 0.1), 2), None);
        assert_eq!(limit(&row(0.2, 0.9, 0.9), 2).unwrap(), "a server's thread");
        assert_eq!(limit(&row(0.5, 1.4, 0.3), 2).unwrap(), "all cores, most by the servers");
        assert_eq!(limit(&row(1.5, 0.4, 0.3), 2).unwrap(), "all cores, most by the client");
    }
}
