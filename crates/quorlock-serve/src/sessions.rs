//! The locks that are held through this sidecar: leases by their tokens, and holds by their connections.

use crate::claims::Lent;
use quorlock::{Held, Name, Standing, Token};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Every lock that is held here. At most so many as its limit says.
#[derive(Debug)]
pub(crate) struct Sessions {
    limit: usize,
    taken: Arc<AtomicUsize>,
    leases: Mutex<HashMap<Name, Vec<Session>>>,
    holds: Arc<Mutex<HashMap<Name, Holds>>>,
}

/// The holds of one name: one, but for moments in which an old one is still about to end.
#[derive(Debug, Default)]
struct Holds {
    count: usize,
    /// Rung when somebody let the lock go by its token.
    bell: Arc<Notify>,
}

#[derive(Debug)]
struct Session {
    lent: Lent,
    ttl: Duration,
    _room: Room,
}

/// Room for one session, until it is dropped.
#[derive(Debug)]
pub(crate) struct Room(Arc<AtomicUsize>);

/// A hold that is counted, until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    holds: Arc<Mutex<HashMap<Name, Holds>>>,
    name: Name,
    bell: Arc<Notify>,
}

impl Counted {
    /// Waits until somebody may have released the lock by its token.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn rung(&self) {
        self.bell.notified().await;
    }
}

impl Sessions {
    pub(crate) fn up_to(limit: usize) -> Self {
        let (taken, leases, holds) = Default::default();
        Self { limit, taken, leases, holds }
    }

    /// Room for one more; `None` if there is none.
    pub(crate) fn room(&self) -> Option<Room> {
        let room = Room(self.taken.clone());
        // The room that was just made gives its place back if there were too many.
        (self.taken.fetch_add(1, Ordering::Relaxed) < self.limit).then_some(room)
    }

    /// Whether there is no room now.
    pub(crate) fn is_full(&self) -> bool {
        self.taken.load(Ordering::Relaxed) >= self.limit
    }

    /// Keeps a lease for whoever has its token.
    pub(crate) fn keep(&self, lent: Lent, ttl: Duration, room: Room) {
        let name = lent.name().clone();
        self.leases().entry(name).or_default().push(Session { lent, ttl, _room: room });
    }

    /// The lease with this token, and its ttl.
    pub(crate) fn find(&self, name: &Name, token: Token) -> Option<(Held, Duration)> {
        let leases = self.leases();
        let session = leases.get(name)?.iter().find(|session| session.lent.token() == token)?;
        Some((session.lent.share(), session.ttl))
    }

    /// Notes for how long the lease with this token was extended last.
    pub(crate) fn note_ttl(&self, name: &Name, token: Token, ttl: Duration) {
        let mut leases = self.leases();
        let mut sessions = leases.get_mut(name).into_iter().flatten();
        if let Some(session) = sessions.find(|session| session.lent.token() == token) {
            session.ttl = ttl;
        }
    }

    /// Takes the lease with this token out.
    pub(crate) fn take(&self, name: &Name, token: Token) -> Option<Lent> {
        let mut leases = self.leases();
        let sessions = leases.get_mut(name)?;
        let at = sessions.iter().position(|session| session.lent.token() == token)?;
        let session = sessions.swap_remove(at);
        if sessions.is_empty() {
            leases.remove(name);
        }
        Some(session.lent)
    }

    /// Counts a hold as long as the answer lives.
    pub(crate) fn count_hold(&self, name: &Name) -> Counted {
        let mut holds = lock(&self.holds);
        let of_name = holds.entry(name.clone()).or_default();
        of_name.count += 1;
        Counted { holds: self.holds.clone(), name: name.clone(), bell: of_name.bell.clone() }
    }

    /// Lets the hold of `name` know that somebody released the lock, so that it looks at once.
    pub(crate) fn ring(&self, name: &Name) {
        if let Some(holds) = lock(&self.holds).get(name) {
            holds.bell.notify_one();
        }
    }

    /// Whether `name` is held through this sidecar.
    pub(crate) fn is_here(&self, name: &Name) -> bool {
        let is_leased = |sessions: &Vec<Session>| sessions.iter().any(|session| session.lent.is_held());
        self.leases().get(name).is_some_and(is_leased) || lock(&self.holds).contains_key(name)
    }

    /// How many leases and how many holds there are.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let holds = lock(&self.holds).values().map(|holds| holds.count).sum();
        (self.taken.load(Ordering::Relaxed).saturating_sub(holds), holds)
    }

    /// Forgets the leases whose time is over.
    ///
    /// The nodes are not told: the caller may have extended the lease through another sidecar.
    pub(crate) fn sweep(&self) {
        let mut over = Vec::new();
        self.leases().retain(|_, sessions| {
            over.extend(sessions.extract_if(.., |session| is_over(&session.lent)));
            !sessions.is_empty()
        });
        over.into_iter().for_each(|session| session.lent.leave());
    }

    /// Forgets all leases. They stay on the nodes: their callers have the tokens.
    pub(crate) fn leave(&self) {
        let leases = std::mem::take(&mut *self.leases());
        leases.into_values().flatten().for_each(|session| session.lent.leave());
    }

    fn leases(&self) -> MutexGuard<'_, HashMap<Name, Vec<Session>>> {
        lock(&self.leases)
    }
}

impl Drop for Sessions {
    /// However the sidecar ends: leases belong to whoever has their tokens.
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whether a lease is over by our own clocks. Another sidecar may know better.
pub(crate) fn is_over(held: &Held) -> bool {
    matches!(held.standing(), Standing::Lost(_))
}

impl Drop for Room {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Counted {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
