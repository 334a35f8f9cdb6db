//! The locks that are held through this sidecar: leases by their tokens, and holds by their connections.

pub(crate) mod claims;

use crate::sessions::claims::ClaimedGuard;
use quorlock::{Lease, LeaseState, Name, Token};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// All locks that are held through this sidecar, at most as many as there are permits.
#[derive(Debug)]
pub(crate) struct Sessions {
    permits: Arc<Semaphore>,
    leases: Mutex<HashMap<Name, Vec<Session>>>,
    holds: Arc<Mutex<HashMap<Name, Holds>>>,
}

/// The holds of one name: one, except for the moments in which an earlier one is about to end.
#[derive(Debug, Default)]
struct Holds {
    count: usize,
    /// Notified when the lock was released by its token.
    released: Arc<Notify>,
}

/// How many locks are held through this sidecar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionCounts {
    /// By their tokens.
    pub(crate) leases: usize,
    /// By their connections.
    pub(crate) holds: usize,
}

/// A lock that a caller leased by its token.
#[derive(Debug)]
struct Session {
    guard: ClaimedGuard,
    ttl: Duration,
    _permit: SessionPermit,
}

impl Session {
    fn lease(&self) -> &Lease {
        self.guard.lease()
    }
}

/// Permission to hold one lock, until it is dropped.
pub(crate) type SessionPermit = OwnedSemaphorePermit;

/// Counts one hold, until it is dropped.
#[derive(Debug)]
pub(crate) struct HoldCount {
    holds: Arc<Mutex<HashMap<Name, Holds>>>,
    name: Name,
    released: Arc<Notify>,
}

impl HoldCount {
    /// Waits until a call may have released the lock by its token.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn released(&self) {
        self.released.notified().await;
    }
}

impl Sessions {
    pub(crate) fn new(limit: usize) -> Self {
        let permits = Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)));
        Self { permits, leases: Mutex::default(), holds: Arc::default() }
    }

    /// A permit for one more lock; `None` at the limit.
    pub(crate) fn permit(&self) -> Option<SessionPermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Whether the limit is reached.
    pub(crate) fn is_full(&self) -> bool {
        self.permits.available_permits() == 0
    }

    /// Keeps a lease, to be found by its token.
    pub(crate) fn insert(&self, guard: ClaimedGuard, ttl: Duration, permit: SessionPermit) {
        let name = guard.lease().name().clone();
        self.leases().entry(name).or_default().push(Session { guard, ttl, _permit: permit });
    }

    /// The lease with this token, and its ttl.
    pub(crate) fn find(&self, name: &Name, token: Token) -> Option<(Lease, Duration)> {
        let leases = self.leases();
        let session = leases.get(name)?.iter().find(|session| session.lease().token() == token)?;
        Some((session.lease().clone(), session.ttl))
    }

    /// Stores the ttl of the last extension of the lease with this token.
    pub(crate) fn set_ttl(&self, name: &Name, token: Token, ttl: Duration) {
        let mut leases = self.leases();
        let mut sessions = leases.get_mut(name).into_iter().flatten();
        if let Some(session) = sessions.find(|session| session.lease().token() == token) {
            session.ttl = ttl;
        }
    }

    /// Removes the lease with this token and returns its guard.
    pub(crate) fn remove(&self, name: &Name, token: Token) -> Option<ClaimedGuard> {
        let mut leases = self.leases();
        let sessions = leases.get_mut(name)?;
        let at = sessions.iter().position(|session| session.lease().token() == token)?;
        let session = sessions.swap_remove(at);
        if sessions.is_empty() {
            leases.remove(name);
        }
        Some(session.guard)
    }

    /// Counts a hold of `name` until the returned value is dropped.
    pub(crate) fn count_hold(&self, name: &Name) -> HoldCount {
        let mut holds = lock(&self.holds);
        let of_name = holds.entry(name.clone()).or_default();
        of_name.count += 1;
        HoldCount { holds: self.holds.clone(), name: name.clone(), released: of_name.released.clone() }
    }

    /// Notifies the hold of `name` that a call released the lock by its token, so that the hold asks the
    /// nodes at once.
    pub(crate) fn notify_released(&self, name: &Name) {
        if let Some(holds) = lock(&self.holds).get(name) {
            holds.released.notify_one();
        }
    }

    /// Whether `name` is held through this sidecar.
    pub(crate) fn is_held_here(&self, name: &Name) -> bool {
        let is_leased = |sessions: &Vec<Session>| sessions.iter().any(|session| session.lease().is_held());
        self.leases().get(name).is_some_and(is_leased) || lock(&self.holds).contains_key(name)
    }

    /// How many leases and how many holds there are.
    pub(crate) fn counts(&self) -> SessionCounts {
        let leases = self.leases().values().map(Vec::len).sum();
        let holds = lock(&self.holds).values().map(|holds| holds.count).sum();
        SessionCounts { leases, holds }
    }

    /// Forgets the leases whose time is over.
    ///
    /// It sends no release: the caller may have extended the lease through another sidecar.
    pub(crate) fn sweep(&self) {
        let mut over = Vec::new();
        self.leases().retain(|_, sessions| {
            over.extend(sessions.extract_if(.., |session| is_over(session.lease())));
            !sessions.is_empty()
        });
        over.into_iter().for_each(|session| session.guard.detach());
    }

    /// Forgets all leases. They stay on the nodes: their callers have the tokens.
    pub(crate) fn detach_all(&self) {
        let leases = std::mem::take(&mut *self.leases());
        leases.into_values().flatten().for_each(|session| session.guard.detach());
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<Name, Vec<Session>>> {
        lock(&self.leases)
    }
}

impl Drop for Sessions {
    /// Leases outlive the sidecar, even if it ends by a panic.
    fn drop(&mut self) {
        self.detach_all();
    }
}

/// Whether a lease is over by this sidecar's clock. Another sidecar may have extended it.
pub(crate) fn is_over(lease: &Lease) -> bool {
    matches!(lease.state(), LeaseState::Lost(_))
}

impl Drop for HoldCount {
    fn drop(&mut self) {
        let mut holds = lock(&self.holds);
        if let Some(of_name) = holds.get_mut(&self.name) {
            of_name.count -= 1;
            if of_name.count == 0 {
                holds.remove(&self.name);
            }
        }
    }
}

/// Locks `mutex`. No panic can leave what it protects in an invalid state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
