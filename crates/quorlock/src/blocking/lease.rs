//! The blocking twin of the lease.

use crate::blocking::runtime::wait;
use crate::error::{ExtendError, Lost, UpgradeError};
use quorlock_core::{Fence, LeaseState, Mode, Name, NameSet, Owner, Token};
use std::time::{Duration, SystemTime};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// A view of a held lock. It does not keep the lock. The blocking twin of [`crate::Lease`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lease(crate::Lease);

impl Lease {
    pub(crate) fn new(lease: crate::Lease) -> Self {
        Self(lease)
    }

    /// The name of the lock; of several names the first.
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// All names that are held together, in the order of their text.
    pub fn names(&self) -> &[Name] {
        self.0.names()
    }

    pub(crate) fn try_upgrade(&self) -> Result<(), UpgradeError> {
        let lease = self.0.clone();
        wait(async move { lease.try_upgrade().await })
    }

    pub(crate) fn name_set(&self) -> &NameSet {
        self.0.name_set()
    }

    /// How the lock is held.
    pub fn mode(&self) -> Mode {
        self.0.mode()
    }

    /// Who took it, since when and why, as the nodes store it.
    pub fn owner(&self) -> Owner {
        self.0.owner()
    }

    /// The random proof of ownership.
    pub fn token(&self) -> Token {
        self.0.token()
    }

    /// The number to send with every write to the protected resource.
    pub fn fence(&self) -> Fence {
        self.0.fence()
    }

    /// How long the lock is held for sure, if it is not extended.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// Time to the deadline, even after a loss was announced before it; see [`crate::Lease::time_left`].
    pub fn time_left(&self) -> Duration {
        self.0.time_left()
    }

    /// The deadline by the wall clock, for people.
    pub fn expires_at(&self) -> SystemTime {
        self.0.expires_at()
    }

    /// How many nodes had agreed when the last acquire or extension was decided.
    pub fn votes(&self) -> usize {
        self.0.votes()
    }

    /// The state of the lock right now: held, unverified, or lost and why. Asks no node.
    pub fn state(&self) -> LeaseState {
        self.0.state()
    }

    /// Whether the lock is held for sure right now.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Blocks until the lock is lost, at most `limit` long; `None` if it was not.
    pub fn lost_within(&self, limit: Duration) -> Option<Lost> {
        let lease = self.0.clone();
        wait(async move { timeout(limit, lease.lost()).await.ok() })
    }

    /// A token that is cancelled when the lock is lost; ask it with `is_cancelled` between the steps of
    /// your work.
    pub fn lost_token(&self) -> CancellationToken {
        self.0.lost_token()
    }

    /// Extends the lock by its ttl from now; see [`crate::Lease::extend`].
    ///
    /// # Errors
    /// [`ExtendError`] if it is lost, or too few nodes answered.
    pub fn extend(&self) -> Result<Duration, ExtendError> {
        let lease = self.0.clone();
        wait(async move { lease.extend().await })
    }

    /// Extends the lock by `ttl` from now; see [`crate::Lease::extend_by`].
    ///
    /// # Errors
    /// [`ExtendError`] if it is lost, too few nodes answered, or the ttl cannot be used.
    pub fn extend_by(&self, ttl: Duration) -> Result<Duration, ExtendError> {
        let lease = self.0.clone();
        wait(async move { lease.extend_by(ttl).await })
    }
}
