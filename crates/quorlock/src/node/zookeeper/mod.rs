//! The ZooKeeper node: an ensemble that agrees with itself is one voter.
//!
//! A name is a persistent znode that holds one record, and every change is one write to the version that it was
//! decided on. There are no ephemeral znodes: a session ends for reasons that its client does not see. Clients
//! judge when a hold is over, by the time that they watched it and by the clock of the leader
//! ([`leader_clock`]); never sooner than its ttl after it was written.
//!
//! It speaks the protocol of ZooKeeper 3.6 and later on the client port.

mod client;
mod examine;
mod follow;
mod known;
mod leader_clock;
mod lock_store;
mod paths;
mod slots;
mod stored;
mod sweep;
#[cfg(test)]
mod tests;

use crate::context::Context;
use crate::context::entropy;
use crate::node::engine::{Engine, EngineNode, Failure, Hints, Limits};
use crate::node::net::stream::Address;
use crate::node::url::{Cluster, Endpoint};
use crate::node::{Command, Facts, Names, NodeError, Reply};
use client::connection::Login;
use client::{Client, Member};
use lock_store::{Store, Writing};
use paths::Paths;
use quorlock_core::Name;
use std::sync::Arc;

/// The node of the ensemble that `url` names. Connects to no member yet.
///
/// # Errors
/// [`NodeError::Tls`] if a certificate cannot be used.
pub(crate) fn open(url: &Cluster, ctx: &Context) -> Result<EngineNode<Store>, NodeError> {
    let limits = Limits::new(ctx);
    Ok(EngineNode::new(url.to_string(), store(url, ctx, limits)?, limits))
}

fn store(url: &Cluster, ctx: &Context, limits: Limits) -> Result<Store, NodeError> {
    let member = |endpoint: &Endpoint| {
        let address = Address::new(endpoint, &ctx.connector)?;
        Ok(Member { authority: endpoint.to_string(), address })
    };
    let members = url.endpoints.iter().map(member).collect::<Result<Vec<_>, NodeError>>()?;
    let login = url.user.clone().zip(url.password.clone()).map(|(user, password)| Login { user, password });
    let paths = Arc::new(Paths::new(&url.prefix));
    // Clients spread over the members.
    let first = usize::try_from(entropy::number(ctx.entropy.as_ref()) % 1024).unwrap_or_default();
    Ok(Store {
        client: Client::new(members, first, login, paths.clone(), limits, ctx.connect_timeout),
        paths,
        clock: ctx.clock.clone(),
        entropy: ctx.entropy.clone(),
        leader_clock: Arc::default(),
        known: Arc::default(),
        sweeper: Arc::default(),
        limits,
    })
}

impl Engine for Store {
    const KIND: &'static str = "zk";

    async fn execute(&self, command: &Command) -> Result<Reply, Failure> {
        self.execute_command(command, Writing::IfChanged).await
    }

    /// The release writes the znode in any case: an acquire that arrives later was decided on an older version.
    async fn undo(&self, release: &Command) -> Result<Reply, Failure> {
        self.execute_command(release, Writing::Always).await
    }

    fn position(&self) -> u64 {
        self.client.last_change().try_into().unwrap_or_default()
    }

    async fn follow(&self, name: &Name, since: u64, hints: Hints) {
        follow::follow(self, name, since.try_into().unwrap_or_default(), hints).await;
    }

    async fn version(&self) -> Result<String, NodeError> {
        self.version().await
    }

    async fn names(&self) -> Result<Names, NodeError> {
        self.held_names().await
    }

    async fn examine(&self) -> Result<Facts, NodeError> {
        Ok(Facts::Store(self.facts().await?))
    }

    async fn finish(&self) {
        self.client.close().await;
    }
}
