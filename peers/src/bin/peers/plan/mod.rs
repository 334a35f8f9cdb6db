//! What is measured: the workloads, and who takes part in each.

mod growth;
mod published;

use crate::contestants::{BASELINE, Contestant};
use peers::protocol::Workload;

/// What is wrong with the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// Two of five accept connections and never answer.
    TwoMute,
    /// The answers of one come 20 ms later.
    OneSlow,
}

/// One workload with one number of nodes and clients.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub workload: &'static str,
    pub what: &'static str,
    pub nodes: usize,
    /// Clients of all processes together.
    pub clients: usize,
    pub processes: usize,
    pub load: Workload,
    /// How many names are taken together, or in turn.
    pub names: usize,
    /// What grows, in a workload about growth: names, nodes, bytes.
    pub size: usize,
    pub label_bytes: usize,
    /// How many slots a semaphore has.
    pub slots: u32,
    pub trouble: Trouble,
    pub ttl_ms: u64,
    pub hold_us: u64,
    /// How long it is measured, if not as long as the others.
    pub seconds: Option<f64>,
    roster: &'static [&'static str],
}

impl Cell {
    /// Those of `contestants` that take part.
    pub fn entrants<'a>(&self, contestants: &'a [Contestant]) -> impl Iterator<Item = &'a Contestant> {
        let roster = self.roster;
        // A baseline is compared wherever quorlock runs.
        let name = |contestant: &Contestant| match contestant.name {
            BASELINE => "quorlock",
            name => name,
        };
        let nodes = self.nodes;
        contestants.iter().filter(move |contestant| {
            roster.contains(&name(contestant)) && (nodes == 1 || !contestant.one_node)
        })
    }

    pub fn title(&self) -> String {
        title(self.workload, self.what, self.size, self.nodes, self.clients)
    }
}

pub fn title(workload: &str, what: &str, size: usize, nodes: usize, clients: usize) -> String {
    let s = |count| if count == 1 { "" } else { "s" };
    let size = if size > 0 { format!("{size} ") } else { String::new() };
    format!("{workload}: {size}{what}, {nodes} node{}, {clients} client{}", s(nodes), s(clients))
}

const ALL: &[&str] = &[
    "quorlock",
    "quorlock-plain",
    "quorlock-serve",
    "rslock",
    "redsync",
    "redsync-failfast",
    "rueidislock",
    "node-redlock",
    "redis-semaphore",
    "redlock-py",
    "pottery",
    "redisson",
    "redis-crate",
    "floor",
    "floor-split",
    "floor-quorum",
    "floor-fenced",
    "floor-async",
    "floor-http",
    "quorlock-one-thread",
    "rslock-one-thread",
];
/// Those that wait for a lock, and what the work under the lock alone allows. The prototype and the floors only poll or do not
/// wait at all.
const WAITING_INSIDE: &[&str] = &[
    "quorlock",
    "rslock",
    "redsync",
    "rueidislock",
    "node-redlock",
    "redis-semaphore",
    "redlock-py",
    "pottery",
    "redisson",
    "mutex",
];
/// The same without the mutex, which is of one process.
const WAITING: &[&str] = WAITING_INSIDE.split_at(WAITING_INSIDE.len() - 1).0;
/// Those that could go on without some nodes.
const TROUBLED: &[&str] = &[
    "quorlock",
    "rslock",
    "redsync",
    "redsync-failfast",
    "node-redlock",
    "redis-semaphore",
    "redlock-py",
    "pottery",
    "redisson",
];
/// Those whose clients are tasks. Ten thousand threads would measure the kernel.
const GROWING: &[&str] = &["quorlock", "rslock", "redsync", "node-redlock", "redis-crate", "floor"];
/// Those that keep a lock alive by themselves.
const KEEPING: &[&str] = &["quorlock", "node-redlock", "redisson"];

/// What only quorlock offers on a majority of nodes.
const PRIMITIVES: &[&str] = &["quorlock"];

const BASE: Cell = Cell {
    workload: "W1",
    what: "own names",
    nodes: 5,
    clients: 100,
    processes: 1,
    load: Workload::Own,
    names: 1,
    size: 0,
    label_bytes: 0,
    slots: 1,
    trouble: Trouble::None,
    ttl_ms: 10_000,
    hold_us: 0,
    seconds: None,
    roster: ALL,
};

pub fn cells() -> Vec<Cell> {
    let contended = Cell { load: Workload::One, hold_us: 1_000, roster: WAITING, ..BASE };
    let troubled = Cell { roster: TROUBLED, ..BASE };
    let mut cells = Vec::new();
    cells.extend([1, 3, 5].map(|nodes| Cell { nodes, ..BASE }));
    cells.extend([1, 5].map(|nodes| Cell { workload: "W2", what: "one client", nodes, clients: 1, ..BASE }));
    cells.push(Cell { workload: "W3", what: "one name, one process", roster: WAITING_INSIDE, ..contended });
    cells.push(Cell { workload: "W4", what: "one name, ten processes", processes: 10, ..contended });
    cells.push(Cell { workload: "W5-mute", what: "two nodes mute", trouble: Trouble::TwoMute, ..troubled });
    cells.push(Cell { workload: "W5-slow", what: "one node slow", trouble: Trouble::OneSlow, ..troubled });
    cells.extend([10, 100, 1_000, 10_000].map(|clients| Cell {
        workload: "W6-growth",
        what: "more clients",
        clients,
        // Ten thousand clients need more than a moment for some cycles each.
        seconds: (clients == 10_000).then_some(6.0),
        roster: GROWING,
        ..BASE
    }));
    cells.push(Cell {
        workload: "W6-held",
        what: "locks held and kept alive",
        clients: 10_000,
        load: Workload::Held,
        ttl_ms: 30_000,
        // As long as the ttl, so that every library extends every lock.
        seconds: Some(30.0),
        roster: KEEPING,
        ..BASE
    });
    for nodes in [1, 5] {
        let handoffs = Cell { nodes, load: Workload::One, roster: WAITING_INSIDE, ..BASE };
        cells.push(Cell { workload: "W7-handoffs", what: "one name, no work, one process", ..handoffs });
        cells.push(Cell {
            workload: "W7-processes",
            what: "one name, no work, ten processes",
            processes: 10,
            roster: WAITING,
            ..handoffs
        });
    }
    for nodes in [1, 5] {
        cells.extend(primitives(Cell { nodes, roster: PRIMITIVES, ..BASE }));
    }
    cells.extend(growth::cells());
    cells
}

/// The cells of the published page, each with those who are shown there.
pub fn published() -> Vec<Cell> {
    cells().into_iter().filter_map(published::on_the_page).collect()
}

/// Shared locks, several names and permits, to compare with W1 on as many nodes.
fn primitives(base: Cell) -> Vec<Cell> {
    let shared = Cell { workload: "W8-shared", what: "shared, own names", load: Workload::SharedOwn, ..base };
    let mut cells = vec![shared];
    cells.extend([1, 10, 100].map(|clients| Cell {
        workload: "W8-readers",
        what: "readers of one name",
        clients,
        load: Workload::SharedOne,
        ..base
    }));
    let sets = [(2, "2 names together"), (4, "4 names together"), (16, "16 names together")];
    cells.extend(sets.map(|(names, what)| Cell {
        workload: "W9-names",
        what,
        load: Workload::Names,
        names,
        ..base
    }));
    let own = [(4, "own semaphores of 4 slots"), (16, "own semaphores of 16 slots")];
    cells.extend(own.map(|(slots, what)| Cell {
        workload: "W10-permits",
        what,
        load: Workload::PermitsOwn,
        slots,
        ..base
    }));
    let one = [(4, "one semaphore of 4 slots"), (16, "one semaphore of 16 slots")];
    cells.extend(one.map(|(slots, what)| Cell {
        workload: "W10-contended",
        what,
        load: Workload::PermitsOne,
        slots,
        hold_us: 1_000,
        ..base
    }));
    cells
}
