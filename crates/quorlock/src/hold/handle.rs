//! A held lock as plain data, to move it to another process.

use crate::hold::HeldLock;
use quorlock_core::{Fence, Mode, Name, NameSet, Token, Wall};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// A held lock as data, for [serde](https://serde.rs). A client that has it can take the lock over, so
/// keep it as secret as the token in it.
///
/// [`Guard::into_handle`](crate::Guard::into_handle) makes it, and
/// [`Locker::adopt`](crate::Locker::adopt) takes the lock over, on the same machine or another. Adopt a
/// handle once: two processes that adopt the same one share one lock and one fence, and nothing
/// distinguishes them. A maximal hold starts anew with the adoption.
///
/// ```
/// # use quorlock::{Guard, Locker};
/// # async fn example(guard: Guard, locker: Locker) -> Result<(), Box<dyn std::error::Error>> {
/// let handle = guard.into_handle().await?;
/// let text = serde_json::to_string(&handle)?; // send it to the other process
/// let guard = locker.adopt(&serde_json::from_str(&text)?).await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "the lock stays held until its ttl is over unless a process adopts it"]
pub struct LockHandle {
    #[serde(rename = "name")]
    names: NameSet,
    #[serde(default)]
    mode: Mode,
    token: Token,
    fence: Fence,
    ttl_ms: u64,
    /// In microseconds since 1970.
    expires_at: Wall,
}

impl LockHandle {
    pub(crate) fn of(hold: &HeldLock) -> Self {
        Self {
            names: hold.names.clone(),
            mode: hold.mode(),
            token: hold.token(),
            fence: hold.fence(),
            ttl_ms: hold.options.ttl.millis(),
            expires_at: hold.expires_at(),
        }
    }

    /// The lock; of several names the first.
    pub fn name(&self) -> &Name {
        self.names.first()
    }

    /// All names that are held together.
    pub fn names(&self) -> &NameSet {
        &self.names
    }

    /// How the lock is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The proof of ownership.
    pub fn token(&self) -> Token {
        self.token
    }

    /// The fence.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// How long the nodes keep the lock after each extension.
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }

    /// Until when it was sure to be held, by the wall clock of the process that gave it up. For people:
    /// an adoption asks the nodes.
    pub fn expires_at(&self) -> SystemTime {
        self.expires_at.into()
    }
}
