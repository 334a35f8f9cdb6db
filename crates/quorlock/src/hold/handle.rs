//! What it takes to move a held lock to another process, as plain data.

use crate::hold::HeldLock;
use quorlock_core::{Fence, Name, Token, Wall};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A held lock as data. Whoever has it can take the lock over, so keep it as secret as the token in it.
///
/// Made by [`Guard::into_handle`](crate::Guard::into_handle), taken over by
/// [`Locker::adopt`](crate::Locker::adopt), on the same machine or another. It is meant to be adopted once: two
/// processes that adopt the same handle share one lock and one fence, and nothing can tell them apart. A maximal hold
/// starts anew with the adoption.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[must_use = "the lock stays held until its ttl is over unless somebody adopts it"]
#[non_exhaustive]
pub struct Handle {
    /// The lock.
    pub name: Name,
    /// The proof of ownership.
    pub token: Token,
    /// The fence.
    pub fence: Fence,
    /// How long the nodes keep it after each extension, in milliseconds.
    pub ttl_ms: u64,
    /// Until when it was sure to be held, by the wall clock of the process that gave it up, in microseconds since
    /// 1970. For people: whoever adopts the lock asks the nodes.
    pub expires_at: Wall,
}

impl Handle {
    pub(crate) fn of(hold: &HeldLock) -> Self {
        Self {
            name: hold.name.clone(),
            token: hold.token(),
            fence: hold.fence(),
            ttl_ms: hold.options.ttl.millis(),
            expires_at: hold.expires_at(),
        }
    }

    /// How long the nodes keep the lock after each extension.
    pub fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }
}
