//! The etcd node: a cluster that agrees with itself is one voter.
//!
//! A lock is a key with a lease. etcd counts leases in whole seconds, and locks share leases that last somewhat
//! longer than their ttl, so the lock of a holder that died is free an eighth of its ttl and two seconds later
//! than its ttl says; never sooner. Fence counters are keys that stay for two weeks at least after the last lock
//! of their name.
//!
//! It speaks the gRPC interface of etcd 3.4 and later on the client port.

pub(crate) mod client;
mod examine;
mod fence_leases;
mod keys;
mod leases;
mod lock_store;
mod refused_names;
mod shared_holds;
mod slots;
#[cfg(test)]
mod tests;
mod watch;

use crate::context::Context;
use crate::node::engine::batch::Batch;
use crate::node::engine::{Engine, EngineNode, Failure, Hints, Limits};
use crate::node::net::stream::Address;
use crate::node::url::{Cluster, Endpoint};
use crate::node::{Command, Facts, Names, NodeError, Reply};
use client::api::{Api, Login};
use client::batch::BOUNDS;
use client::members::{self, Members};
use lock_store::Store;
use quorlock_core::Name;
use std::sync::Arc;

/// What TLS is told that we speak: HTTP/2.
const ALPN: &[u8] = b"h2";

/// The node of the cluster that `url` names. Connects to no member yet.
///
/// # Errors
/// [`NodeError::Tls`] if a certificate cannot be used.
pub(crate) fn open(url: &Cluster, ctx: &Context) -> Result<EngineNode<Store>, NodeError> {
    let limits = Limits::new(ctx);
    let store = Store::new(url, ctx, limits)?;
    Ok(EngineNode::new(url.to_string(), store, limits))
}

impl Store {
    fn new(url: &Cluster, ctx: &Context, limits: Limits) -> Result<Self, NodeError> {
        let endpoint = |endpoint: &Endpoint| {
            let address = Address::new(endpoint, &ctx.connector)?.with_alpn(ALPN);
            Ok(members::Endpoint { authority: endpoint.to_string(), address })
        };
        let endpoints = url.endpoints.iter().map(endpoint).collect::<Result<Vec<_>, NodeError>>()?;
        let members = Members::new(endpoints, ctx.connect_timeout);
        let login =
            url.user.clone().zip(url.password.clone()).map(|(user, password)| Login { user, password });
        let (leases, counters, refused, watches) = Default::default();
        Ok(Self {
            api: Arc::new(Api::new(members, login, Batch::new(BOUNDS, limits.caller), limits.request)),
            entropy: ctx.entropy.clone(),
            clock: ctx.clock.clone(),
            leases,
            counters,
            refused,
            watches,
            prefix: url.prefix.clone(),
            limits,
        })
    }
}

impl Engine for Store {
    const KIND: &'static str = "etcd";

    async fn execute(&self, command: &Command) -> Result<Reply, Failure> {
        self.execute_command(command).await
    }

    async fn undo(&self, release: &Command) -> Result<Reply, Failure> {
        match release {
            Command::Release { name, token, .. } => Ok(self.undo_attempt(name, token).await?),
            _ => self.execute_command(release).await,
        }
    }

    fn position(&self) -> u64 {
        self.api.cluster.revision()
    }

    async fn follow(&self, name: &Name, since: u64, hints: Hints) {
        watch::follow(self, name, since, hints).await;
    }

    async fn version(&self) -> Result<String, NodeError> {
        Ok(format!("etcd {}", self.status().await?.version))
    }

    async fn names(&self) -> Result<Names, NodeError> {
        self.held_names().await
    }

    async fn examine(&self) -> Result<Facts, NodeError> {
        Ok(Facts::Store(self.facts().await?))
    }
}
