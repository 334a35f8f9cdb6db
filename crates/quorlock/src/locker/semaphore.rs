//! A semaphore: at most so many clients hold a permit as it has slots.

use crate::acquire::attempt::AttemptParams;
use crate::acquire::slots::{MAX_SLOTS, SlotChoice};
use crate::acquire::{Acquirer, Limits};
use crate::context::options::setting;
use crate::error::{AcquireError, ConfigError};
use crate::hold::guard::Guard;
use crate::hold::release::ReleaseOutcome;
use crate::inspect::{Answers, InspectError, Inspection, inspect_all};
use crate::locker::lock::Lock;
use quorlock_core::{Mode, Name, NameSet};
use std::ops::Deref;

/// At most as many clients hold a permit at the same time as it has slots. Cheap to clone.
///
/// A permit is an exclusive lock on one slot, so a majority of nodes bounds the number of holders as it bounds
/// that of a lock. Counting on each node would not: of five nodes, three clients could get two votes too many.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let locker = quorlock::Locker::builder().nodes(["memory:"]).build()?;
/// let gpus = locker.semaphore("gpu", 2)?;
/// let (one, two) = (gpus.acquire().await?, gpus.acquire().await?);
/// assert_ne!(one.slot(), two.slot()); // which GPU to use
/// assert!(gpus.try_acquire().await.is_err());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a semaphore does nothing until a permit is acquired"]
pub struct Semaphore {
    lock: Lock,
    slots: u32,
}

impl Semaphore {
    /// The most slots that a semaphore has.
    pub const MAX_SLOTS: u32 = MAX_SLOTS;
    /// The longest name of a semaphore in bytes: those of its slots are longer.
    pub const MAX_NAME: usize = 490;

    /// The semaphore that `lock` names.
    pub(crate) fn new(lock: Lock, slots: u32) -> Result<Self, ConfigError> {
        if slots == 0 || slots > Self::MAX_SLOTS {
            return Err(setting("a number of slots", slots, "give 1 to 1024"));
        }
        if lock.name().as_str().len() > Self::MAX_NAME {
            return Err(setting("a semaphore's name", lock.name(), "give at most 490 bytes"));
        }
        Ok(Self { lock, slots })
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        self.lock.name()
    }

    /// How many slots it has.
    pub fn slots(&self) -> u32 {
        self.slots
    }

    /// Changes the settings of its permits, as those of a lock: `semaphore.with(|lock| lock.ttl(ttl))`.
    pub fn with(mut self, change: impl FnOnce(Lock) -> Lock) -> Self {
        self.lock = change(self.lock);
        self
    }

    /// Takes a permit, waiting for it if all slots are taken; as [`Lock::acquire`].
    ///
    /// # Errors
    /// [`AcquireError::NoPermit`] if all slots stayed taken, [`AcquireError::SlotsDiffer`] if other clients
    /// use another number of slots, and as [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire(&self) -> Result<Permit, AcquireError> {
        self.acquire_many(1).await
    }

    /// Takes a permit without waiting for another client; as [`Lock::try_acquire`].
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn try_acquire(&self) -> Result<Permit, AcquireError> {
        self.acquire_within(1, Limits::for_try_acquire(self.lock.options())).await
    }

    /// Takes several slots with one permit, all or none: at most 16, and at most all of them.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`]; [`AcquireError::Config`] if that many cannot be had.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire_many(&self, permits: usize) -> Result<Permit, AcquireError> {
        self.acquire_within(permits, Limits::for_acquire(self.lock.options())).await
    }

    /// Who holds each slot that is taken, in the order of the slots.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed anywhere.
    pub async fn permits(&self) -> Result<Vec<Inspection>, InspectError> {
        let nodes = self.lock.nodes();
        nodes.wait_connected().await;
        let slots: Vec<Name> = (0..self.slots()).map(|slot| Name::of_slot(self.name(), slot)).collect();
        let mut taken = Vec::new();
        for names in slots.chunks(NameSet::MAX) {
            // At least one name, at most as many as a set has, and no two alike.
            let Ok(names) = NameSet::new(names.iter().cloned()) else { continue };
            let found = inspect_all(nodes, &names, Answers::All).await?;
            taken.extend(found.into_iter().filter(Inspection::is_held));
        }
        taken.sort_by_key(|found| found.name.as_slot().map(|(_, slot)| slot));
        Ok(taken)
    }

    async fn acquire_within(&self, permits: usize, limits: Limits) -> Result<Permit, AcquireError> {
        let lock: NameSet = self.name().clone().into();
        let most = NameSet::MAX.min(self.slots() as usize);
        if permits == 0 || permits > most {
            let source = setting("a number of permits", permits, "give 1 to 16, and at most all slots");
            return Err(AcquireError::Config { lock, source });
        }
        if let Err(source) = self.lock.check() {
            return Err(AcquireError::Config { lock, source });
        }
        let params = AttemptParams {
            names: lock,
            mode: Mode::Exclusive,
            options: self.lock.options(),
            fences: self.lock.fences(),
        };
        let (queues, queue) = self.lock.queues();
        let choice = SlotChoice::new(self.name(), self.slots, permits, queue.slots());
        let acquirer = Acquirer::new(self.lock.nodes(), params, (queues, queue), limits);
        let guard = self.lock.acquire_with(acquirer.with_slots(choice)).await?;
        let slots = guard.names().iter().filter_map(|name| name.as_slot().map(|(_, slot)| slot));
        let slots = slots.collect();
        Ok(Permit { guard, slots })
    }
}

/// A slot of a semaphore, or several, held by this client; everything else is as with a [`Guard`].
///
/// The fence belongs to the slot: send the pair of slot and fence to the protected resource. A resource that
/// compared the fences of all slots would refuse holders of other slots.
#[derive(Debug)]
#[must_use = "the permit is released as soon as it is dropped"]
pub struct Permit {
    guard: Guard,
    slots: Vec<u32>,
}

impl Permit {
    /// The number of the slot, from 0; of several slots the first.
    pub fn slot(&self) -> u32 {
        self.slots.first().copied().unwrap_or_default()
    }

    /// The numbers of all its slots.
    pub fn slots(&self) -> &[u32] {
        &self.slots
    }

    /// Releases the permit on all nodes; as [`Guard::release`].
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> ReleaseOutcome {
        self.guard.release().await
    }

    /// The guard of its slots.
    pub fn into_guard(self) -> Guard {
        self.guard
    }
}

impl Deref for Permit {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
