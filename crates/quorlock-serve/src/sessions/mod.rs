//! The locks that are held through this sidecar: leases by their tokens, and holds by their connections.

pub(crate) mod claims;

use crate::sessions::claims::ClaimedGuard;
use quorlock::{Lease, LeaseState, Name, ReleaseOutcome, Token};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

/// All locks that are held through this sidecar, at most as many as there are permits. Several names that
/// are held together are one.
#[derive(Debug)]
pub(crate) struct Sessions {
    permits: Arc<Semaphore>,
    leases: Mutex<HashMap<Token, Session>>,
    holds: Holds,
}

/// What each hold listens to.
type Holds = Arc<Mutex<HashMap<Token, mpsc::Sender<HoldCall>>>>;

/// What another call wants of a hold.
#[derive(Debug)]
pub(crate) enum HoldCall {
    /// Release the lock: its caller asks for that by its token.
    Release(oneshot::Sender<ReleaseOutcome>),
    /// Ask the nodes: an operator released the lock by force.
    Check,
}

/// How many calls a hold has not read yet, at most.
const MAX_HOLD_CALLS: usize = 4;

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

/// Permission to hold one lock, until it is dropped.
pub(crate) type SessionPermit = OwnedSemaphorePermit;

/// Counts one hold, until it is dropped.
#[derive(Debug)]
pub(crate) struct HoldCount {
    holds: Holds,
    token: Token,
    calls: mpsc::Receiver<HoldCall>,
}

impl HoldCount {
    /// What another call wants of the hold.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn call(&mut self) -> HoldCall {
        match self.calls.recv().await {
            Some(call) => call,
            // Another hold has the same token, so no call can mean this one.
            None => std::future::pending().await,
        }
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
        let token = guard.lease().token();
        self.leases().insert(token, Session { guard, ttl, _permit: permit });
    }

    /// The lease of `name` with this token, and its ttl.
    pub(crate) fn find(&self, name: &Name, token: Token) -> Option<(Lease, Duration)> {
        let leases = self.leases();
        let session = leases.get(&token).filter(|session| covers(session.guard.lease(), name))?;
        Some((session.guard.lease().clone(), session.ttl))
    }

    /// Stores the ttl of the last extension of the lease with this token.
    pub(crate) fn set_ttl(&self, token: Token, ttl: Duration) {
        if let Some(session) = self.leases().get_mut(&token) {
            session.ttl = ttl;
        }
    }

    /// Removes the lease of `name` with this token and returns its guard.
    pub(crate) fn remove(&self, name: &Name, token: Token) -> Option<ClaimedGuard> {
        let mut leases = self.leases();
        leases.get(&token).filter(|session| covers(session.guard.lease(), name))?;
        leases.remove(&token).map(|session| session.guard)
    }

    /// Counts a hold under this token until the returned value is dropped.
    pub(crate) fn count_hold(&self, token: Token) -> HoldCount {
        let (sender, calls) = mpsc::channel(MAX_HOLD_CALLS);
        lock(&self.holds).insert(token, sender);
        HoldCount { holds: self.holds.clone(), token, calls }
    }

    /// Lets the hold under this token ask the nodes at once, because the lock was released by force.
    pub(crate) fn check_hold(&self, token: Token) {
        if let Some(hold) = self.hold(token) {
            // If it does not read its calls, its next extension finds that out.
            let _ = hold.try_send(HoldCall::Check);
        }
    }

    /// Lets the hold under this token release its lock; `None` if there is none, or if it does not answer
    /// within `limit`.
    pub(crate) async fn release_hold(&self, token: Token, limit: Duration) -> Option<ReleaseOutcome> {
        let hold = self.hold(token)?;
        let (answer, answered) = oneshot::channel();
        hold.try_send(HoldCall::Release(answer)).ok()?;
        timeout(limit, answered).await.ok()?.ok()
    }

    fn hold(&self, token: Token) -> Option<mpsc::Sender<HoldCall>> {
        lock(&self.holds).get(&token).cloned()
    }

    /// How many leases and how many holds there are.
    pub(crate) fn counts(&self) -> SessionCounts {
        SessionCounts { leases: self.leases().len(), holds: lock(&self.holds).len() }
    }

    /// Forgets the leases whose time is over.
    ///
    /// It sends no release: the caller may have extended the lease through another sidecar.
    pub(crate) fn sweep(&self) {
        let is_over = |_: &Token, session: &mut Session| is_over(session.guard.lease());
        let over: Vec<Session> = self.leases().extract_if(is_over).map(|(_, session)| session).collect();
        over.into_iter().for_each(|session| session.guard.detach());
    }

    /// Forgets all leases. They stay on the nodes: their callers have the tokens.
    pub(crate) fn detach_all(&self) {
        let leases = std::mem::take(&mut *self.leases());
        leases.into_values().for_each(|session| session.guard.detach());
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<Token, Session>> {
        lock(&self.leases)
    }
}

impl Drop for Sessions {
    /// Leases outlive the sidecar, even if it ends by a panic.
    fn drop(&mut self) {
        self.detach_all();
    }
}

impl Drop for HoldCount {
    fn drop(&mut self) {
        lock(&self.holds).remove(&self.token);
    }
}

/// Whether a lease is over by this sidecar's clock. Another sidecar may have extended it.
pub(crate) fn is_over(lease: &Lease) -> bool {
    matches!(lease.state(), LeaseState::Lost(_))
}

/// Whether `lease` holds `name`, alone or with others, or a slot of the semaphore of that name.
pub(crate) fn covers(lease: &Lease, name: &Name) -> bool {
    lease.names().iter().any(|held| held == name || held.topic() == *name)
}

/// Locks `mutex`. No panic can leave what it protects in an invalid state.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
