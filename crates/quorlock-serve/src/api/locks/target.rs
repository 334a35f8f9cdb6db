//! What a caller asks for: a lock, several names together, a permit or a leadership.

use crate::problem::Problem;
use quorlock::{AcquireError, Election, Guard, Lock, Locker, Mode, Name, NameSet, Semaphore};
use std::time::Duration;

/// What a caller asks for.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// One lock, or several together.
    Names { names: NameSet, mode: Mode },
    /// A permit of a semaphore.
    Permit { semaphore: Name, slots: u32 },
    /// The leadership of an election.
    Leadership { election: Name, value: String },
}

impl Target {
    /// The names that the caller chose.
    pub(crate) fn names(&self) -> &[Name] {
        match self {
            Self::Names { names, .. } => names.as_slice(),
            Self::Permit { semaphore: name, .. } | Self::Leadership { election: name, .. } => {
                std::slice::from_ref(name)
            }
        }
    }

    /// The same to be acquired from `locker`, with the settings that `configure` makes.
    pub(crate) fn configured(
        &self,
        locker: &Locker,
        configure: impl FnOnce(Lock) -> Lock,
    ) -> Result<Acquirable, Problem> {
        Ok(match self {
            Self::Names { names, mode } => {
                let lock = configure(locker.stored(names.clone()));
                Acquirable::Lock(if *mode == Mode::Shared { lock.shared() } else { lock })
            }
            Self::Permit { semaphore, slots } => {
                Acquirable::Semaphore(locker.semaphore(semaphore, *slots)?.with(configure))
            }
            Self::Leadership { election, value } => {
                Acquirable::Election(locker.election(election)?.with(configure), value.clone())
            }
        })
    }
}

/// What can be acquired.
#[derive(Debug)]
pub(crate) enum Acquirable {
    Lock(Lock),
    Semaphore(Semaphore),
    Election(Election, String),
}

impl Acquirable {
    /// Acquires it, waiting for it at most for `wait`; without one it does not wait.
    pub(crate) async fn acquire(&self, wait: Option<Duration>) -> Result<Guard, AcquireError> {
        match (self, wait) {
            (Self::Lock(lock), None) => lock.try_acquire().await,
            (Self::Lock(lock), Some(wait)) => lock.clone().wait_timeout(wait).acquire().await,
            (Self::Semaphore(semaphore), None) => {
                semaphore.try_acquire().await.map(quorlock::Permit::into_guard)
            }
            (Self::Semaphore(semaphore), Some(wait)) => {
                let semaphore = semaphore.clone().with(|lock| lock.wait_timeout(wait));
                semaphore.acquire().await.map(quorlock::Permit::into_guard)
            }
            (Self::Election(election, value), wait) => {
                let wait = wait.unwrap_or_default();
                let election = election.clone().with(|lock| lock.wait_timeout(wait));
                election.campaign(value.as_str()).await.map(quorlock::Leadership::into_guard)
            }
        }
    }
}
