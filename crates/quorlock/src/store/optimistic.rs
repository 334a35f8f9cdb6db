//! Optimistic updates: values in Redis or Valkey that change without a lock, never over another client's
//! change.
//!
//! This is the `WATCH` / `MULTI` / `EXEC` scheme: read the value, compute the next one, and let the
//! server write it only if no client changed the key in the meantime; otherwise start again.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use quorlock::optimistic::OptimisticStore;
//!
//! let store = OptimisticStore::open("redis://127.0.0.1")?;
//! let updated = store
//!     .update("visits", |old| {
//!         let old = old.map_or(Ok("0"), std::str::from_utf8)?;
//!         let next = old.parse::<u64>().unwrap_or(0) + 1;
//!         Ok::<_, std::str::Utf8Error>(Some(next.to_string().into_bytes()))
//!     })
//!     .await?;
//! println!("written after {} attempts", updated.attempts);
//! # Ok(()) }
//! ```
//!
//! # When to use it
//! For one value that changes quickly and is rarely contended: a counter, a configuration, a small
//! document. It needs no ttl, no client holds anything, and a client that dies leaves nothing behind.
//!
//! Use a [`Lock`](crate::Lock) instead if the work is long, has effects elsewhere, or many clients want
//! the same key. Here no client waits for another, and none is sure to succeed. The slower client is
//! refused and computes again; the more clients contend, the more work is thrown away, and a slow one may
//! never win.
//!
//! # What is promised
//! - An update is written only over the very value that its closure saw, on one server. A server that
//!   fails over or forgets takes its values with it; there is no quorum here.
//! - Nothing is tried again unless it certainly did not happen. A connection that breaks before the
//!   answer to `EXEC` is [`UpdateError::Unknown`].
//! - `WATCH` belongs to a connection, so a store has one of its own, which serves one update at a time.
//!   It never writes on another connection than the one that watched. Whatever ends an update early, be
//!   it a dropped future, an error or a panic of the closure, closes the connection, and with it ends all
//!   that was watched or queued.

mod attempt;

use crate::context::entropy;
use crate::context::{Context, RestartGuard};
use crate::error::ConfigError;
use crate::node::{MAX_BULK, NodeError, NodeUrl, SessionCell};
use attempt::{Outcome, Purpose, attempt, read};
use quorlock_core::{Backoff, Moment, Rounded};
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

/// The longest value that is read or written, in bytes.
pub const LONGEST_VALUE: usize = MAX_BULK;

/// How long the server may take for one step.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The delays between attempts.
const DELAYS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// Values on one server that are changed optimistically.
///
/// It has one connection, opened with the first call, for one call at a time: updates through one store
/// do not refuse each other, they run one after the other. Make several stores to run several at once.
#[derive(Debug)]
pub struct OptimisticStore {
    cell: Mutex<SessionCell>,
    ctx: Context,
    attempts: u32,
    limit: Duration,
}

/// An update that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Updated {
    /// The value that is stored now; `None` if the key was deleted.
    pub value: Option<Vec<u8>>,
    /// How many attempts it took. Often more than one means that a lock would serve better.
    pub attempts: u32,
}

/// Why [`OptimisticStore::update`] gave up. Unless it is [`UpdateError::Unknown`], nothing was written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError<E = Infallible> {
    /// Another client changed the key during every attempt. Try later; if it happens often, take a lock.
    #[error(
        "`{key}` was changed by others during each of {attempts} attempts in {}; try later, or take a lock if that is usual",
        Rounded(*.waited)
    )]
    Contended {
        /// The key.
        key: String,
        /// How many attempts were made.
        attempts: u32,
        /// How long this call took.
        waited: Duration,
    },
    /// Other calls of this store took the whole time. Try later, or make more stores.
    #[error("other updates of this store took all of {}; try later, or open more stores", Rounded(*.waited))]
    Busy {
        /// How long this call waited for the connection.
        waited: Duration,
    },
    /// The closure declined to change what it saw.
    #[error("the update was declined: {0}")]
    Declined(#[source] E),
    /// The value that is there, or the one to be written, is too long. Keep it elsewhere or in pieces.
    #[error("a value of {size} bytes is over the limit of {LONGEST_VALUE}")]
    TooLarge {
        /// Its length in bytes.
        size: u64,
    },
    /// The answer to the write never came: it may or may not have happened. Read the value before trying
    /// again: one that says which client wrote it, and why, can be recognised by
    /// [`OptimisticStore::get`].
    #[error("the update may or may not have been written: {source}; read the value before trying again")]
    Unknown {
        /// Why there was no answer.
        source: NodeError,
    },
    /// The server could not be reached, or refused.
    #[error(transparent)]
    Node(#[from] NodeError),
}

impl<E> UpdateError<E> {
    /// A stable word for the cause, for logs and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            UpdateError::Contended { .. } => "contended",
            UpdateError::Busy { .. } => "busy",
            UpdateError::Declined(_) => "declined",
            UpdateError::TooLarge { .. } => "too_large",
            UpdateError::Unknown { .. } => "unknown",
            UpdateError::Node(cause) => cause.kind(),
        }
    }
}

impl OptimisticStore {
    /// The server that `url` names, in the form of [`NodeUrl`]. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ConfigError`] if the URL names no Redis or Valkey server.
    pub fn open(url: &str) -> Result<Self, ConfigError> {
        let url: NodeUrl = url.parse()?;
        let ctx = Context {
            guard: RestartGuard::Off,
            node_timeout: TIMEOUT,
            // A key that is evicted has changed, and `EXEC` detects that.
            allow_eviction: true,
            ..Context::default()
        };
        let cell = SessionCell::new(&url, ctx.clone())
            .map_err(|source| ConfigError::Node { node: url.to_string(), source })?;
        let cell = Mutex::new(cell);
        Ok(Self { cell, ctx, attempts: 16, limit: Duration::from_secs(5) })
    }

    /// How many attempts an update makes at most; 16 unless set. Zero counts as one.
    #[must_use]
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts.max(1);
        self
    }

    /// For how long an update waits for the connection and begins new attempts; 5 s unless set.
    ///
    /// An attempt that has begun is not cut short: a server that does not answer may add some 4 s.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Replaces the value under `key` by what `change` makes of it, if no other client changed it in the
    /// meantime.
    ///
    /// `change` sees the value, or `None` if there is none, and returns the next one, `None` to delete
    /// the key, or an error to leave it alone. It is called once for each attempt, with what is there
    /// then, so it should do nothing but compute; other calls of this store wait for it. A time to live
    /// that the key has stays.
    ///
    /// # Errors
    /// [`UpdateError`], each variant with what to do. All but [`UpdateError::Unknown`] mean that nothing
    /// was written.
    ///
    /// # Cancel safety
    /// Dropped half-way, the value may or may not have been written, as a whole and only over the value
    /// that `change` saw. The connection is closed; nothing of it affects later updates.
    pub async fn update<E>(
        &self,
        key: &str,
        mut change: impl FnMut(Option<&[u8]>) -> Result<Option<Vec<u8>>, E>,
    ) -> Result<Updated, UpdateError<E>> {
        let started = self.ctx.clock.now();
        let mut backoff = Backoff::new(DELAYS.0, DELAYS.1);
        let mut attempts = 0;
        loop {
            let Ok(mut cell) = timeout(self.left(started), self.cell.lock()).await else {
                return Err(self.late(key, attempts, started));
            };
            attempts += 1;
            if let Outcome::Written(value) = attempt(&mut cell, key, &mut change).await? {
                return Ok(Updated { value, attempts });
            }
            drop(cell);
            let delay = backoff.next(entropy::number(&*self.ctx.entropy));
            if attempts >= self.attempts || delay >= self.left(started) {
                return Err(self.late(key, attempts, started));
            }
            sleep(delay).await;
        }
    }

    /// The value under `key`, if there is one.
    ///
    /// After [`UpdateError::Unknown`] it shows what became of the update, for good: it makes a new
    /// connection, and asks the server to end the one before, as far as the user may do so (`CLIENT
    /// KILL`).
    ///
    /// # Errors
    /// [`UpdateError::Busy`], [`UpdateError::TooLarge`] or [`UpdateError::Node`].
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, UpdateError> {
        let started = self.ctx.clock.now();
        let Ok(mut cell) = timeout(self.limit, self.cell.lock()).await else {
            return Err(self.late(key, 0, started));
        };
        let (session, value) = read(&mut cell, key, Purpose::Read).await?;
        cell.keep(session);
        Ok(value)
    }

    fn left(&self, started: Moment) -> Duration {
        self.limit.saturating_sub(self.ctx.clock.now().since(started))
    }

    fn late<E>(&self, key: &str, attempts: u32, started: Moment) -> UpdateError<E> {
        let waited = self.ctx.clock.now().since(started);
        match attempts {
            0 => UpdateError::Busy { waited },
            _ => UpdateError::Contended { key: key.to_owned(), attempts, waited },
        }
    }
}
