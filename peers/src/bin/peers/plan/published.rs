//! Which workloads the published page shows, and who takes part there. A run of all of them takes less than an hour.

use super::{Cell, PRIMITIVES};

const FIVE_NODES: &[&str] = &[
    "quorlock",
    "quorlock-plain",
    "quorlock-serve",
    "rslock",
    "redsync",
    "node-redlock",
    "redis-semaphore",
    "redlock-py",
    "pottery",
    "redisson",
    "redis-crate",
    "floor",
    "floor-split",
    "floor-fenced",
    "floor-http",
];
const ONE_NODE: &[&str] = &[
    "quorlock",
    "quorlock-plain",
    "quorlock-serve",
    "rslock",
    "redsync",
    "rueidislock",
    "node-redlock",
    "redis-semaphore",
    "redlock-py",
    "pottery",
    "redisson",
    "redis-crate",
    "floor",
];
const ONE_CLIENT: &[&str] = &[
    "quorlock",
    "rslock",
    "redsync",
    "redsync-failfast",
    "rueidislock",
    "node-redlock",
    "redis-semaphore",
    "redlock-py",
    "pottery",
    "redisson",
    "floor-fenced",
    "floor-async",
];
/// redlock-py and pottery get a contended lock a few times a second, and then wait for up to 10 s after the end.
const ONE_NAME: &[&str] =
    &["quorlock", "rslock", "redsync", "rueidislock", "node-redlock", "redis-semaphore", "redisson", "mutex"];
/// Ten Java machines would only measure how two cores are shared.
const TEN_PROCESSES: &[&str] =
    &["quorlock", "rslock", "redsync", "rueidislock", "node-redlock", "redis-semaphore"];
/// `RedissonRedLock` on one name goes on for ten seconds after the end, too; W3 has it.
const WITHOUT_WORK: &[&str] = &["quorlock", "rslock", "redsync", "node-redlock", "redis-semaphore"];
const WITHOUT_NODES: &[&str] = &["quorlock", "redsync-failfast", "node-redlock", "redis-semaphore"];

/// `cell` as it runs for the page; `None` if the page does not show it.
pub fn on_the_page(cell: Cell) -> Option<Cell> {
    let roster = match (cell.workload, cell.nodes) {
        ("W1", 5) => FIVE_NODES,
        ("W1", 1) => ONE_NODE,
        ("W2", 5) => ONE_CLIENT,
        ("W3", _) => ONE_NAME,
        ("W7-handoffs", 5) => WITHOUT_WORK,
        ("W7-handoffs", _) => ONE_NAME.split_at(ONE_NAME.len() - 1).0,
        ("W4", _) | ("W7-processes", 5) => TEN_PROCESSES,
        ("W5-mute", _) => WITHOUT_NODES,
        ("W6-held", _) => PRIMITIVES,
        ("W8-readers", 5) if cell.clients == 100 => PRIMITIVES,
        ("W9-names", 5) if cell.names == 4 => PRIMITIVES,
        ("W10-permits", 5) if cell.slots == 16 => PRIMITIVES,
        (workload, _) if workload.starts_with("growth-") => PRIMITIVES,
        _ => return None,
    };
    // quorlock extends a lock after a third of its ttl, so it extends all within this time.
    let seconds = if cell.workload == "W6-held" { Some(12.0) } else { cell.seconds };
    Some(Cell { roster, seconds, ..cell })
}
