//! The Redis or Valkey node: one ordered, batching, cancel-safe connection to one server.
//!
//! # How a command travels
//!
//! ```text
//! RedisNode::send          the caller's thread, never blocks
//!   Link::send               link/        locks the shared state
//!     LinkState::accept        link/state   may this server vote? is there room?
//!       Outbox::command          pipeline/    encodes the command, keeps its request for the reply
//! --- the first command of a write wakes the driver ---
//! Driver::poll_event       connection/  the task that owns the socket
//!   LinkState::take_over     link/state   yields once so that other tasks can add commands, then takes them all
//!   Socket::poll_exchange    connection/  one write, one read
//! --- the server executes the commands in order ---
//! Driver::read             connection/  hands out replies in chunks and writes between them
//!   InFlight::on_value       connection/  matches a reply with the oldest pending command
//!     replies::*               protocol/    what the reply means
//!   Request::answer          the round that sent the command wakes up
//! ```
//!
//! A vote counts only with the epoch that was read after it in the same write: [`link::voting_right`]
//! explains why. A release that was not acknowledged is kept and sent again
//! ([`pipeline::unacked_releases`]), so that no lock stays on a server that was unreachable for a while.
//!
//! # Layout
//! A folder uses only the folders above it.
//!
//! - `protocol/`: bytes and their meaning: RESP, commands, replies, scripts; no state, no IO
//! - `pipeline/`: commands that wait to be written, replies that are expected, releases to send again
//! - `link/`: what senders and the driver share: phase, epoch, voting right, statistics
//! - `connection/`: the task that owns the socket: handshake, driver, dispatch of replies
//! - `admin/`: what operators ask, on a connection of its own, never between votes

pub(crate) mod admin;
pub(crate) mod connection;
pub(crate) mod link;
pub(crate) mod pipeline;
pub(crate) mod protocol;
#[cfg(test)]
mod tests;

pub(crate) use admin::session::{Session, SessionCell};
#[cfg(fuzzing)]
pub use protocol::resp::property::check_reply_bytes;
pub(crate) use protocol::resp::{MAX_BULK, Value};

use crate::context::{CLOCK_TOLERANCE, Context};
use crate::node::net::stream::Address;
use crate::node::url::{NodeUrl, Place};
use crate::node::{BoxFuture, Facts, Health, Names, Node, NodeError, Request, Wakeup};
use admin::{examine, scan};
use connection::driver::Driver;
use link::Link;
use link::greeting::Login;
use link::state::{LinkState, Phase, QUEUE_LIMIT};
use link::voting_right::VotingRight;
use pipeline::pending::PendingVerify;
use protocol::{encode, scripts, server_errors, verify};
use quorlock_core::Name;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// One Redis or Valkey server.
///
/// It connects with the first command, in a task of the Tokio runtime from which that command came.
/// Dropping it flushes what was sent within one connect timeout, as long as that runtime lives.
pub(crate) struct RedisNode {
    link: Arc<Link>,
}

impl RedisNode {
    /// The server that `url` names. Nothing is sent yet.
    ///
    /// # Errors
    /// [`NodeError::Tls`] if a certificate cannot be used, [`NodeError::Protocol`] if the URL names no
    /// server.
    pub(crate) fn new(url: &NodeUrl, ctx: Context) -> Result<Self, NodeError> {
        let (address, login) = reach(url, &ctx)?;
        let link = Link::new(url.short().into(), ctx, address, login, Driver::spawn);
        Ok(Self { link: Arc::new(link) })
    }

    /// Sends any command and waits for its reply, for as long as a node may take to answer.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the reply, never the command.
    pub(crate) async fn call(&self, args: &[&[u8]]) -> Result<Value, NodeError> {
        self.link.wait_connected().await;
        let (caller, reply) = oneshot::channel();
        let must_wake = {
            let mut state = self.link.lock();
            check_ready(&state)?;
            let must_wake = state.outbox.is_empty();
            state.outbox.call(args, caller);
            must_wake
        };
        if must_wake {
            self.link.wake();
        }
        self.within_timeout(reply).await
    }

    /// Reads the epoch again.
    async fn verify(&self) -> Result<(), NodeError> {
        let (done, outcome) = oneshot::channel();
        {
            let mut state = self.link.lock();
            check_ready(&state)?;
            let verify = PendingVerify { done: Some(done), sends_script: false };
            state.verify(verify, &self.link.ctx, &self.link.login);
        }
        self.link.wake();
        self.within_timeout(outcome).await
    }

    async fn within_timeout<T>(
        &self,
        outcome: oneshot::Receiver<Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        let limit = self.link.ctx.node_timeout;
        match timeout(limit, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(NodeError::Abandoned),
            Err(_) => Err(NodeError::Timeout { after: limit }),
        }
    }

    /// Writes an epoch that may vote at once, and reads it back.
    async fn mark_fresh(&self) -> Result<(), NodeError> {
        let (ctx, login) = (&self.link.ctx, &self.link.login);
        let longest = encode::millis(ctx.longest_ttl.max(ctx.longest.recorded())).to_string();
        let nonce = verify::nonce(ctx);
        let (script, key, db) = (scripts::INIT, encode::EPOCH_KEY, login.db.to_string());
        let durable = if login.durable { "d" } else { "n" };
        let words = ["EVAL", script, "1", key, &longest, &nonce, &db, durable];
        self.call(&words.map(str::as_bytes)).await?;
        self.verify().await
    }

    /// Records `longest` as the longest ttl of any client, and reads the epoch that records it.
    async fn record_longest(&self, longest: Duration) -> Result<(), NodeError> {
        let recorded = encode::millis(self.link.ctx.longest.recorded()).to_string();
        let longest = encode::millis(longest).to_string();
        let tolerance = encode::millis(2 * CLOCK_TOLERANCE).to_string();
        let words = ["EVAL", scripts::RAISE, "1", encode::EPOCH_KEY, &longest, &recorded, &tolerance];
        match self.call(&words.map(str::as_bytes)).await {
            Ok(Value::Okay) => self.verify().await,
            Ok(answer) => {
                let left = Duration::from_millis(answer.number().unwrap_or_default());
                Err(NodeError::Quarantined { left })
            }
            Err(NodeError::Server { message }) if message.contains("NOEPOCH") => Err(NodeError::NoEpoch),
            Err(cause) => Err(cause),
        }
    }
}

/// Where to connect and how to log in, as `url` says.
fn reach(url: &NodeUrl, ctx: &Context) -> Result<(Address, Login), NodeError> {
    let Place::Server(server) = &url.place else {
        return Err(server_errors::protocol(format!("{url} is no Redis or Valkey server")));
    };
    let login = Login {
        user: server.user.clone(),
        password: server.password.clone(),
        db: server.db,
        durable: server.durable.unwrap_or(ctx.durable),
    };
    Ok((Address::new(&server.endpoint, &ctx.connector)?, login))
}

fn check_ready(state: &LinkState) -> Result<(), NodeError> {
    match &state.phase {
        Phase::Ready if state.len() < QUEUE_LIMIT => Ok(()),
        Phase::Ready => Err(NodeError::QueueFull { limit: QUEUE_LIMIT }),
        Phase::Down(cause) => Err(cause.clone()),
        Phase::Idle | Phase::Connecting => Err(NodeError::Abandoned),
    }
}

impl Node for RedisNode {
    fn id(&self) -> &str {
        &self.link.id
    }

    fn send(&self, request: Request) {
        self.link.send(request);
    }

    fn watch(&self, name: &Name, wakeup: &Wakeup) {
        let mut state = self.link.lock();
        state.wakeups.insert(name.as_str().to_owned(), wakeup.clone());
        state.set_hints(name.as_str(), true);
        let runtime = self.link.start(&mut state).ok().flatten();
        drop(state);
        self.link.spawn(runtime);
        self.link.wake();
    }

    fn unwatch(&self, name: &Name) {
        let mut state = self.link.lock();
        if state.wakeups.remove(name.as_str()).is_some() {
            state.set_hints(name.as_str(), false);
        }
        drop(state);
        self.link.wake();
    }

    fn wait_connected(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.wait_connected())
    }

    fn init(&self) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(self.mark_fresh())
    }

    fn raise_longest_ttl(&self, longest: Duration) -> BoxFuture<'_, Result<(), NodeError>> {
        Box::pin(self.record_longest(longest))
    }

    fn names(&self) -> BoxFuture<'_, Result<Names, NodeError>> {
        Box::pin(scan::names(&self.link))
    }

    fn examine(&self) -> BoxFuture<'_, Result<Facts, NodeError>> {
        Box::pin(async { Ok(Facts::Server(Box::new(examine::examine(&self.link).await?))) })
    }

    fn health(&self) -> Health {
        let state = self.link.lock();
        let trouble = match (&state.phase, &state.voting_right) {
            (Phase::Down(cause), _) => Some(cause.clone()),
            (Phase::Ready, VotingRight::Unverified) => Some(NodeError::EpochChanged),
            (Phase::Ready, VotingRight::NoEpoch) => Some(NodeError::NoEpoch),
            (Phase::Ready, VotingRight::Verified { epoch, .. }) => {
                let ctx = &self.link.ctx;
                let left = epoch.left(ctx.longest.recorded(), ctx.clock.now());
                let quarantined = (!left.is_zero()).then_some(NodeError::Quarantined { left });
                quarantined.or(ctx.identities.check_epoch(&self.link.id).err())
            }
            _ => None,
        };
        Health {
            trouble,
            round_trip: state.stats.round_trip,
            version: state.stats.version.as_deref().map(str::to_owned),
            clock_ahead_micros: state.stats.ahead_micros,
            queued: state.len(),
        }
    }
}

impl Drop for RedisNode {
    fn drop(&mut self) {
        self.link.lock().closing = true;
        self.link.wake();
    }
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisNode({})", self.link.id)
    }
}
