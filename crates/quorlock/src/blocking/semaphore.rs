//! The blocking twin of the semaphore.

use crate::blocking::runtime::wait;
use crate::blocking::{Guard, Lock};
use crate::error::AcquireError;
use crate::hold::release::ReleaseOutcome;
use crate::inspect::{InspectError, Inspection};
use quorlock_core::Name;
use std::ops::Deref;

/// At most as many clients hold a permit at the same time as it has slots. The blocking twin of
/// [`crate::Semaphore`].
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore(crate::Semaphore);

impl Semaphore {
    pub(crate) fn new(semaphore: crate::Semaphore) -> Self {
        Self(semaphore)
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// How many slots it has.
    pub fn slots(&self) -> u32 {
        self.0.slots()
    }

    /// Changes the settings of its permits, as those of a lock.
    pub fn with(self, change: impl FnOnce(Lock) -> Lock) -> Self {
        Self(self.0.with(|lock| change(Lock::new(lock)).into_inner()))
    }

    /// Takes a permit, waiting for it if all slots are taken; see [`crate::Semaphore::acquire`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire`].
    pub fn acquire(&self) -> Result<Permit, AcquireError> {
        self.acquire_many(1)
    }

    /// Takes a permit without waiting for another client; see [`crate::Semaphore::try_acquire`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire`].
    pub fn try_acquire(&self) -> Result<Permit, AcquireError> {
        let semaphore = self.0.clone();
        wait(async move { semaphore.try_acquire().await }).map(Permit::new)
    }

    /// Takes several slots with one permit, all or none; see [`crate::Semaphore::acquire_many`].
    ///
    /// # Errors
    /// As [`crate::Semaphore::acquire_many`].
    pub fn acquire_many(&self, permits: usize) -> Result<Permit, AcquireError> {
        let semaphore = self.0.clone();
        wait(async move { semaphore.acquire_many(permits).await }).map(Permit::new)
    }

    /// Who holds each slot that is taken; see [`crate::Semaphore::permits`].
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    pub fn permits(&self) -> Result<Vec<Inspection>, InspectError> {
        let semaphore = self.0.clone();
        wait(async move { semaphore.permits().await })
    }
}

/// A slot of a semaphore, or several, held by this client. The blocking twin of [`crate::Permit`].
#[derive(Debug)]
#[must_use = "the permit is released as soon as it is dropped"]
pub struct Permit {
    guard: Guard,
    slots: Vec<u32>,
}

impl Permit {
    fn new(permit: crate::Permit) -> Self {
        let slots = permit.slots().to_vec();
        Self { guard: Guard::new(permit.into_guard()), slots }
    }

    /// The number of the slot, from 0; of several slots the first.
    pub fn slot(&self) -> u32 {
        self.slots.first().copied().unwrap_or_default()
    }

    /// The numbers of all its slots.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Releases the permit on all nodes.
    pub fn release(self) -> ReleaseOutcome {
        self.guard.release()
    }
}

impl Deref for Permit {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
