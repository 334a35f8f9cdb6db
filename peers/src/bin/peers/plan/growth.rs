//! How cost grows: one quantity after the other, up to a size where something saturates.

use super::{BASE, Cell, PRIMITIVES};
use peers::protocol::Workload;

/// Short runs, because there are many.
const QUORLOCK: Cell = Cell { roster: PRIMITIVES, seconds: Some(0.5), ..BASE };

pub fn cells() -> Vec<Cell> {
    let one = Cell { load: Workload::One, ..QUORLOCK };
    let mut cells = Vec::new();
    cells.extend([100, 10_000, 100_000].map(|names| Cell {
        workload: "growth-names",
        what: "names in turn",
        load: Workload::Many,
        names,
        size: names,
        ..QUORLOCK
    }));
    cells.extend([1, 10, 100, 1_000, 10_000].map(|clients| Cell {
        workload: "growth-clients",
        what: "clients with own names",
        clients,
        size: clients,
        // Ten thousand clients need more than a moment for some cycles each.
        seconds: Some(if clients == 10_000 { 3.0 } else { 0.5 }),
        ..QUORLOCK
    }));
    cells.extend([1, 3, 5, 9].map(|nodes| Cell {
        workload: "growth-nodes",
        what: "nodes",
        nodes,
        size: nodes,
        ..QUORLOCK
    }));
    cells.extend([100, 1_000, 10_000, 30_000, 60_000].map(held));
    cells.extend([1, 10, 100, 1_000, 10_000].map(|clients| Cell {
        workload: "growth-waiters",
        what: "clients of one process on one name",
        clients,
        size: clients,
        ..one
    }));
    cells.extend([2, 10, 20, 50].map(|processes| Cell {
        workload: "growth-contenders",
        what: "processes with one client each on one name",
        clients: processes,
        processes,
        size: processes,
        ..one
    }));
    cells.extend([1, 5, 20, 50].map(|processes| Cell {
        workload: "growth-processes",
        what: "processes that share 100 clients with own names",
        processes,
        size: processes,
        ..QUORLOCK
    }));
    cells.extend([20, 200, 400].map(|bytes| Cell {
        workload: "growth-label",
        what: "bytes of owner and reason",
        label_bytes: bytes,
        size: bytes,
        ..QUORLOCK
    }));
    cells
}

/// Locks that are only held. With a short ttl, so that keeping them alive saturates the machine.
fn held(clients: usize) -> Cell {
    Cell {
        workload: "growth-held",
        what: "locks held, ttl 3 s",
        clients,
        load: Workload::Held,
        ttl_ms: 3_000,
        // As long as the ttl, so that each lock is extended about three times.
        seconds: Some(3.0),
        size: clients,
        ..QUORLOCK
    }
}
