//! The Redis or Valkey node: one ordered, batching, cancel-safe connection to one server.

pub(crate) mod admin;
pub(crate) mod connection;
pub(crate) mod link;
pub(crate) mod pipeline;
pub(crate) mod protocol;
#[cfg(test)]
mod tests;

pub(crate) use admin::session::{Session, Switchboard};
pub(crate) use protocol::resp::{MAX_BULK, Value};

use crate::context::{CLOCK_TOLERANCE, Surroundings};
use crate::node::net::stream::Address;
use crate::node::url::{NodeUrl, Place};
use crate::node::{Bell, BoxFuture, Facts, Health, Names, Node, NodeError, Question};
use admin::{examine, scan};
use connection::driver::Driver;
use link::Link;
use link::epoch::Standing;
use link::greeting::Login;
use link::state::{Phase, QUEUE_LIMIT, Queue};
use pipeline::pending::Verify;
use protocol::{encode, scripts, server_errors, verify};
use quorlock_core::Name;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// One Redis or Valkey server.
///
/// It connects with the first command, in a task of the Tokio runtime from which that command came. Dropping it
/// flushes what was sent within one connect timeout, as long as that runtime lives.
pub struct RedisNode {
    link: Arc<Link>,
}

impl RedisNode {
    /// The server that `url` names. Nothing is sent yet.
    ///
    /// # Errors
    /// [`NodeError::Tls`] if a certificate cannot be used, [`NodeError::Protocol`] if the URL names no server.
    pub(crate) fn new(url: &NodeUrl, around: Surroundings) -> Result<Self, NodeError> {
        let (address, login) = reach(url, &around)?;
        let link = Link::new(url.short().into(), around, address, login, Driver::spawn);
        Ok(Self { link: Arc::new(link) })
    }

    /// Sends any command and waits for its reply, for as long as a node may take to answer.
    ///
    /// # Cancel safety
    /// Dropping the future forgets the reply, never the command.
    pub(crate) async fn call(&self, args: &[&[u8]]) -> Result<Value, NodeError> {
        self.link.settle().await;
        let (caller, reply) = oneshot::channel();
        let must_wake = {
            let mut queue = self.link.lock();
            check_ready(&queue)?;
            let must_wake = queue.outbox.is_empty();
            queue.outbox.call(args, caller);
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
            let mut queue = self.link.lock();
            check_ready(&queue)?;
            let verify = Verify { done: Some(done), whole: false };
            queue.verify(verify, &self.link.around, &self.link.login);
        }
        self.link.wake();
        self.within_timeout(outcome).await
    }

    async fn within_timeout<T>(
        &self,
        outcome: oneshot::Receiver<Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        let limit = self.link.around.node_timeout;
        match timeout(limit, outcome).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(NodeError::Abandoned),
            Err(_) => Err(NodeError::Timeout { after: limit }),
        }
    }

    /// Writes an epoch that may vote at once, and learns it.
    async fn mark_fresh(&self) -> Result<(), NodeError> {
        let (around, login) = (&self.link.around, &self.link.login);
        let longest = encode::millis(around.longest_ttl.max(around.longest.recorded())).to_string();
        let nonce = verify::nonce(around);
        let (script, key, db) = (scripts::INIT, encode::EPOCH_KEY, login.db.to_string());
        let durable = if login.durable { "d" } else { "n" };
        let words = ["EVAL", script, "1", key, &longest, &nonce, &db, durable];
        self.call(&words.map(str::as_bytes)).await?;
        self.verify().await
    }

    /// Records `longest` as the longest ttl of any client, and learns the epoch that records it.
    async fn record_longest(&self, longest: Duration) -> Result<(), NodeError> {
        let recorded = encode::millis(self.link.around.longest.recorded()).to_string();
        let longest = encode::millis(longest).to_string();
        let tolerance = encode::millis(2 * CLOCK_TOLERANCE).to_string();
        let words = ["EVAL", scripts::RAISE, "1", encode::EPOCH_KEY, &longest, &recorded, &tolerance];
        match self.call(&words.map(str::as_bytes)).await {
            Ok(Value::Okay) => self.verify().await,
            Ok(answer) => {
                let left = Duration::from_millis(answer.number().unwrap_or_default());
                Err(NodeError::Quarantined { left })
            }
            Err(NodeError::Server { message }) if message.contains("NOEPOCH") => Err(NodeError::Unmarked),
            Err(cause) => Err(cause),
        }
    }
}

/// Where to connect and how to log in, as `url` tells.
fn reach(url: &NodeUrl, around: &Surroundings) -> Result<(Address, Login), NodeError> {
    let Place::Server(server) = &url.place else {
        return Err(server_errors::protocol(format!("{url} is no Redis or Valkey server")));
    };
    let login = Login {
        user: server.user.clone(),
        password: server.password.clone(),
        db: server.db,
        durable: server.durable.unwrap_or(around.durable),
    };
    Ok((Address::new(&server.endpoint)?, login))
}

fn check_ready(queue: &Queue) -> Result<(), NodeError> {
    match &queue.phase {
        Phase::Ready if queue.len() < QUEUE_LIMIT => Ok(()),
        Phase::Ready => Err(NodeError::QueueFull { limit: QUEUE_LIMIT }),
        Phase::Down(cause) => Err(cause.clone()),
        Phase::Idle | Phase::Connecting => Err(NodeError::Abandoned),
    }
}

impl Node for RedisNode {
    fn id(&self) -> &str {
        &self.link.id
    }

    fn send(&self, question: Question) {
        self.link.send(question);
    }

    fn watch(&self, name: &Name, bell: &Bell) {
        let mut queue = self.link.lock();
        queue.bells.insert(name.as_str().to_owned(), bell.clone());
        queue.hints(name.as_str(), true);
        let runtime = self.link.start(&mut queue).ok().flatten();
        drop(queue);
        self.link.spawn(runtime);
        self.link.wake();
    }

    fn unwatch(&self, name: &Name) {
        let mut queue = self.link.lock();
        if queue.bells.remove(name.as_str()).is_some() {
            queue.hints(name.as_str(), false);
        }
        drop(queue);
        self.link.wake();
    }

    fn settle(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.link.settle())
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
        let queue = self.link.lock();
        let trouble = match (&queue.phase, &queue.standing) {
            (Phase::Down(cause), _) => Some(cause.clone()),
            (Phase::Ready, Standing::Unverified) => Some(NodeError::EpochChanged),
            (Phase::Ready, Standing::Unmarked) => Some(NodeError::Unmarked),
            (Phase::Ready, Standing::Verified { epoch, .. }) => {
                let around = &self.link.around;
                let left = epoch.left(around.longest.recorded(), around.clock.now());
                let quarantined = (!left.is_zero()).then_some(NodeError::Quarantined { left });
                quarantined.or(around.siblings.check_epoch(&self.link.id).err())
            }
            _ => None,
        };
        Health {
            trouble,
            round_trip: queue.facts.round_trip,
            version: queue.facts.version.as_deref().map(str::to_owned),
            clock_ahead_micros: queue.facts.ahead_micros,
            queued: queue.len(),
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
