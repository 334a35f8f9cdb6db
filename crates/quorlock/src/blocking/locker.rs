//! The blocking twin of the locker.

use crate::blocking::runtime::wait;
use crate::blocking::{Election, Guard, Lock, Semaphore};
use crate::error::{ConfigError, ExtendError, NoQuorum, NodeReport};
use crate::hold::handle::LockHandle;
use crate::inspect::examine::NodeExamination;
use crate::inspect::list::{ListError, Listing};
use crate::inspect::slots::SlotsInspection;
use crate::locker::builder::Builder;
use crate::node::NodeHealth;
use quorlock_core::{NameError, Quorum};

/// Nodes and configuration: where locks come from. The blocking twin of [`crate::Locker`].
#[derive(Clone, Debug)]
pub struct Locker(crate::Locker);

impl From<crate::Locker> for Locker {
    fn from(locker: crate::Locker) -> Self {
        Self(locker)
    }
}

impl Builder {
    /// Checks everything and makes a locker whose calls block. Connects to no node yet.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build_blocking(self) -> Result<Locker, ConfigError> {
        self.build().map(Locker)
    }
}

impl Locker {
    /// A locker with default settings on the nodes that `QUORLOCK_NODES` names, separated by commas.
    ///
    /// # Errors
    /// [`ConfigError`] if the variable is missing or its nodes cannot be used.
    pub fn from_env() -> Result<Self, ConfigError> {
        Builder::from_env()?.build_blocking()
    }

    /// The lock called `name`. It is not taken yet.
    ///
    /// # Errors
    /// [`NameError`] if it cannot be a name.
    pub fn named(&self, name: impl AsRef<str>) -> Result<Lock, NameError> {
        self.0.named(name).map(Lock::new)
    }

    /// The lock that holds all `names` together, or none of them; see [`crate::Locker::all`].
    ///
    /// # Errors
    /// As [`crate::Locker::all`].
    pub fn all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Lock, ConfigError> {
        self.0.all(names).map(Lock::new)
    }

    /// The semaphore called `name`, with `slots` slots; see [`crate::Locker::semaphore`].
    ///
    /// # Errors
    /// As [`crate::Locker::semaphore`].
    pub fn semaphore(&self, name: impl AsRef<str>, slots: u32) -> Result<Semaphore, ConfigError> {
        self.0.semaphore(name, slots).map(Semaphore::new)
    }

    /// The lock on one slot of the semaphore called `name`; see [`crate::Locker::slot`].
    ///
    /// # Errors
    /// As [`crate::Locker::slot`].
    pub fn slot(&self, name: impl AsRef<str>, slot: u32) -> Result<Lock, ConfigError> {
        self.0.slot(name, slot).map(Lock::new)
    }

    /// The election called `name`; see [`crate::Locker::election`].
    ///
    /// # Errors
    /// As [`crate::Locker::named`].
    pub fn election(&self, name: impl AsRef<str>) -> Result<Election, NameError> {
        self.0.election(name).map(Election::new)
    }

    /// Takes over a lock that another process gave away; see [`crate::Locker::adopt`].
    ///
    /// # Errors
    /// [`ExtendError`] if a majority no longer has it, or too few nodes answer.
    pub fn adopt(&self, handle: &LockHandle) -> Result<Guard, ExtendError> {
        let (locker, handle) = (self.0.clone(), handle.clone());
        wait(async move { locker.adopt(&handle).await }).map(Guard::new)
    }

    /// Connects; see [`crate::Locker::connect`].
    ///
    /// # Errors
    /// [`NoQuorum`] if too few nodes can vote.
    pub fn connect(&self) -> Result<(), NoQuorum> {
        let locker = self.0.clone();
        wait(async move { locker.connect().await })
    }

    /// Waits until every node has answered all that it was sent; see [`crate::Locker::flush`].
    pub fn flush(&self) {
        let locker = self.0.clone();
        wait(async move { locker.flush().await });
    }

    /// Declares all nodes fresh; see [`crate::Locker::init_fresh_nodes`].
    pub fn init_fresh_nodes(&self) -> Vec<NodeReport> {
        let locker = self.0.clone();
        wait(async move { locker.init_fresh_nodes().await })
    }

    /// Which locks are held, by any client; see [`crate::Locker::list`].
    ///
    /// # Errors
    /// [`ListError`] if fewer than a quorum answered.
    pub fn list(&self) -> Result<Listing, ListError> {
        let locker = self.0.clone();
        wait(async move { locker.list().await })
    }

    /// The semaphores of which a slot is taken; see [`crate::Locker::list_semaphores`].
    ///
    /// # Errors
    /// [`ListError`] if fewer than a quorum answered.
    pub fn list_semaphores(&self) -> Result<Vec<SlotsInspection>, ListError> {
        let locker = self.0.clone();
        wait(async move { locker.list_semaphores().await })
    }

    /// Examines each node; see [`crate::Locker::examine`].
    pub fn examine(&self) -> Vec<NodeExamination> {
        let locker = self.0.clone();
        wait(async move { locker.examine().await })
    }

    /// What is known about each node right now, without asking any.
    pub fn health(&self) -> Vec<NodeHealth> {
        self.0.health()
    }

    /// How many nodes decide.
    pub fn quorum(&self) -> Quorum {
        self.0.quorum()
    }
}
