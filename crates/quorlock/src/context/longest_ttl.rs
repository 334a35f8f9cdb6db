//! The longest ttl that the nodes of a locker have recorded, and which nodes have been heard about it.

use crate::context::mutex::Mutex;
use quorlock_core::Quorum;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// What all nodes of a locker know together about the longest ttl in use. Cheap to clone.
///
/// A node that lost its memory has lost its record, too, and learns it from the others. So the largest record of any node
/// decides how long each of them is quarantined, and what is written to a node that has no record.
#[derive(Clone, Debug)]
pub(crate) struct LongestTtl(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The largest record of any node, in milliseconds; 0 while none is known. It never shrinks.
    recorded: AtomicU64,
    /// How many nodes are a majority.
    needed: AtomicUsize,
    nodes: Mutex<BTreeSet<Arc<str>>>,
    /// How many nodes have been heard, with a record or without.
    heard: watch::Sender<usize>,
}

impl Default for LongestTtl {
    fn default() -> Self {
        Self(Arc::new(Shared {
            recorded: AtomicU64::new(0),
            needed: AtomicUsize::new(1),
            nodes: Mutex::default(),
            heard: watch::Sender::new(0),
        }))
    }
}

impl LongestTtl {
    /// Of how many nodes a majority must be heard.
    pub(crate) fn expect(&self, quorum: Quorum) {
        self.0.needed.store(quorum.needed(), Ordering::Relaxed);
    }

    /// The largest record of any node that was heard; zero if none is known.
    pub(crate) fn recorded(&self) -> Duration {
        Duration::from_millis(self.0.recorded.load(Ordering::Acquire))
    }

    /// `node` has `record`, or has none.
    pub(crate) fn heard(&self, node: &Arc<str>, record: Option<Duration>) {
        let millis = record.unwrap_or_default().as_millis();
        self.0.recorded.fetch_max(u64::try_from(millis).unwrap_or(u64::MAX), Ordering::AcqRel);
        let mut nodes = self.0.nodes.lock();
        if nodes.insert(node.clone()) {
            self.0.heard.send_replace(nodes.len());
        }
    }

    /// Whether a majority of nodes has been heard, so that a node without a record may get one.
    pub(crate) fn is_settled(&self) -> bool {
        *self.0.heard.borrow() >= self.0.needed.load(Ordering::Relaxed)
    }

    /// Waits until a majority of nodes has been heard, for `limit` at most.
    pub(crate) async fn settle(&self, limit: Duration) {
        let needed = self.0.needed.load(Ordering::Relaxed);
        let mut heard = self.0.heard.subscribe();
        // The sender lives as long as we do; a majority that is not heard in time is asked for later.
        let _ = tokio::time::timeout(limit, heard.wait_for(|heard| *heard >= needed)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_record_of_any_node_counts_and_never_shrinks() {
        let longest = LongestTtl::default();
        longest.expect(Quorum::of(3).unwrap());
        assert_eq!(longest.recorded(), Duration::ZERO);
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        longest.heard(&a, Some(Duration::from_secs(120)));
        assert!(!longest.is_settled(), "one of three is no majority");
        longest.heard(&a, Some(Duration::from_secs(30)));
        assert!(!longest.is_settled(), "the same node counts once");
        longest.heard(&b, None);
        assert!(longest.is_settled());
        assert_eq!(longest.recorded(), Duration::from_secs(120));
    }
}
