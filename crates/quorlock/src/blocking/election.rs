//! The blocking twin of the election.

use crate::blocking::runtime::wait;
use crate::blocking::{Guard, Lock};
use crate::error::AcquireError;
use crate::hold::release::ReleaseOutcome;
use crate::inspect::InspectError;
use crate::locker::election::Leader;
use quorlock_core::{Fence, Name};
use std::ops::Deref;
use std::time::Duration;
use tokio::time::timeout;

/// One of several candidates leads at a time. The blocking twin of [`crate::Election`].
#[derive(Clone, Debug)]
#[must_use = "an election does nothing until a candidate campaigns"]
pub struct Election(crate::Election);

impl Election {
    pub(crate) fn new(election: crate::Election) -> Self {
        Self(election)
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        self.0.name()
    }

    /// Changes the settings of the leadership, as those of a lock.
    pub fn with(self, change: impl FnOnce(Lock) -> Lock) -> Self {
        Self(self.0.with(|lock| change(Lock::new(lock)).into_inner()))
    }

    /// Campaigns until this candidate leads, and publishes `value`; see [`crate::Election::campaign`].
    ///
    /// # Errors
    /// As [`crate::Election::campaign`].
    pub fn campaign(&self, value: impl Into<String>) -> Result<Leadership, AcquireError> {
        let (election, value) = (self.0.clone(), value.into());
        wait(async move { election.campaign(value).await }).map(Leadership::new)
    }

    /// Who leads now; see [`crate::Election::leader`].
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    pub fn leader(&self) -> Result<Option<Leader>, InspectError> {
        let election = self.0.clone();
        wait(async move { election.leader().await })
    }

    /// Waits for a leader whose term is above `last`, at most for `limit`; `None` if there was none. `None` for
    /// `last` returns the current leader.
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered.
    pub fn next_leader(&self, last: Option<Fence>, limit: Duration) -> Result<Option<Leader>, InspectError> {
        let mut observation = self.0.observe_after(last);
        wait(async move { timeout(limit, observation.next()).await.ok().transpose() })
    }
}

/// A won election. The blocking twin of [`crate::Leadership`].
#[derive(Debug)]
#[must_use = "the candidate resigns as soon as this is dropped"]
pub struct Leadership {
    guard: Guard,
    value: String,
}

impl Leadership {
    fn new(leadership: crate::Leadership) -> Self {
        let value = leadership.value().to_owned();
        Self { guard: Guard::new(leadership.into_guard()), value }
    }

    /// The term: above that of every leader before.
    pub fn term(&self) -> Fence {
        self.guard.fence()
    }

    /// What was published.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Ends the leadership, so that another candidate can lead at once.
    pub fn resign(self) -> ReleaseOutcome {
        self.guard.release()
    }
}

impl Deref for Leadership {
    type Target = Guard;

    fn deref(&self) -> &Guard {
        &self.guard
    }
}
