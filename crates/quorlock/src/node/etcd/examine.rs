//! Examining a cluster: whether it answers, which of its members do, and whether we may do what locks
//! need.

use crate::node::etcd::client::messages::StatusResponse;
use crate::node::etcd::client::txn::{KeyRange, Txn, is_above, put, read, read_keys};
use crate::node::etcd::keys::Keys;
use crate::node::etcd::lock_store::Store;
use crate::node::{NodeError, StoreFacts};
use std::time::Instant;

/// The version of a cluster that shows it to administrators alone.
pub(crate) const HIDDEN: &str = "(version hidden)";

impl Store {
    /// Examines the cluster, without changing what it keeps.
    pub(crate) async fn facts(&self) -> Result<StoreFacts, NodeError> {
        // First, so that what follows does not wait for a member that is stalled.
        let silent = self.api.check_all_members().await?;
        let status = match self.api.status().await.map_err(NodeError::from) {
            // Since 3.6 only an administrator sees it. The read below shows whether there is a leader.
            Err(NodeError::NoPermission { .. }) => {
                StatusResponse { version: HIDDEN.to_owned(), leader: 1, ..StatusResponse::default() }
            }
            status => status?,
        };
        self.check_permissions().await?;
        let start = Instant::now();
        self.api.execute(Txn::default().then(read(Keys::all_locks(&self.prefix).as_bytes()))).await?;
        let round_trip = start.elapsed();
        Ok(StoreFacts {
            version: format!("etcd {}", status.version),
            has_leader: status.leader != 0,
            members: self.api.member_count().await.ok(),
            silent,
            size: u64::try_from(status.size).unwrap_or_default(),
            errors: status.errors,
            round_trip,
        })
    }

    /// Whether we may read and write: both branches of a transaction are checked, and the one that writes
    /// is not taken.
    async fn check_permissions(&self) -> Result<(), NodeError> {
        let keys =
            ["lock", "fence", "writer", "slots", "undone"].map(|kind| format!("{}/{kind}/", self.prefix));
        let never = is_above(keys[0].as_bytes(), b"\xff");
        // Shared holders and slots are compared, read and watched as ranges of keys.
        let holders = KeyRange::with_prefix(keys[0].as_bytes());
        let txn = keys.iter().fold(Txn::default().when(never), |txn, key| {
            txn.then(put(key.as_bytes(), b"", 0)).otherwise(read(key.as_bytes()))
        });
        Ok(self.api.execute(txn.otherwise(read_keys(&holders, 1))).await.map(drop)?)
    }
}
