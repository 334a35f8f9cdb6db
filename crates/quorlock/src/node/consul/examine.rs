//! Examining a cluster: whether it answers, which of its agents do, and whether we may do what locks need.

use crate::context::entropy;
use crate::node::consul::client::api::{Consistency, NODE};
use crate::node::consul::client::txn::{Content, Op};
use crate::node::consul::keys::{self, Keys};
use crate::node::consul::lock_store::Store;
use crate::node::engine::Failure;
use crate::node::{Names, NodeError, StoreFacts};
use std::time::{Duration, Instant};

/// Below what any server allows, so that no session is created.
const TOO_SHORT: Duration = Duration::from_millis(1);

impl Store {
    /// The names that are held.
    pub(crate) async fn held_names(&self) -> Result<Names, NodeError> {
        self.check_agents().await?;
        let (all, _) = self.api.keys(&Keys::all(&self.prefix)).await?;
        let held = all.iter().filter_map(|key| keys::parse(&self.prefix, key));
        let mut names: Vec<_> = held.filter(|key| key.kind.is_hold()).map(|key| key.name).collect();
        names.dedup();
        Ok(Names::new(names))
    }

    /// Examines the cluster. The first examination stores an id for it if it has none; nothing else is changed.
    pub(crate) async fn facts(&self) -> Result<StoreFacts, NodeError> {
        let silent = self.api.check_all_agents(entropy::number(self.entropy.as_ref())).await?;
        let status = self.api.status().await?;
        let mut errors = Vec::new();
        if status.has_leader {
            self.check_keys().await?;
            errors.extend(self.check_sessions().await?);
        }
        let start = Instant::now();
        self.api.read(&[&format!("{}/swept", self.prefix)], Consistency::Verified).await?;
        let round_trip = start.elapsed();
        Ok(StoreFacts {
            version: status.version,
            has_leader: status.has_leader,
            members: status.servers,
            silent,
            size: 0,
            errors,
            round_trip,
        })
    }

    /// Whether we may write keys: rights are checked before a transaction is executed, and this one never is.
    async fn check_keys(&self) -> Result<(), NodeError> {
        let key = format!("{}record", Keys::all(&self.prefix));
        let content = Content { key: &key, value: b"", flags: 0 };
        let ops = [Op::is_unchanged(&key, u64::MAX), Op::swap(content, 0), Op::delete(&key)];
        self.api.execute(&ops).await.map(drop).map_err(Failure::into_error)
    }

    /// Whether we may create sessions: rights are checked before the ttl, and this one is too short.
    async fn check_sessions(&self) -> Result<Option<String>, NodeError> {
        match self.api.create_session(TOO_SHORT).await.map_err(Failure::into_error) {
            Err(NodeError::Server { message }) if message.contains("Session TTL") => Ok(shortest(&message)),
            Err(error) => Err(error),
            Ok(_) => Ok(None),
        }
    }

    /// Enters the node of our sessions in the catalog, and removes idle records.
    pub(crate) async fn prepare(&self) -> Result<(), NodeError> {
        self.check_agents().await?;
        let nodes: Vec<serde_json::Value> = self.api.ask(&format!("/v1/session/node/{NODE}")).await?;
        if nodes.is_empty() {
            self.api.register_node().await.map_err(Failure::into_error)?;
        }
        self.sweeper.sweep().await.map(drop)
    }
}

/// What is wrong with the shortest ttl that `message` names, if it is longer than usual.
fn shortest(message: &str) -> Option<String> {
    let (_, limits) = message.split_once("between [")?;
    let (shortest, _) = limits.split_once('=')?;
    (shortest != "10s")
        .then(|| format!("its sessions last {shortest} at least: set `session_ttl_min` to 10s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_longer_shortest_ttl_is_reported() {
        let message = |limits| format!("Invalid Session TTL '1000000', must be between [{limits}]; see");
        assert_eq!(shortest(&message("10s=24h0m0s")), None);
        assert!(shortest(&message("1m0s=24h0m0s")).unwrap().contains("1m0s"));
    }
}
