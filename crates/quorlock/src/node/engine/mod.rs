//! What all engines share. An engine is one node whose own consensus or durability decides.
//!
//! # Layout
//! | module | job |
//! |---|---|
//! | `attempts` | which attempts left nothing behind, and which may still take effect |
//! | `batch` | changes of many names that are sent together, where that is faster |
//! | `health` | what is known of the store without asking it |
//! | `hints` | how an engine reports that a name may have become free |
//! | `name_queue`, `name_task` | the commands of one name, one after another, and failed releases |
//! | `worker` | the thread that talks to the store |

mod attempts;
#[cfg(any(feature = "etcd", feature = "postgres"))]
pub(crate) mod batch;
mod health;
mod hints;
mod name_queue;
mod name_task;
#[cfg(test)]
mod test_engine;
mod worker;

pub(crate) use hints::Hints;
#[cfg(test)]
#[cfg_attr(not(feature = "etcd"), allow(unused_imports))]
pub(crate) use worker::MAX_WAITING;

use crate::context::Context;
use crate::node::{BoxFuture, Command, Facts, Health, Names, Node, NodeError, Reply, Request, Wakeup};
use quorlock_core::Name;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use worker::Worker;

/// How many node timeouts one request may take: the caller stops waiting after one, the command goes on.
const REQUEST_TIMEOUT_FACTOR: u32 = 4;

/// One kind of store. Order, retries, timeouts and health are for the core; an engine only says what each
/// command does to the store.
///
/// The core executes the commands of one name one after another, and those of different names at once. All
/// calls come from one thread with a runtime of its own, so an engine may spawn tasks there.
pub(crate) trait Engine: fmt::Debug + Send + Sync + 'static {
    /// What threads are named after.
    const KIND: &'static str;

    /// Executes `command`. It must end by itself, with an error, within [`Limits::request`] or a little
    /// more. A vote that arrives twice fails with [`Failure::Unknown`] the second time: its release must find
    /// the hold.
    fn execute(&self, command: &Command) -> impl Future<Output = Result<Reply, Failure>> + Send;

    /// Executes the release of an attempt whose acquire failed with [`Failure::Unknown`]. Once this is
    /// done, the acquire has no effect, even if it arrives at the store only then.
    fn undo(&self, release: &Command) -> impl Future<Output = Result<Reply, Failure>> + Send;

    /// A point in the history of the store from which [`Engine::follow`] can report, where it has one.
    fn position(&self) -> u64 {
        0
    }

    /// Notifies `hints` whenever `name`, or a slot of the semaphore `name`, may have become free. It begins
    /// after the position `since`, or when it calls [`Hints::begin`] if that is 0. It returns when it can
    /// report nothing more; the core calls it again.
    fn follow(&self, name: &Name, since: u64, hints: Hints) -> impl Future<Output = ()> + Send;

    /// Asks the store for its kind and version, such as `etcd 3.5.9`.
    fn version(&self) -> impl Future<Output = Result<String, NodeError>> + Send;

    /// The names that are held.
    fn names(&self) -> impl Future<Output = Result<Names, NodeError>> + Send;

    /// Examines the store without changing what it keeps.
    fn examine(&self) -> impl Future<Output = Result<Facts, NodeError>> + Send;

    /// Prepares the store: creates what must exist, and declares that nothing which it may have forgotten
    /// matters.
    fn init(&self) -> impl Future<Output = Result<(), NodeError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Records that clients may use a ttl of up to `longest`, where the store keeps such a record.
    fn raise_longest_ttl(&self, _longest: Duration) -> impl Future<Output = Result<(), NodeError>> + Send {
        std::future::ready(Ok(()))
    }

    /// Waits for work that is still under way before the runtime ends. The core bounds it.
    fn finish(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// Why a command failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// It changed nothing, and never will: it was not sent, or the store refused it.
    Unsent(NodeError),
    /// The store may have executed it, or may execute it later.
    Unknown(NodeError),
}

impl Failure {
    pub(crate) fn error(&self) -> &NodeError {
        match self {
            Failure::Unsent(error) | Failure::Unknown(error) => error,
        }
    }

    pub(crate) fn into_error(self) -> NodeError {
        match self {
            Failure::Unsent(error) | Failure::Unknown(error) => error,
        }
    }
}

impl From<NodeError> for Failure {
    fn from(error: NodeError) -> Self {
        Failure::Unknown(error)
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long a caller waits for an answer.
    pub(crate) caller: Duration,
    /// How long one request to the store may take.
    pub(crate) request: Duration,
    /// No lock lives longer without an extension.
    pub(crate) longest_ttl: Duration,
}

impl Limits {
    pub(crate) fn new(ctx: &Context) -> Self {
        Self {
            caller: ctx.node_timeout,
            request: ctx.node_timeout * REQUEST_TIMEOUT_FACTOR,
            longest_ttl: ctx.longest_ttl,
        }
    }
}

/// A store as a node: its consensus decides, so it is one voter, however many members it has.
///
/// Dropping the node while commands are under way waits for them as long as the store may take to answer.
pub(crate) struct EngineNode<E: Engine> {
    id: Arc<str>,
    worker: Worker<E>,
}

impl<E: Engine> EngineNode<E> {
    /// The node `id` on `engine`. Asks the store nothing yet.
    pub(crate) fn new(id: String, engine: E, limits: Limits) -> Self {
        Self { id: id.into(), worker: Worker::new(engine, limits) }
    }

    /// Checks whether the store answers.
    async fn probe(&self) -> Result<(), NodeError> {
        let start = Instant::now();
        let version = self.worker.run(|engine| async move { engine.version().await }).await?;
        self.worker.health().set_version(version);
        self.worker.health().record_success(start.elapsed());
        Ok(())
    }
}

impl<E: Engine> Node for EngineNode<E> {
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

    fn init(&self) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(self.worker.run(|engine| async move { engine.init().await }))
    }

    fn raise_longest_ttl(&self, longest: Duration) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(self.worker.run(move |engine| async move { engine.raise_longest_ttl(longest).await }))
    }

    fn names(&self) -> BoxFuture<'_, Result<Names, NodeError>> {
        Box::pin(self.worker.run(|engine| async move { engine.names().await }))
    }

    fn examine(&self) -> BoxFuture<'_, Result<Facts, NodeError>> {
        Box::pin(self.worker.run(|engine| async move { engine.examine().await }))
    }

    fn health(&self) -> Health {
        self.worker.health().health()
    }
}

impl<E: Engine> fmt::Debug for EngineNode<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EngineNode({})", self.id)
    }
}
