//! Examining a cluster: whether it answers, which of its members do, and whether we may do what locks
//! need.

use crate::node::etcd::client::json::{Txn, is_above, put, read};
use crate::node::etcd::lock_store::Store;
use crate::node::{NodeError, StoreFacts};
use std::time::Instant;

impl Store {
    /// Examines the cluster, without changing what it keeps.
    pub(crate) async fn examine(&self) -> Result<StoreFacts, NodeError> {
        // First, so that what follows does not wait for a member that is stalled.
        let silent = self.api.check_all_members().await?;
        let status = self.api.status().await?;
        self.check_permissions().await?;
        let start = Instant::now();
        self.api.read(format!("{}/lock/", self.prefix).as_bytes()).await?;
        let round_trip = start.elapsed();
        Ok(StoreFacts {
            version: format!("etcd {}", status.version),
            has_leader: status.leader != 0,
            members: self.api.members().await.ok(),
            silent,
            size: status.size,
            errors: status.errors,
            round_trip,
        })
    }

    /// Whether we may read and write: both branches of a transaction are checked, and the one that writes
    /// is not taken.
    async fn check_permissions(&self) -> Result<(), NodeError> {
        let keys = ["lock", "fence", "writer", "slots"].map(|kind| format!("{}/{kind}/", self.prefix));
        let never = is_above(keys[0].as_bytes(), b"\xff");
        let txn = keys.iter().fold(Txn::default().when(never), |txn, key| {
            txn.then(put(key.as_bytes(), b"", 0)).otherwise(read(key.as_bytes()))
        });
        self.api.execute(&txn).await.map(drop)
    }
}
