//! Which connections are admitted, and which idle one is evicted for a new one at the limit.

use crate::limits::Limits;
use crate::metrics;
use quorlock::CancellationToken;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts connections. There are two pools: one for all callers, and a small one for probes when the
/// first is full.
#[derive(Debug)]
pub(crate) struct Admission(Mutex<Pools>);

#[derive(Debug)]
struct Pools {
    callers: Pool,
    probes: Pool,
    /// The number of the next connection that becomes idle.
    next: u64,
}

#[derive(Debug)]
struct Pool {
    limit: usize,
    open: usize,
    /// Connections that showed no secret and have no running request, the one that was idle longest first.
    idle: BTreeMap<u64, CancellationToken>,
}

/// An admitted connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    is_probe: bool,
    /// Whether its caller showed a secret or a certificate. Such a connection is not evicted.
    is_known: AtomicBool,
    /// Its number among the idle ones.
    idle: Mutex<Option<u64>>,
    evicted: CancellationToken,
}

/// A running request, until this is dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest(Arc<Admitted>);

impl Admission {
    /// Admits `limit` connections, and [`Limits::PROBES`] more for probes.
    pub(crate) fn new(limit: usize) -> Self {
        let pool = |limit| Pool { limit, open: 0, idle: BTreeMap::new() };
        Self(Mutex::new(Pools { callers: pool(limit), probes: pool(Limits::PROBES), next: 0 }))
    }

    /// Admits a connection; `None` at the limit, if there is no idle connection to evict.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Arc<Admitted>> {
        let mut pools = self.pools();
        let is_probe = match (pools.callers.reserve(), pools.probes.has_capacity()) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => pools.probes.reserve().then_some(true)?,
        };
        let evicted = CancellationToken::new();
        let number = pools.number();
        let pool = pools.pool(is_probe);
        pool.open += 1;
        pool.idle.insert(number, evicted.clone());
        drop(pools);
        let (is_known, idle) = (AtomicBool::new(false), Mutex::new(Some(number)));
        Some(Arc::new(Admitted { admission: self.clone(), is_probe, is_known, idle, evicted }))
    }

    fn pools(&self) -> MutexGuard<'_, Pools> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pools {
    fn pool(&mut self, is_probe: bool) -> &mut Pool {
        if is_probe { &mut self.probes } else { &mut self.callers }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Pool {
    fn has_capacity(&self) -> bool {
        self.open < self.limit
    }

    /// Whether one more fits. At the limit it evicts the connection that was idle longest.
    fn reserve(&mut self) -> bool {
        if self.has_capacity() {
            return true;
        }
        let Some((_, evicted)) = self.idle.pop_first() else { return false };
        self.open -= 1;
        evicted.cancel();
        metrics::count_evicted();
        true
    }
}

impl Admitted {
    /// Whether it may only send probes.
    pub(crate) fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// Whether its caller showed a secret or a certificate.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Records that its caller showed a secret or a certificate.
    pub(crate) fn mark_known(&self) {
        self.is_known.store(true, Ordering::Relaxed);
        self.set_active();
    }

    /// Waits until it is evicted.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// Marks a request as running until the returned value is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> ActiveRequest {
        self.set_active();
        ActiveRequest(self.clone())
    }

    fn set_active(&self) {
        if let Some(number) = self.number().take() {
            self.admission.pools().pool(self.is_probe).idle.remove(&number);
        }
    }

    fn number(&self) -> MutexGuard<'_, Option<u64>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        let Self(admitted) = self;
        if admitted.is_known() {
            return;
        }
        let mut pools = admitted.admission.pools();
        let number = pools.number();
        pools.pool(admitted.is_probe).idle.insert(number, admitted.evicted.clone());
        drop(pools);
        *admitted.number() = Some(number);
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let number = self.number().take();
        let mut pools = self.admission.pools();
        let pool = pools.pool(self.is_probe);
        if let Some(number) = number {
            pool.idle.remove(&number);
        }
        // After an eviction the connection that replaced it is counted instead.
        if !self.evicted.is_cancelled() {
            pool.open -= 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn is_evicted(admitted: &Admitted) -> bool {
        admitted.evicted.is_cancelled()
    }

    #[test]
    fn the_connection_that_was_idle_longest_is_evicted() {
        let admission = Arc::new(Admission::new(3));
        let [one, two, three] = [(); 3].map(|()| admission.admit().unwrap());
        drop(one.begin_request());
        let four = admission.admit().unwrap();
        assert!(is_evicted(&two) && !is_evicted(&one) && !is_evicted(&three) && !four.is_probe());
        drop((one, two, three, four));
        assert_eq!(admission.pools().callers.open, 0);
        assert!(admission.pools().callers.idle.is_empty());
    }

    #[test]
    fn busy_and_known_connections_are_not_evicted_and_probes_have_their_own_pool() {
        let admission = Arc::new(Admission::new(2));
        let [busy, known] = [(); 2].map(|()| admission.admit().unwrap());
        let running = busy.begin_request();
        known.mark_known();
        drop(known.begin_request());
        let probes: Vec<_> = (0..Limits::PROBES).map(|_| admission.admit().unwrap()).collect();
        assert!(probes.iter().all(|probe| probe.is_probe()));
        let another = admission.admit().unwrap();
        assert!(another.is_probe() && is_evicted(&probes[0]) && !is_evicted(&busy) && !is_evicted(&known));
        let asking: Vec<_> = probes[1..].iter().chain([&another]).map(Admitted::begin_request).collect();
        assert!(admission.admit().is_none(), "all are busy");
        drop((running, asking));
        let next = admission.admit().unwrap();
        assert!(!next.is_probe() && is_evicted(&busy));
        drop((busy, known, probes, another, next));
        let pools = admission.pools();
        assert_eq!((pools.callers.open, pools.probes.open), (0, 0));
    }
}
