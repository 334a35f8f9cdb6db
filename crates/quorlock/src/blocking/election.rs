//! The blocking twin of the election.

use crate::blocking::runtime::wait;
use crate::blocking::{Guard, Lock};
use crate::error::AcquireError;
use crate::hold::release::ReleaseOutcome;
use crate::inspect::InspectError;
use crate::locker::election::{Leader, LeaderChange};
use quorlock_core::{Fence, Name};
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
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

    /// Follows who leads, from the current leader on.
    pub fn observe(&self) -> Observation {
        self.observe_after(None)
    }

    /// Follows who leads after the leader of term `last`, which the caller knows already.
    pub fn observe_after(&self, last: Option<Fence>) -> Observation {
        Observation(Arc::new(Mutex::new(self.0.observe_after(last))))
    }
}

/// Who leads an election, change by change. The blocking twin of [`crate::Observation`].
#[derive(Debug)]
pub struct Observation(Arc<Mutex<crate::Observation>>);

impl Observation {
    /// Waits for the next change, at most for `limit`; `None` if there was none. See
    /// [`crate::Observation::next`].
    ///
    /// # Errors
    /// [`InspectError`] if fewer than a quorum answered; call it again to go on.
    pub fn next(&mut self, limit: Duration) -> Result<Option<LeaderChange>, InspectError> {
        let observation = self.0.clone();
        wait(async move { timeout(limit, observation.lock().await.next()).await.ok().transpose() })
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
