//! Figures of one run, to look up by contestant, workload and nodes.

use crate::engines::Clients;
use crate::row::Row;

pub struct Figures<'a> {
    pub rows: &'a [Row],
    /// What the sidecar clients of other languages cost; measured by their own program.
    pub clients: Clients,
}

pub type Field = fn(&Row) -> Option<f64>;

pub const SPEED: Field = |row| row.cycles_per_s;
pub const HANDOFFS: Field = |row| row.handoffs_per_s;
pub const P50: Field = |row| row.acquire_p50_ms;
pub const P99: Field = |row| row.acquire_p99_ms;
pub const CLIENT: Field = |row| row.client_cpu_us_per_cycle;
pub const SERVER: Field = |row| row.server_cpu_us_per_cycle;

/// Lock libraries of other people.
pub const PEERS: [&str; 9] = [
    "rslock",
    "redsync",
    "redsync-failfast",
    "rueidislock",
    "node-redlock",
    "redis-semaphore",
    "redlock-py",
    "pottery",
    "redisson",
];

impl<'a> Figures<'a> {
    pub fn find(&self, who: &str, workload: &str, nodes: usize) -> Option<&'a Row> {
        self.in_cell(workload, nodes).find(|row| row.contestant == who)
    }

    pub fn in_cell(&self, workload: &str, nodes: usize) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.workload == workload && row.nodes == nodes)
    }

    pub fn get(&self, who: &str, workload: &str, nodes: usize, field: Field) -> Option<f64> {
        field(self.find(who, workload, nodes)?)
    }

    pub fn ratio(&self, who: &str, other: &str, workload: &str, nodes: usize, field: Field) -> Option<f64> {
        Some(self.get(who, workload, nodes, field)? / self.get(other, workload, nodes, field)?)
    }

    /// quorlock compared with another.
    pub fn versus(&self, other: &str, workload: &str, nodes: usize, field: Field) -> Option<f64> {
        self.ratio("quorlock", other, workload, nodes, field)
    }

    pub fn versus_lowest(&self, workload: &str, nodes: usize, field: Field) -> Option<f64> {
        let best = self.peers(workload, nodes, field).min_by(f64::total_cmp)?;
        Some(self.get("quorlock", workload, nodes, field)? / best)
    }

    pub fn versus_highest(&self, workload: &str, nodes: usize, field: Field) -> Option<f64> {
        let best = self.peers(workload, nodes, field).max_by(f64::total_cmp)?;
        Some(self.get("quorlock", workload, nodes, field)? / best)
    }

    /// A field of quorlock with so many clients, each with its own name.
    pub fn with_clients(&self, clients: usize, field: Field) -> Option<f64> {
        let is_growth = |row: &&Row| row.workload == "W6-growth" || row.workload == "growth-clients";
        let mut rows = self.rows.iter().filter(is_growth);
        field(rows.find(|row| row.contestant == "quorlock" && row.clients == clients)?)
    }

    /// The values of all peers.
    fn peers(&self, workload: &str, nodes: usize, field: Field) -> impl Iterator<Item = f64> {
        PEERS.iter().filter_map(move |peer| self.get(peer, workload, nodes, field))
    }
}
