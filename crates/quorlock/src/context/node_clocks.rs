//! What the wall clocks of the nodes show, carried forward on our own boot clock.

use crate::context::mutex::Mutex;
use quorlock_core::{Moment, Wall};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// No clock of a node is known.
const UNKNOWN: i64 = i64::MIN;

/// The wall clocks of all nodes of a locker. Cheap to clone.
///
/// Fences follow this clock and not our own, which may be wrong by any amount or jump: see DESIGN.md,
/// section 2. The boot clock does not jump, and each reading of a node's clock replaces the one before.
#[derive(Clone, Debug)]
pub(crate) struct NodeClocks(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// How far each node's wall clock is ahead of our boot clock, in microseconds.
    offsets: Mutex<BTreeMap<Arc<str>, i64>>,
    /// The median of them.
    median: AtomicI64,
}

impl Default for NodeClocks {
    fn default() -> Self {
        Self(Arc::new(Shared { offsets: Mutex::default(), median: AtomicI64::new(UNKNOWN) }))
    }
}

impl NodeClocks {
    /// Records that the clock of `node` showed `wall` when our boot clock showed `now`.
    pub(crate) fn record(&self, node: &Arc<str>, wall: Wall, now: Moment) {
        let mut offsets = self.0.offsets.lock();
        offsets.insert(node.clone(), offset(wall, now));
        self.0.median.store(median(offsets.values().copied()), Ordering::Relaxed);
    }

    /// What the clock of the median node shows at `now`; `None` if no clock is known.
    pub(crate) fn wall(&self, now: Moment) -> Option<Wall> {
        let median = self.0.median.load(Ordering::Relaxed);
        let boot = i64::try_from(now.since_boot().as_micros()).ok()?;
        let micros = boot.checked_add(median).filter(|_| median != UNKNOWN)?;
        u64::try_from(micros).ok().map(Wall::from_micros)
    }
}

fn offset(wall: Wall, now: Moment) -> i64 {
    let offset = i128::from(wall.as_micros()) - now.since_boot().as_micros() as i128;
    i64::try_from(offset).unwrap_or(i64::MAX)
}

/// The lower of the two in the middle, so that half of the nodes can never push it ahead.
fn median(offsets: impl Iterator<Item = i64>) -> i64 {
    let mut sorted: Vec<i64> = offsets.collect();
    sorted.sort_unstable();
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> Moment {
        Moment::from_boot(Duration::from_secs(seconds))
    }

    fn wall(seconds: u64) -> Wall {
        Wall::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn the_median_node_decides_and_is_carried_forward() {
        let clocks = NodeClocks::default();
        assert_eq!(clocks.wall(at(10)), None);
        for (node, shows) in [("a", 1_000), ("b", 1_003), ("c", 900_000)] {
            clocks.record(&node.into(), wall(shows), at(10));
        }
        assert_eq!(clocks.wall(at(10)), Some(wall(1_003)));
        assert_eq!(clocks.wall(at(15)), Some(wall(1_008)));
        clocks.record(&"b".into(), wall(1_001), at(20));
        assert_eq!(clocks.wall(at(20)), Some(wall(1_010)), "a reading replaces the one before");
    }

    #[test]
    fn of_two_nodes_the_one_that_is_ahead_does_not_count() {
        let clocks = NodeClocks::default();
        clocks.record(&"a".into(), wall(1_000), at(10));
        clocks.record(&"b".into(), wall(9_000_000), at(10));
        assert_eq!(clocks.wall(at(11)), Some(wall(1_001)));
    }
}
