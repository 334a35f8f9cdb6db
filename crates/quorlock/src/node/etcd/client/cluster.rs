//! Whether all answers come from one cluster, and from one that has forgotten nothing.
//!
//! Each answer names the cluster that its member belongs to and the revision of the member's store.
//! Members of another cluster know nothing of our locks. A revision that goes back shows that the store
//! was restored from a backup or lost its data.

use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::etcd::client::errors::protocol;
use crate::node::etcd::client::messages::Header;
use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

/// A member that answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    /// Its place in the address.
    pub(crate) number: usize,
    /// `host:port`.
    pub(crate) authority: &'a str,
}

/// The cluster that answered first, and what it has shown since.
#[derive(Debug, Default)]
pub(crate) struct Cluster(Mutex<ClusterState>);

#[derive(Debug, Default)]
struct ClusterState {
    id: Option<u64>,
    /// The highest revision of any answer.
    revision: u64,
    /// Members whose last answer was that of another cluster.
    foreign: BTreeMap<usize, NodeError>,
    /// Set once the cluster has forgotten something. It stays: later answers do not show it any more once
    /// the revision has grown.
    restored: Option<NodeError>,
}

impl Cluster {
    /// The highest revision that was seen. An answer on which the members agree, to a request that is
    /// sent from now on, cannot have a lower one.
    pub(crate) fn revision(&self) -> u64 {
        self.state().revision
    }

    /// Whether an answer with this `header` counts. `at_least` is the revision that it must have; 0 if
    /// one member answers alone, which may lag behind the others.
    pub(crate) fn accept(&self, header: Header, member: Member<'_>, at_least: u64) -> Result<(), NodeError> {
        if header.cluster_id == 0 {
            return Err(protocol("an answer does not say which cluster it comes from"));
        }
        let mut state = self.state();
        let id = *state.id.get_or_insert(header.cluster_id);
        if header.cluster_id != id {
            let member: (usize, Arc<str>) = (member.number, member.authority.into());
            let error = NodeError::OtherCluster { member: member.1, found: header.cluster_id, first: id };
            state.foreign.insert(member.0, error.clone());
            return Err(error);
        }
        state.foreign.remove(&member.number);
        let revision = u64::try_from(header.revision).unwrap_or_default();
        if revision < at_least {
            state.restored = Some(NodeError::Restored { seen: at_least, found: revision });
        }
        state.revision = state.revision.max(revision);
        state.restored.clone().map_or(Ok(()), Err)
    }

    /// Whether the cluster may vote at all, by what is known.
    pub(crate) fn verdict(&self) -> Result<(), NodeError> {
        let state = self.state();
        let refusal = state.restored.as_ref().or(state.foreign.values().next());
        refusal.cloned().map_or(Ok(()), Err)
    }

    /// Whether a member answered for another cluster.
    pub(crate) fn is_mixed(&self) -> bool {
        !self.state().foreign.is_empty()
    }

    fn state(&self) -> MutexGuard<'_, ClusterState> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Member<'_> = Member { number: 0, authority: "a:1" };
    const B: Member<'_> = Member { number: 1, authority: "b:1" };

    fn header(cluster_id: u64, revision: i64) -> Header {
        Header { cluster_id, revision }
    }

    fn kind(outcome: Result<(), NodeError>) -> &'static str {
        outcome.map_or_else(|error| error.kind(), |()| "fine")
    }

    #[test]
    fn members_of_another_cluster_are_refused_until_they_answer_for_the_first_one() {
        let cluster = Cluster::default();
        assert_eq!(kind(cluster.accept(header(7, 1), A, 0)), "fine");
        let error = cluster.accept(header(8, 90), B, 0).unwrap_err();
        assert_eq!(error.kind(), "other_cluster");
        assert!(error.to_string().contains("b:1"), "{error}");
        assert_eq!(cluster.revision(), 1, "that of the other cluster means nothing");
        assert_eq!(kind(cluster.accept(header(7, 2), A, 1)), "fine");
        assert!(
            cluster.is_mixed() && kind(cluster.verdict()) == "other_cluster",
            "while it is in the address"
        );
        assert_eq!(kind(cluster.accept(header(7, 2), B, 2)), "fine");
        assert_eq!((cluster.is_mixed(), kind(cluster.verdict())), (false, "fine"));
        assert_eq!(kind(cluster.accept(header(0, 9), A, 0)), "protocol");
    }

    #[test]
    fn a_revision_that_went_back_is_never_forgiven_and_a_member_that_lags_behind_is() {
        let cluster = Cluster::default();
        assert_eq!(kind(cluster.accept(header(7, 50), A, 0)), "fine");
        assert_eq!(kind(cluster.accept(header(7, 40), B, 0)), "fine", "it answered alone");
        assert_eq!(kind(cluster.accept(header(7, 45), B, 45)), "fine", "it was asked before the 50 was seen");
        assert_eq!((cluster.revision(), kind(cluster.verdict())), (50, "fine"));
        assert_eq!(kind(cluster.accept(header(7, 49), B, 50)), "restored");
        assert_eq!(kind(cluster.accept(header(7, 99), B, 50)), "restored", "whatever it answers later");
        assert_eq!(kind(cluster.verdict()), "restored");
    }
}
