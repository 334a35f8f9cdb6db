//! The longest ttl that the nodes of a locker have recorded, and which nodes have reported theirs.

use crate::context::mutex::Mutex;
use crate::context::watched::Watched;
use quorlock_core::Quorum;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// What all nodes of a locker know together about the longest ttl in use. Cheap to clone.
///
/// A node that lost its memory has lost its record, too, and learns it from the others. So the largest
/// record of any node decides how long each of them is quarantined, and what is written to a node that
/// has no record.
#[derive(Clone, Debug)]
pub(crate) struct LongestTtl(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The largest record of any node, in milliseconds; 0 while none is known. It never shrinks.
    recorded: AtomicU64,
    /// How many nodes are a majority.
    needed: AtomicUsize,
    nodes: Mutex<BTreeSet<Arc<str>>>,
    /// How many nodes have reported, with a record or without.
    reported: Watched<usize>,
}

impl Default for LongestTtl {
    fn default() -> Self {
        Self(Arc::new(Shared {
            recorded: AtomicU64::new(0),
            needed: AtomicUsize::new(1),
            nodes: Mutex::default(),
            reported: Watched::new(0),
        }))
    }
}

impl LongestTtl {
    /// Sets the quorum of which a majority must report.
    pub(crate) fn set_quorum(&self, quorum: Quorum) {
        self.0.needed.store(quorum.needed(), Ordering::Relaxed);
    }

    /// The largest record of any node that has reported; zero if none is known.
    pub(crate) fn recorded(&self) -> Duration {
        Duration::from_millis(self.0.recorded.load(Ordering::Acquire))
    }

    /// Records that `node` has `record`, or has none.
    pub(crate) fn record(&self, node: &Arc<str>, record: Option<Duration>) {
        let millis = record.unwrap_or_default().as_millis();
        self.0.recorded.fetch_max(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::AcqRel);
        let mut nodes = self.0.nodes.lock();
        if nodes.insert(node.clone()) {
            self.0.reported.set(nodes.len());
        }
    }

    /// Whether a majority of nodes has reported, so that a node without a record may get one.
    pub(crate) fn has_majority(&self) -> bool {
        self.0.reported.get() >= self.0.needed.load(Ordering::Relaxed)
    }

    /// Waits until a majority of nodes has reported, for `limit` at most.
    pub(crate) async fn wait_majority(&self, limit: Duration) {
        let needed = self.0.needed.load(Ordering::Relaxed);
        let majority = self.0.reported.wait_for(|reported| reported >= needed);
        // If no majority reports in time, a later verification asks again.
        let _ = tokio::time::timeout(limit, majority).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_record_of_any_node_counts_and_never_shrinks() {
        let longest = LongestTtl::default();
        longest.set_quorum(Quorum::of(3).unwrap());
        assert_eq!(longest.recorded(), Duration::ZERO);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        longest.record(&a, Some(Duration::from_secs(120)));
        assert!(!longest.has_majority(), "one of three is no majority");
        longest.record(&a, Some(Duration::from_secs(30)));
        assert!(!longest.has_majority(), "the same node counts once");
        longest.record(&b, None);
        assert!(longest.has_majority());
        assert_eq!(longest.recorded(), Duration::from_secs(120));
    }
}
