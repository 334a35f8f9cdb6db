//! Fencing at the resource: values in Redis or Valkey that refuse the write of an outdated holder.
//!
//! A lock with a time limit can end under a paused holder. What then saves the data is the resource: it
//! remembers the highest fence that wrote and refuses lower ones. This is that check for a value kept in
//! Redis or Valkey; for SQL see `examples/fenced-sql` in the repository.
//!
//! ```no_run
//! # async fn example(guard: quorlock::Guard) -> Result<(), Box<dyn std::error::Error>> {
//! use quorlock::fenced::{FencedStore, Written};
//!
//! let store = FencedStore::open("redis://127.0.0.1")?;
//! match store.set("report", "42 rows", guard.fence()).await? {
//!     Written::Yes => {}
//!     Written::Stale { seen } => eprintln!("a later holder (fence {seen}) has written: stop"),
//! }
//! # Ok(()) }
//! ```

use crate::context::{Context, RestartGuard};
use crate::error::ConfigError;
use crate::node::{MAX_BULK, NodeError, NodeUrl, RedisNode, Value};
use quorlock_core::Fence;
use std::time::Duration;

/// Writes `ARGV[2]` to `KEYS[1]` if no fence above `ARGV[1]` was seen in `KEYS[2]`.
///
/// Answers 1, or the higher fence as text. For use with any other client: `EVAL script 2 key fence_key
/// fence value`.
pub const FENCED_SET: &str = include_str!("fenced_set.lua");

/// How long one call may take.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Values on one server, each with the highest fence that wrote it.
///
/// The value is stored under its own key, as any client reads it; the fence under `quorlock:seen:{key}`.
#[derive(Debug)]
pub struct FencedStore {
    node: RedisNode,
}

/// What became of a fenced write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a stale write means that another client holds the lock now"]
pub enum Written {
    /// The value was written.
    Yes,
    /// A later holder has written. The value was left alone: stop the work.
    Stale {
        /// The highest fence that wrote.
        seen: Fence,
    },
}

impl FencedStore {
    /// The server that `url` names, in the form of [`NodeUrl`]. Nothing is sent yet.
    ///
    /// It need not be one of the nodes that vote, and better is not. A server that may evict keys is
    /// refused, because it could forget fences.
    ///
    /// # Errors
    /// [`ConfigError`] if the URL names no Redis or Valkey server.
    pub fn open(url: &str) -> Result<Self, ConfigError> {
        let url: NodeUrl = url.parse()?;
        let ctx = Context { guard: RestartGuard::Off, node_timeout: TIMEOUT, ..Context::default() };
        let node = RedisNode::new(&url, ctx);
        Ok(Self { node: node.map_err(|source| ConfigError::Node { node: url.to_string(), source })? })
    }

    /// Writes `value` of at most 64 KiB under `key` if no fence above `fence` has written it. One atomic
    /// step on the server.
    ///
    /// # Errors
    /// [`NodeError`] if the server did not answer: the value may or may not have been written. The same
    /// call can be made again. A value that is too long is refused.
    ///
    /// # Cancel safety
    /// Dropped half-way, the value may or may not have been written.
    pub async fn set(&self, key: &str, value: impl AsRef<[u8]>, fence: Fence) -> Result<Written, NodeError> {
        if value.as_ref().len() > MAX_BULK {
            let reason = "a value of over 64 KiB could not be read again; nothing was written".into();
            return Err(NodeError::Protocol { reason });
        }
        let (seen, fence) = (fence_key(key), fence.to_string());
        let words: [&[u8]; 7] = [
            b"EVAL",
            FENCED_SET.as_bytes(),
            b"2",
            key.as_bytes(),
            seen.as_bytes(),
            fence.as_bytes(),
            value.as_ref(),
        ];
        match self.node.call(&words).await? {
            Value::Integer(1) => Ok(Written::Yes),
            other => match other.number() {
                Some(seen) => Ok(Written::Stale { seen: Fence::new(seen) }),
                None => {
                    Err(NodeError::Protocol { reason: "a fenced write is answered by another shape".into() })
                }
            },
        }
    }

    /// The value under `key`, if there is one of at most 64 KiB.
    ///
    /// # Errors
    /// [`NodeError`] if the server did not answer.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, NodeError> {
        Ok(self.node.call(&[b"GET", key.as_bytes()]).await?.text().map(<[u8]>::to_vec))
    }

    /// The highest fence that wrote `key`.
    ///
    /// # Errors
    /// [`NodeError`] if the server did not answer.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed.
    pub async fn seen(&self, key: &str) -> Result<Option<Fence>, NodeError> {
        let seen = self.node.call(&[b"GET", fence_key(key).as_bytes()]).await?.number();
        Ok(seen.map(Fence::new))
    }
}

/// The key of the highest fence of `key`. The braces keep it on the same server as `key` where keys are
/// spread over servers.
fn fence_key(key: &str) -> String {
    format!("quorlock:seen:{{{key}}}")
}
