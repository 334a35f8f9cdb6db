//! The PostgreSQL node: one row per name, changed by functions in the database.
//!
//! The server's clock decides when a hold ends, and its log what it remembers after a crash. A server with
//! another timeline, after a failover, may have forgotten the last commits and is quarantined.
//!
//! | module | job |
//! |---|---|
//! | `admin` | preparing a database, and examining it |
//! | `batch` | calls for many names as one statement |
//! | `commands` | what each command asks, and what the answer means |
//! | `connection`, `pool` | sessions with the server that is no standby |
//! | `errors` | what an error means |
//! | `listen` | hints |
//! | `statement` | the text of a statement |
//! | `tls` | TLS with the checks of `sslmode` |
//! | `schema.sql` | tables, and the rules as functions |

mod admin;
mod batch;
mod commands;
mod connection;
mod errors;
mod listen;
mod pool;
mod statement;
#[cfg(test)]
mod tests;
mod tls;

use crate::context::Context;
use crate::context::mutex::Mutex;
use crate::node::engine::{Engine, EngineNode, Failure, Hints, Limits};
use crate::node::url::postgres::Database;
use crate::node::{Command, Facts, Names, NodeError, Reply};
use batch::CallBatch;
use connection::Connector;
use listen::Listener;
use pool::Pool;
use quorlock_core::Name;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// How often this client asks whether old names are to be removed. The database does so once an hour.
const SWEEP: Duration = Duration::from_secs(600);

/// A PostgreSQL database.
#[derive(Debug)]
pub(crate) struct Postgres {
    pool: Arc<Pool>,
    /// Calls whose commit waits for the disk.
    durable: Arc<CallBatch>,
    /// Releases, whose commit does not.
    releases: Arc<CallBatch>,
    listener: Listener,
    /// Whether no failover loses a commit.
    is_durable: bool,
    longest_ttl: Duration,
    limits: Limits,
    swept: Mutex<Option<Instant>>,
}

/// The node of the database that `url` names. Connects to no server yet.
///
/// # Errors
/// [`NodeError::Tls`] if a certificate cannot be used.
pub(crate) fn open(url: &Database, ctx: &Context) -> Result<EngineNode<Postgres>, NodeError> {
    Ok(EngineNode::new(url.to_string(), engine(url, ctx)?, Limits::new(ctx)))
}

fn engine(url: &Database, ctx: &Context) -> Result<Postgres, NodeError> {
    let limits = Limits::new(ctx);
    let connector = Connector::new(url, ctx, url.to_string().into(), limits.caller)?;
    let pool = Arc::new(Pool::new(connector, ctx.entropy.clone(), &url.schema, limits));
    Ok(Postgres {
        durable: CallBatch::new(pool.clone(), limits.caller),
        releases: CallBatch::new(pool.clone(), limits.caller),
        pool,
        listener: Listener::default(),
        is_durable: url.durable || ctx.durable,
        longest_ttl: ctx.longest_to_record(),
        limits,
        swept: Mutex::default(),
    })
}

impl Engine for Postgres {
    const KIND: &'static str = "postgres";

    async fn execute(&self, command: &Command) -> Result<Reply, Failure> {
        if matches!(command, Command::Release { .. }) {
            self.sweep_now_and_then();
        }
        self.execute_command(command).await.map_err(explained)
    }

    async fn undo(&self, release: &Command) -> Result<Reply, Failure> {
        match release {
            Command::Release { name, token, quiet, .. } => self.undo_attempt(name, token, *quiet).await,
            other => self.execute_command(other).await,
        }
        .map_err(explained)
    }

    async fn follow(&self, name: &Name, _since: u64, mut hints: Hints) {
        let _ = self.listen(name, &mut hints).await;
    }

    async fn version(&self) -> Result<String, NodeError> {
        let limit = self.limits.request;
        let leased = timeout(limit, self.pool.lease()).await;
        let lease = leased.unwrap_or(Err(NodeError::Timeout { after: limit }))?;
        let version = format!("postgres {}", lease.connection.greeting.version);
        self.pool.give_back(lease);
        Ok(version)
    }

    async fn names(&self) -> Result<Names, NodeError> {
        self.held_names().await
    }

    async fn examine(&self) -> Result<Facts, NodeError> {
        Ok(Facts::Database(Box::new(self.facts().await?)))
    }

    async fn init(&self) -> Result<(), NodeError> {
        self.prepare().await
    }

    async fn raise_longest_ttl(&self, longest: Duration) -> Result<(), NodeError> {
        self.record_longest_ttl(longest).await
    }
}

/// Says what a command waited for in vain.
fn explained(failure: Failure) -> Failure {
    match failure {
        Failure::Unsent(NodeError::Busy) => {
            let message = "another transaction has locked the row of this name for too long".into();
            Failure::Unsent(NodeError::Server { message })
        }
        other => other,
    }
}

impl Postgres {
    /// Removes names that were not used for long, in the background.
    fn sweep_now_and_then(&self) {
        let mut swept = self.swept.lock();
        if swept.is_none_or(|at| at.elapsed() >= SWEEP) {
            *swept = Some(Instant::now());
            let pool = self.pool.clone();
            // If it fails, another client or a later time does it.
            tokio::spawn(async move { pool.ask_number(|echo, _| pool.call("sweep").select(echo)).await });
        }
    }
}
