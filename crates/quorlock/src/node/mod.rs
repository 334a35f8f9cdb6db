//! A node: anything that can vote. Eight commands, one answer each, and hints about released names.

mod command;
#[cfg(feature = "consul")]
mod consul;
#[cfg(test)]
mod contract;
#[cfg(test)]
mod contract_modes;
#[cfg(any(feature = "etcd", feature = "postgres", feature = "zookeeper", feature = "consul"))]
mod engine;
#[cfg(feature = "etcd")]
mod etcd;
mod facts;
#[cfg(unix)]
mod file;
pub(crate) mod limits;
mod memory;
mod names;
pub(crate) mod net;
#[cfg(feature = "postgres")]
mod postgres;
mod record;
mod redis;
mod request;
mod server_text;
mod url;
mod wakeup;
#[cfg(feature = "zookeeper")]
mod zookeeper;

pub use crate::error::node::NodeError;
pub use crate::error::url::UrlError;
pub use command::{
    Acquire, AcquireKind, Command, Content, Denied, Done, RecordSlots, RefusedSlots, Reply, SlotsView, Tie,
    View,
};
pub use facts::{
    DatabaseFacts, Denial, DirectoryFacts, EpochFacts, Facts, FastRelease, Persistence, Purpose, Recall,
    ServerFacts, StoreFacts,
};
pub use memory::MemoryNode;
pub use names::Names;
pub(crate) use redis::RedisNode;
#[cfg(fuzzing)]
pub use redis::check_reply_bytes;
pub(crate) use redis::{MAX_BULK, Session, SessionCell, Value};
pub use request::Request;
pub(crate) use request::{Commands, Replies, RoundReplies, WakeThreshold};
pub use url::{NodeKind, NodeUrl, split_list};
pub use wakeup::Wakeup;

use crate::context::Context;
#[cfg(unix)]
use file::FileNode;
use quorlock_core::Name;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
#[cfg(feature = "etcd")]
use url::ClusterKind;
use url::Place;

/// A boxed future, as trait objects need it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One voter: a Redis or Valkey server, an etcd cluster, a directory of the file engine, or anything else
/// that can keep a name.
///
/// # The contract
/// - **Ordered.** Commands for one name take effect in the order of the [`Node::send`] calls, and an
///   inspection comes after all commands before it. A release that follows an acquire can never overtake
///   it, even if no caller waited for the answer to the acquire.
/// - **Cancel-safe.** `send` is synchronous: when it returns, the command is on its way, whatever becomes
///   of the caller.
/// - **Never blocks.** Not in `send`, not in `watch`. Queues are bounded; a full queue fails the command.
///   A node never calls back into locks, guards or lockers.
/// - **One answer.** Each [`Request`] is answered once. An error, a timeout or garbage is
///   [`Reply::Failed`]: no vote, and what happened is unknown.
/// - **Owner only.** Stamp, extend and release change nothing unless the node still stores that token.
pub trait Node: fmt::Debug + Send + Sync + 'static {
    /// A short text that names the node to people: its address without secrets.
    fn id(&self) -> &str;

    /// Sends the command of `request`, and answers it once the node has.
    fn send(&self, request: Request);

    /// Notifies `wakeup` when `name` may have been released, until [`Node::unwatch`].
    ///
    /// At most one watch per name exists at a time. A lost hint costs time, never safety. Commands sent after
    /// this call see the node at or after the moment from which hints are given.
    fn watch(&self, name: &Name, wakeup: &Wakeup);

    /// Stops the hints for `name`.
    fn unwatch(&self, name: &Name);

    /// Waits until the node can answer or its first attempt to connect has failed.
    fn wait_connected(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Declares that this node is known to be fresh: nothing that it may have forgotten matters.
    fn init(&self) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Records that clients may use a ttl of up to `longest` from now on, on a node that keeps such a record.
    fn raise_longest_ttl(&self, _longest: Duration) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Every name that the node may know, asked afresh: at least each one that it holds, unless there are
    /// over [`Names::MOST`]. It must not delay votes.
    ///
    /// By default the node does not know: no names, and not complete.
    fn names(&self) -> BoxFuture<'_, Result<Names, NodeError>> {
        Box::pin(std::future::ready(Ok(Names::default())))
    }

    /// Examines the node, asked afresh, without changing what it keeps. It must not delay votes.
    ///
    /// By default the facts are unknown.
    fn examine(&self) -> BoxFuture<'_, Result<Facts, NodeError>> {
        Box::pin(std::future::ready(Ok(Facts::Unknown)))
    }

    /// What is known about the node right now, without asking it.
    fn health(&self) -> Health {
        Health::default()
    }
}

/// One node of a locker and what is known about it right now.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeHealth {
    /// The node.
    pub node: Arc<str>,
    /// What is known about it.
    pub health: Health,
}

/// What is known about a node right now.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Health {
    /// Why it cannot vote, if it cannot.
    pub trouble: Option<NodeError>,
    /// How long the last answer took.
    pub round_trip: Option<Duration>,
    /// The server's kind and version, such as `redis 7.0.15`.
    pub version: Option<String>,
    /// How far its wall clock is ahead of ours, in microseconds, when it was last read.
    pub clock_ahead_micros: Option<i64>,
    /// Commands that wait for an answer.
    pub queued: usize,
}

/// Opens the node that `url` names. Connects to no server yet.
pub(crate) fn open(url: &NodeUrl, ctx: &Context) -> Result<Arc<dyn Node>, NodeError> {
    let clock = ctx.clock.clone();
    Ok(match &url.place {
        Place::Server(_) => Arc::new(RedisNode::new(url, ctx.clone())?),
        #[cfg(unix)]
        Place::Directory(directory) => Arc::new(FileNode::open(directory, ctx.clone())?),
        // The parser refuses such an address.
        #[cfg(not(unix))]
        Place::Directory(_) => return Err(NodeError::Abandoned),
        Place::Cluster(cluster) => match cluster.kind {
            #[cfg(feature = "etcd")]
            ClusterKind::Etcd => Arc::new(etcd::open(cluster, ctx)?),
            #[cfg(feature = "zookeeper")]
            ClusterKind::ZooKeeper => Arc::new(zookeeper::open(cluster, ctx)?),
            #[cfg(feature = "consul")]
            ClusterKind::Consul => Arc::new(consul::open(cluster, ctx)?),
            // Without its feature, the parser refuses such an address.
            #[allow(unreachable_patterns)]
            _ => return Err(NodeError::Abandoned),
        },
        #[cfg(feature = "postgres")]
        Place::Database(database) => Arc::new(postgres::open(database, ctx)?),
        #[cfg(not(feature = "postgres"))]
        Place::Database(_) => return Err(NodeError::Abandoned),
        Place::Process(label) if label.is_empty() => Arc::new(MemoryNode::new("memory:", clock)),
        Place::Process(label) => Arc::new(MemoryNode::shared(label, clock)),
    })
}
