//! The blocking twins of the guard and of what can be asked of a held lock.

use crate::blocking::runtime::{is_engine, wait, wait_briefly};
use crate::error::{ExtendError, Lost};
use crate::hold::handle::Handle;
use crate::hold::release::ReleaseOutcome;
use quorlock_core::{LeaseState, LossReason, Name, Token, Wall};
use std::ops::Deref;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A held lock, kept alive in the background and released when dropped. The blocking twin of [`crate::Guard`].
///
/// A drop waits until a majority has let go, for one node timeout at most: a program may end right after it.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    /// There until it is given away.
    guard: Option<crate::Guard>,
    held: Held,
}

impl Guard {
    pub(crate) fn new(guard: crate::Guard) -> Self {
        let held = Held(guard.share());
        Self { guard: Some(guard), held }
    }

    /// Releases the lock on all nodes and says what became of it.
    pub fn release(mut self) -> ReleaseOutcome {
        match self.guard.take() {
            Some(guard) => wait(guard.release()),
            None => ReleaseOutcome::AlreadyGone,
        }
    }

    /// Stops keeping the lock alive without releasing it; see [`crate::Guard::into_handle`].
    ///
    /// # Errors
    /// [`ExtendError`] if the last extension fails; the lock is then released.
    pub fn into_handle(mut self) -> Result<Handle, ExtendError> {
        match self.guard.take() {
            Some(guard) => wait(guard.into_handle()),
            None => Err(Lost { lock: self.name().clone(), reason: LossReason::Released }.into()),
        }
    }

    /// Stops looking after the lock without a word to the nodes; see [`crate::Guard::leave`].
    pub fn leave(mut self) {
        self.guard.take().into_iter().for_each(crate::Guard::leave);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        // Where an observer drops it there is nobody left to wait for, and the release goes out behind it.
        if !is_engine() {
            let limit = guard.node_timeout();
            wait_briefly(guard.release(), limit);
        }
    }
}

impl Deref for Guard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

/// What can be asked of a held lock. The blocking twin of [`crate::Held`].
#[derive(Debug)]
pub struct Held(crate::Held);

impl Held {
    /// The same for another thread; see [`crate::Held::share`].
    pub fn share(&self) -> Self {
        Self(self.0.share())
    }

    /// The name of the lock.
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// The random proof of ownership.
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// The number to send with every write to the protected resource.
    pub fn fence(&self) -> u64 {
        self.0.fence()
    }

    /// How long the lock is held for sure, if nobody extends it.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Time to the deadline, also after a loss was announced before it; see [`crate::Held::time_left`].
    pub fn time_left(&self) -> Duration {
        self.0.time_left()
    }

    /// The deadline by the wall clock, for people.
    pub fn expires_at(&self) -> Wall {
        self.0.expires_at()
    }

    /// How many nodes had agreed when the last acquire or extension was decided.
    pub fn votes(&self) -> usize {
        self.0.votes()
    }

    /// What the lock is worth right now: held, to be verified, or lost and why.
    pub fn standing(&self) -> LeaseState {
        self.0.state()
    }

    /// Whether the lock is held for sure right now.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Blocks until the lock is lost, at most `limit` long; `None` if it was not.
    pub fn lost_within(&self, limit: Duration) -> Option<Lost> {
        let held = self.0.share();
        wait(async move { timeout(limit, held.lost()).await.ok() })
    }

    /// A token that is cancelled when the lock is lost; ask it with `is_cancelled` between the steps of your work.
    pub fn lost_token(&self) -> CancellationToken {
        self.0.lost_token()
    }

    /// Extends the lock by its ttl from now; see [`crate::Held::extend`].
    ///
    /// # Errors
    /// [`ExtendError`] if it is lost, or too few nodes answered.
    pub fn extend(&self) -> Result<Duration, ExtendError> {
        let held = self.0.share();
        wait(async move { held.extend().await })
    }

    /// Extends the lock by `ttl` from now; see [`crate::Held::extend_by`].
    ///
    /// # Errors
    /// [`ExtendError`] if it is lost, too few nodes answered, or the ttl cannot be used.
    pub fn extend_by(&self, ttl: Duration) -> Result<Duration, ExtendError> {
        let held = self.0.share();
        wait(async move { held.extend_by(ttl).await })
    }
}
