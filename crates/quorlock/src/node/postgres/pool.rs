//! Up to 16 connections, opened when they are needed. One whose statement was not answered is closed.

use crate::context::entropy::{self, Entropy};
use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::engine::{Failure, Limits};
use crate::node::postgres::connection::{Connection, Connector, Row};
use crate::node::postgres::statement::{Statement, identifier};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

/// The most connections, without the one that listens.
const MAX_CONNECTIONS: usize = 16;

/// The connections of one node.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) connector: Connector,
    entropy: Arc<dyn Entropy>,
    /// The schema, and the same as SQL writes it.
    pub(crate) schema: String,
    pub(crate) quoted_schema: String,
    limits: Limits,
    permits: Semaphore,
    /// The one used last is taken first.
    idle: Mutex<Vec<Connection>>,
    /// The longest ttl that the database has recorded, in milliseconds.
    longest_ms: AtomicU64,
}

/// A connection that one statement uses.
pub(crate) struct Lease<'a> {
    pub(crate) connection: Connection,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    /// The version of `schema.sql`.
    pub(crate) const VERSION: u32 = 1;

    pub(crate) fn new(connector: Connector, entropy: Arc<dyn Entropy>, schema: &str, limits: Limits) -> Self {
        Self {
            connector,
            entropy,
            schema: schema.to_owned(),
            quoted_schema: identifier(schema),
            limits,
            permits: Semaphore::new(MAX_CONNECTIONS),
            idle: Mutex::default(),
            longest_ms: AtomicU64::new(0),
        }
    }

    /// The longest ttl that the database has recorded, when a connection was last opened.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_millis(self.longest_ms.load(Ordering::Relaxed))
    }

    /// Begins the call of a function.
    pub(crate) fn call(&self, function: &str) -> Statement {
        Statement::call(&self.quoted_schema, function)
    }

    /// Asks for the rows of a statement that `write` makes of a number to echo and the time for which it
    /// may wait for a row. Ends within the limit of a request.
    pub(crate) async fn ask(&self, write: impl FnOnce(u64, i128) -> String) -> Result<Vec<Row>, Failure> {
        let until = self.deadline();
        let lease = self.lease_by(until).await?;
        self.ask_on(lease, until, write).await
    }

    /// When a request that begins now must have ended.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.limits.request
    }

    /// A connection for a statement, unless there is none before `until`.
    pub(crate) async fn lease_by(&self, until: Instant) -> Result<Lease<'_>, Failure> {
        match timeout_at(until, self.lease()).await {
            Ok(lease) => lease.map_err(Failure::Unsent),
            Err(_) => Err(Failure::Unsent(self.late())),
        }
    }

    /// The same as [`Pool::ask`] on a connection and until a time that are given.
    pub(crate) async fn ask_on(
        &self,
        lease: Lease<'_>,
        until: Instant,
        write: impl FnOnce(u64, i128) -> String,
    ) -> Result<Vec<Row>, Failure> {
        let echo = entropy::number(self.entropy.as_ref()) >> 1;
        let is_direct = lease.connection.greeting.is_direct;
        let statement = write(echo, self.connector.row_timeout_ms(is_direct));
        let answer = timeout_at(until, lease.connection.ask(&statement, echo, &self.schema)).await;
        let answer = answer.unwrap_or_else(|_| Err(Failure::Unknown(self.late())));
        // What comes later on a connection that was not answered would be taken for another answer.
        if !matches!(answer, Err(Failure::Unknown(_))) {
            self.give_back(lease);
        }
        answer
    }

    /// The one number that a statement returns.
    pub(crate) async fn ask_number(&self, write: impl FnOnce(u64, i128) -> String) -> Result<i64, Failure> {
        self.ask_number_by(self.deadline(), write).await
    }

    /// The same until a time that is given.
    pub(crate) async fn ask_number_by(
        &self,
        until: Instant,
        write: impl FnOnce(u64, i128) -> String,
    ) -> Result<i64, Failure> {
        let lease = self.lease_by(until).await?;
        let rows = self.ask_on(lease, until, write).await?;
        let number = rows.first().and_then(|row| row.get(1).cloned().flatten());
        number.and_then(|number| number.parse().ok()).ok_or_else(|| Failure::Unknown(no_number()))
    }

    /// A connection to a server that can be a node, with our functions.
    pub(crate) async fn lease(&self) -> Result<Lease<'_>, NodeError> {
        let permit = self.permits.acquire().await.map_err(|_| NodeError::Abandoned)?;
        let idle = {
            let mut idle = self.idle.lock();
            idle.retain(|connection| !connection.is_closed());
            idle.pop()
        };
        let connection = match idle {
            Some(connection) => connection,
            None => {
                let connection = self.connector.connect(None).await?;
                self.check_schema(&connection).await?;
                connection
            }
        };
        Ok(Lease { connection, _permit: permit })
    }

    pub(crate) fn give_back(&self, lease: Lease<'_>) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_CONNECTIONS {
            idle.push(lease.connection);
        }
    }

    fn late(&self) -> NodeError {
        NodeError::Timeout { after: self.limits.request }
    }

    /// Closes connections that no statement uses.
    pub(crate) fn close_idle(&self) {
        self.idle.lock().clear();
    }

    async fn check_schema(&self, connection: &Connection) -> Result<(), NodeError> {
        let about = self.call("about").select_columns(1, "version, longest_ms");
        let rows = connection.ask(&about, 1, &self.schema).await.map_err(Failure::into_error)?;
        let number = |at: usize| rows.first()?.get(at)?.as_deref()?.parse::<u64>().ok();
        let found = number(1).and_then(|version| u32::try_from(version).ok());
        if found.is_none_or(|found| found < Self::VERSION) {
            return Err(NodeError::Schema { schema: self.schema.as_str().into(), found });
        }
        self.longest_ms.store(number(2).unwrap_or_default(), Ordering::Relaxed);
        Ok(())
    }
}

fn no_number() -> NodeError {
    NodeError::Protocol { reason: "a function returned no number".into() }
}
