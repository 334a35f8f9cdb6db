//! Whether all agents in the address belong to one cluster, and whether it has forgotten nothing.
//!
//! Consul reports no id of a cluster, so the first client stores one. Agents of another cluster or datacenter know
//! nothing of our locks. Each write has an index, which never goes back unless the data of the cluster was lost.

use crate::context::mutex::Mutex;
use crate::node::NodeError;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

/// How many answers in a row must have an old index before the cluster counts as one that forgot, even if it has the
/// same id: some may be answers that the network repeated.
const OLD_ANSWERS: u32 = 20;

/// The cluster that answered first, and what it has shown since.
#[derive(Debug, Default)]
pub(crate) struct Cluster(Mutex<ClusterState>);

#[derive(Debug, Default)]
struct ClusterState {
    id: Option<u64>,
    /// Agents whose last answer was that of another cluster.
    foreign: BTreeMap<usize, NodeError>,
    /// The highest index of any write.
    index: u64,
    old_answers: u32,
    /// Set once the cluster has forgotten something. It stays: later answers do not show it any more once the index
    /// has grown.
    restored: Option<NodeError>,
}

impl Cluster {
    /// The highest index that was seen. A write that is sent from now on has a higher one.
    pub(crate) fn index(&self) -> u64 {
        self.state().index
    }

    /// Whether the id of the cluster is known.
    pub(crate) fn is_known(&self) -> bool {
        self.state().id.is_some()
    }

    /// Whether `found` is the id of the cluster.
    pub(crate) fn has_id(&self, found: Option<u64>) -> bool {
        self.state().id == found
    }

    /// The cluster has lost its data.
    pub(crate) fn set_restored(&self, restored: NodeError) {
        self.state().restored = Some(restored);
    }

    /// Whether `agent` belongs to the cluster that answered first. The id of a cluster without one is 0.
    pub(crate) fn accept(&self, agent: usize, authority: &str, found: u64) -> bool {
        let mut state = self.state();
        let first = *state.id.get_or_insert(found);
        if found == first {
            state.foreign.remove(&agent);
        } else {
            let member: Arc<str> = authority.into();
            state.foreign.insert(agent, NodeError::OtherCluster { member, found, first });
        }
        found == first
    }

    /// Whether a write with the index `found` counts, which was sent when `before` was the highest one.
    pub(crate) fn accept_write(&self, before: u64, found: u64) -> Result<(), NodeError> {
        let mut state = self.state();
        if found > before {
            state.index = state.index.max(found);
            state.old_answers = 0;
            return state.restored.clone().map_or(Ok(()), Err);
        }
        state.old_answers += 1;
        let restored = NodeError::Restored { seen: before, found };
        if state.old_answers >= OLD_ANSWERS {
            state.restored = Some(restored.clone());
        }
        Err(restored)
    }

    /// Whether the cluster may vote at all, by what is known.
    pub(crate) fn verdict(&self) -> Result<(), NodeError> {
        let state = self.state();
        let refusal = state.restored.as_ref().or(state.foreign.values().next());
        refusal.cloned().map_or(Ok(()), Err)
    }

    fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(outcome: Result<(), NodeError>) -> &'static str {
        outcome.map_or_else(|error| error.kind(), |()| "fine")
    }

    #[test]
    fn agents_of_another_cluster_are_refused_until_they_answer_for_the_first_one() {
        let cluster = Cluster::default();
        assert!(cluster.accept(0, "a:1", 7) && !cluster.accept(1, "b:1", 8));
        let error = cluster.verdict().unwrap_err();
        assert!(error.kind() == "other_cluster" && error.to_string().contains("b:1"), "{error}");
        assert!(cluster.accept(1, "b:1", 7));
        assert_eq!(kind(cluster.verdict()), "fine");
    }

    #[test]
    fn an_index_that_stays_old_is_never_forgiven_and_a_repeated_answer_is() {
        let cluster = Cluster::default();
        assert_eq!(kind(cluster.accept_write(0, 50)), "fine");
        assert_eq!(kind(cluster.accept_write(50, 50)), "restored");
        assert_eq!(kind(cluster.verdict()), "fine", "once");
        assert_eq!(kind(cluster.accept_write(50, 51)), "fine");
        (0..OLD_ANSWERS).for_each(|_| drop(cluster.accept_write(51, 9)));
        assert_eq!(kind(cluster.accept_write(51, 99)), "restored", "whatever it answers later");
        assert_eq!(kind(cluster.verdict()), "restored");
    }
}
