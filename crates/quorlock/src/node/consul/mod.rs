//! The Consul node: a cluster that agrees with itself is one voter.
//!
//! A lock is a key that a session has locked, and that is deleted with the session. Sessions last for 10 s at least,
//! and Consul ends one up to a ttl late, so the lock of a holder that died is free after at most two and a half times
//! its ttl, or 20 s; never sooner than after its ttl.
//!
//! It speaks the HTTP interface of Consul 1.8 and later.

mod client;
mod examine;
mod holds;
mod keys;
mod lock_store;
mod name_record;
mod sessions;
mod shared_holds;
mod slots;
mod sweep;
#[cfg(test)]
mod tests;
mod watch;

use crate::context::Context;
use crate::node::engine::{Engine, EngineNode, Failure, Hints, Limits};
use crate::node::net::stream::Address;
use crate::node::url::{Cluster, Endpoint};
use crate::node::{Command, Facts, Names, NodeError, Reply};
use client::api::Api;
use client::http::{Agent, Http};
use hyper::header::HeaderValue;
use lock_store::Store;
use quorlock_core::Name;
use sessions::Sessions;
use std::sync::Arc;
use sweep::Sweeper;

/// The node of the cluster that `url` names. Connects to no agent yet.
///
/// # Errors
/// [`NodeError::Tls`] if a certificate cannot be used, [`NodeError::NoAuth`] if the token cannot be one.
pub(crate) fn open(url: &Cluster, ctx: &Context) -> Result<EngineNode<Store>, NodeError> {
    let limits = Limits::new(ctx);
    Ok(EngineNode::new(url.to_string(), store(url, ctx, limits)?, limits))
}

fn store(url: &Cluster, ctx: &Context, limits: Limits) -> Result<Store, NodeError> {
    let agent = |endpoint: &Endpoint| {
        let address = Address::new(endpoint, &ctx.connector)?;
        Ok(Agent { authority: endpoint.to_string(), address })
    };
    let agents = url.endpoints.iter().map(agent).collect::<Result<Vec<_>, NodeError>>()?;
    let token = url.password.as_deref().map(secret).transpose()?;
    let http = Http::new(agents, token, ctx.connect_timeout, limits.request);
    let api = Arc::new(Api::new(http, &url.prefix));
    Ok(Store {
        sessions: Sessions::new(api.clone(), ctx.clock.clone()),
        sweeper: Arc::new(Sweeper::new(api.clone(), ctx.clock.clone(), &url.prefix)),
        api,
        clock: ctx.clock.clone(),
        entropy: ctx.entropy.clone(),
        holds: Default::default(),
        records: Default::default(),
        prefix: url.prefix.clone(),
        limits,
    })
}

/// The token as a header that no message shows.
fn secret(token: &str) -> Result<HeaderValue, NodeError> {
    let bad = |_| NodeError::NoAuth { message: "the token has characters that no token has".into() };
    let mut token = HeaderValue::from_str(token).map_err(bad)?;
    token.set_sensitive(true);
    Ok(token)
}

impl Engine for Store {
    const KIND: &'static str = "consul";

    async fn execute(&self, command: &Command) -> Result<Reply, Failure> {
        let reply = self.execute_command(command).await;
        self.sweeper.sweep_if_due();
        reply
    }

    /// A release that finds no hold changes the record of the name, so an acquire that arrives later fails.
    async fn undo(&self, release: &Command) -> Result<Reply, Failure> {
        self.execute_command(release).await
    }

    fn position(&self) -> u64 {
        self.api.position()
    }

    async fn follow(&self, name: &Name, since: u64, hints: Hints) {
        watch::follow(self, name, since, hints).await;
    }

    async fn version(&self) -> Result<String, NodeError> {
        self.check_agents().await?;
        Ok(self.api.status().await?.version)
    }

    async fn names(&self) -> Result<Names, NodeError> {
        self.held_names().await
    }

    async fn examine(&self) -> Result<Facts, NodeError> {
        Ok(Facts::Store(self.facts().await?))
    }

    async fn init(&self) -> Result<(), NodeError> {
        self.prepare().await
    }

    async fn finish(&self) {
        self.sessions.finish().await;
    }
}
