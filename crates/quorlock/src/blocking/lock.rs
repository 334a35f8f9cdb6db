//! The blocking twin of the lock.

use crate::blocking::runtime::wait;
use crate::blocking::{Guard, Lease};
use crate::error::{AcquireError, ExtendError};
use crate::hold::extend_by_token::ExtendOutcome;
use crate::hold::release::ReleaseOutcome;
use crate::inspect::slots::SlotsInspection;
use crate::inspect::{InspectError, Inspection};
use quorlock_core::{Name, Token};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A lock by its name. The blocking twin of [`crate::Lock`].
#[derive(Clone, Debug)]
#[must_use = "a lock is not held until it is acquired"]
pub struct Lock(crate::Lock);

impl Lock {
    pub(crate) fn new(lock: crate::Lock) -> Self {
        Self(lock)
    }

    pub(crate) fn into_inner(self) -> crate::Lock {
        self.0
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// All its names, in the order of their text.
    pub fn names(&self) -> &[Name] {
        self.0.names()
    }

    /// The same lock, to be held together with other clients that share it; see [`crate::Lock::shared`].
    pub fn shared(self) -> Self {
        Self(self.0.shared())
    }

    /// Takes the lock, waiting for it if another client has it; see [`crate::Lock::acquire`].
    ///
    /// # Errors
    /// [`AcquireError`]: held by another client, contended, no quorum, too slow, cancelled, or too many
    /// waiters.
    pub fn acquire(&self) -> Result<Guard, AcquireError> {
        let lock = self.0.clone();
        wait(async move { lock.acquire().await }).map(Guard::new)
    }

    /// Takes the lock without waiting for a client that has it; as [`crate::Lock::try_acquire`], it tries
    /// again, for at most 5 s, only while no client has a majority.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    pub fn try_acquire(&self) -> Result<Guard, AcquireError> {
        let lock = self.0.clone();
        wait(async move { lock.try_acquire().await }).map(Guard::new)
    }

    /// Runs `work` while the lock is held, and releases it.
    ///
    /// Blocking work cannot be cancelled from outside, so check [`Lease::is_held`] between its steps and
    /// before its last write; what to do when the lock is lost is the work's decision. What it returns
    /// comes back as it is.
    ///
    /// # Errors
    /// [`AcquireError`] if the lock could not be taken; the work was then not started.
    pub fn run<T>(&self, work: impl FnOnce(&Lease) -> T) -> Result<T, AcquireError> {
        let guard = self.acquire()?;
        let result = work(&guard.lease());
        let _outcome = guard.release();
        Ok(result)
    }

    /// Asks all nodes what they store, without taking the lock.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    pub fn inspect(&self) -> Result<Inspection, InspectError> {
        let lock = self.0.clone();
        wait(async move { lock.inspect().await })
    }

    /// The same for each of its names.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    pub fn inspect_all(&self) -> Result<Vec<Inspection>, InspectError> {
        let lock = self.0.clone();
        wait(async move { lock.inspect_all().await })
    }

    /// How many slots the nodes have recorded, if a semaphore has this name; see [`crate::Lock::inspect_slots`].
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    pub fn inspect_slots(&self) -> Result<SlotsInspection, InspectError> {
        let lock = self.0.clone();
        wait(async move { lock.inspect_slots().await })
    }

    /// Extends the lock that a client holds with exactly this `token`; see [`crate::Lock::extend_token`].
    ///
    /// # Errors
    /// [`ExtendError`] if a majority does not hold it, too few nodes answered, or the ttl cannot be used.
    pub fn extend_token(&self, token: Token, ttl: Duration) -> Result<ExtendOutcome, ExtendError> {
        let lock = self.0.clone();
        wait(async move { lock.extend_token(token, ttl).await })
    }

    /// Releases the lock that the caller holds with exactly this `token`; see [`crate::Lock::release_token`].
    pub fn release_token(&self, token: Token) -> ReleaseOutcome {
        let lock = self.0.clone();
        wait(async move { lock.release_token(token).await })
    }

    /// Releases the lock that another client holds with exactly this `token`; see
    /// [`crate::Lock::force_release`].
    pub fn force_release(&self, token: Token) -> ReleaseOutcome {
        let lock = self.0.clone();
        wait(async move { lock.force_release(token).await })
    }
}

/// Settings of this lock alone. A value that cannot be used makes [`Lock::acquire`] fail with
/// [`AcquireError::Config`].
impl Lock {
    /// How long the nodes keep the lock without hearing from its holder.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// How long [`Lock::acquire`] waits at most.
    pub fn wait_timeout(self, limit: Duration) -> Self {
        Self(self.0.wait_timeout(limit))
    }

    /// How many attempts [`Lock::acquire`] makes at most, at least 1.
    pub fn max_attempts(self, attempts: u32) -> Self {
        Self(self.0.max_attempts(attempts))
    }

    /// Whether the lock is extended in the background.
    pub fn watchdog(self, on: bool) -> Self {
        Self(self.0.watchdog(on))
    }

    /// How long the lock may be held at most, however often it is extended; more than zero.
    pub fn max_hold(self, hold: Duration) -> Self {
        Self(self.0.max_hold(hold))
    }

    /// How long before the deadline a loss is announced; at most half of the validity.
    pub fn loss_margin(self, margin: Duration) -> Self {
        Self(self.0.loss_margin(margin))
    }

    /// The owner of the lock, for people who ask who holds it (default `user@host`).
    pub fn owner(self, who: impl Into<Arc<str>>) -> Self {
        Self(self.0.owner(who))
    }

    /// Why the lock is taken, for people who ask who holds it.
    pub fn reason(self, reason: impl Into<Arc<str>>) -> Self {
        Self(self.0.reason(reason))
    }

    /// Gives up waiting when `token` is cancelled, from any thread.
    pub fn cancel_on(self, token: CancellationToken) -> Self {
        Self(self.0.cancel_on(token))
    }

    /// Whether the lock stays when this process ends without releasing it; see
    /// [`crate::Lock::outlives_process`].
    pub fn outlives_process(self, outlives: bool) -> Self {
        Self(self.0.outlives_process(outlives))
    }
}
