//! The blocking twin of the guard.

use crate::blocking::Lease;
use crate::blocking::runtime::{is_engine, wait, wait_briefly};
use crate::error::{ExtendError, Lost, UpgradeError};
use crate::hold::handle::LockHandle;
use crate::hold::release::ReleaseOutcome;
use quorlock_core::{Fence, LeaseState, LossReason, Mode, Name, Owner, Token};
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// A held lock, kept alive in the background and released when dropped. The blocking twin of
/// [`crate::Guard`].
///
/// A drop waits until a majority has released, for one node timeout at most: a program may end right
/// after it.
#[derive(Debug)]
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct Guard {
    /// `None` once it was released or given away.
    guard: Option<crate::Guard>,
    lease: Lease,
}

impl Guard {
    pub(crate) fn new(guard: crate::Guard) -> Self {
        let lease = Lease::new(guard.lease());
        Self { guard: Some(guard), lease }
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
    pub fn into_handle(mut self) -> Result<LockHandle, ExtendError> {
        match self.guard.take() {
            Some(guard) => wait(guard.into_handle()),
            None => Err(Lost { lock: self.lease.name_set().clone(), reason: LossReason::Released }.into()),
        }
    }

    /// Stops keeping the lock alive and sends nothing to the nodes; see [`crate::Guard::detach`].
    pub fn detach(mut self) {
        self.guard.take().into_iter().for_each(crate::Guard::detach);
    }

    /// Holds the lock shared from now on; see [`crate::Guard::downgrade`].
    pub fn downgrade(&self) {
        if let Some(guard) = &self.guard {
            guard.downgrade();
        }
    }

    /// Makes a shared hold exclusive if no other client shares the lock; see [`crate::Guard::try_upgrade`].
    ///
    /// # Errors
    /// [`UpgradeError`]; the lock is then held shared as before, unless it was lost.
    pub fn try_upgrade(&self) -> Result<(), UpgradeError> {
        self.lease.try_upgrade()
    }

    /// A view of this lock for other threads.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }
}

/// What a guard knows of its lock; a [`Lease`] says the same.
impl Guard {
    /// The name of the lock; of several names the first.
    pub fn name(&self) -> &Name {
        self.lease.name()
    }

    /// All names that are held together, in the order of their text.
    pub fn names(&self) -> &[Name] {
        self.lease.names()
    }

    /// How the lock is held.
    pub fn mode(&self) -> Mode {
        self.lease.mode()
    }

    /// Who took it, since when and why, as the nodes store it.
    pub fn owner(&self) -> Owner {
        self.lease.owner()
    }

    /// The random proof of ownership.
    pub fn token(&self) -> Token {
        self.lease.token()
    }

    /// The number to send with every write to the protected resource.
    pub fn fence(&self) -> Fence {
        self.lease.fence()
    }

    /// How long the lock is held for sure, if it is not extended.
    pub fn remaining(&self) -> Duration {
        self.lease.remaining()
    }

    /// Time to the deadline, even after a loss was announced before it; see [`crate::Lease::time_left`].
    pub fn time_left(&self) -> Duration {
        self.lease.time_left()
    }

    /// The deadline by the wall clock, for people.
    pub fn expires_at(&self) -> SystemTime {
        self.lease.expires_at()
    }

    /// How many nodes had agreed when the last acquire or extension was decided.
    pub fn votes(&self) -> usize {
        self.lease.votes()
    }

    /// The state of the lock right now: held, unverified, or lost and why. Asks no node.
    pub fn state(&self) -> LeaseState {
        self.lease.state()
    }

    /// Whether the lock is held for sure right now.
    pub fn is_held(&self) -> bool {
        self.lease.is_held()
    }

    /// Blocks until the lock is lost, at most `limit` long; `None` if it was not.
    pub fn lost_within(&self, limit: Duration) -> Option<Lost> {
        self.lease.lost_within(limit)
    }

    /// A token that is cancelled when the lock is lost; ask it with `is_cancelled` between the steps of
    /// your work.
    pub fn lost_token(&self) -> CancellationToken {
        self.lease.lost_token()
    }

    /// Extends the lock by its ttl from now; see [`crate::Lease::extend`].
    ///
    /// # Errors
    /// [`ExtendError`] if it is lost, or too few nodes answered.
    pub fn extend(&self) -> Result<Duration, ExtendError> {
        self.lease.extend()
    }

    /// Extends the lock by `ttl` from now; see [`crate::Lease::extend_by`].
    ///
    /// # Errors
    /// [`ExtendError`] if it is lost, too few nodes answered, or the ttl cannot be used.
    pub fn extend_by(&self, ttl: Duration) -> Result<Duration, ExtendError> {
        self.lease.extend_by(ttl)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(guard) = self.guard.take() else { return };
        // If an observer drops it, no thread is left to wait, and the release is sent in the background.
        if !is_engine() {
            let limit = guard.node_timeout();
            wait_briefly(guard.release(), limit);
        }
    }
}
