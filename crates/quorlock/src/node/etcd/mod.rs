//! The etcd node: a cluster that agrees with itself is one voter.

pub(crate) mod client;
mod examine;
mod executor;
mod fence_leases;
mod health;
mod keys;
mod lock_store;
mod shared_holds;
mod slots;
#[cfg(test)]
mod tests;
mod watch;

use crate::context::Context;
use crate::node::net::stream::Address;
use crate::node::url::{Cluster, Endpoint};
use crate::node::{BoxFuture, Facts, Health, Names, Node, NodeError, Request, Wakeup};
use client::api::{Api, Login};
use client::http::{self, Http};
use executor::Worker;
use fence_leases::FenceLeases;
use lock_store::Store;
use quorlock_core::Name;
use std::fmt;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::task::TaskTracker;

/// How many node timeouts one request may take: the caller stops waiting after one, the command goes on.
const REQUEST_TIMEOUT_FACTOR: u32 = 4;

/// An etcd cluster as a node: its consensus decides, so it is one voter, however many members it has.
///
/// A lock is a key with a lease. etcd counts leases in whole seconds and lets none end sooner than after
/// about two, so the lock of a holder that died is free up to two seconds later than its ttl says; never
/// sooner. Fence counters are keys that stay for two weeks at least after the last lock of their name.
///
/// It speaks the JSON interface of etcd 3.4 and later on the client port, from a thread of its own.
///
/// Dropping the node while commands are under way waits for them as long as the cluster may take to answer.
pub(crate) struct EtcdNode {
    id: Arc<str>,
    worker: Worker,
}

impl EtcdNode {
    /// The node of the cluster that `url` names. Connects to no member yet.
    ///
    /// # Errors
    /// [`NodeError::Tls`] if a certificate cannot be used.
    pub(crate) fn open(url: &Cluster, ctx: &Context) -> Result<Self, NodeError> {
        let endpoint = |endpoint: &Endpoint| {
            let address = Address::new(endpoint, &ctx.connector)?;
            Ok(http::Endpoint { authority: endpoint.to_string(), address })
        };
        let endpoints = url.endpoints.iter().map(endpoint).collect::<Result<Vec<_>, NodeError>>()?;
        let request_timeout = ctx.node_timeout * REQUEST_TIMEOUT_FACTOR;
        let login = url.login.clone().map(|(user, password)| Login { user, password });
        let store = Store {
            api: Arc::new(Api::new(Http::new(endpoints, ctx.connect_timeout, request_timeout), login)),
            entropy: ctx.entropy.clone(),
            clock: ctx.clock.clone(),
            counters: FenceLeases::default(),
            prefix: url.prefix.clone(),
            refused: Arc::default(),
            ending: TaskTracker::new(),
            limit: ctx.node_timeout,
            longest_ttl: ctx.longest_ttl,
        };
        Ok(Self { id: url.to_string().into(), worker: Worker::new(store, request_timeout) })
    }

    /// Checks whether the cluster answers.
    async fn probe(&self) -> Result<(), NodeError> {
        let start = Instant::now();
        let status = self.worker.run_task(|store| async move { store.status().await }).await?;
        self.worker.health().set_version(&status.version);
        self.worker.health().record_success(start.elapsed());
        Ok(())
    }
}

impl Node for EtcdNode {
    fn id(&self) -> &str {
        &self.id
    }

    fn send(&self, request: Request) {
        self.worker.enqueue(request);
    }

    fn watch(&self, name: &Name, wakeup: &Wakeup) {
        self.worker.watch(name, wakeup);
    }

    fn unwatch(&self, name: &Name) {
        self.worker.unwatch(name);
    }

    fn wait_connected(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { drop(self.probe().await) })
    }

    fn names(&self) -> BoxFuture<'_, Result<Names, NodeError>> {
        Box::pin(self.worker.run_task(|store| async move { store.names().await }))
    }

    fn examine(&self) -> BoxFuture<'_, Result<Facts, NodeError>> {
        Box::pin(async {
            let facts = self.worker.run_task(|store| async move { store.examine().await }).await?;
            Ok(Facts::Store(facts))
        })
    }

    fn health(&self) -> Health {
        self.worker.health().health()
    }
}

impl fmt::Debug for EtcdNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EtcdNode({})", self.id)
    }
}
