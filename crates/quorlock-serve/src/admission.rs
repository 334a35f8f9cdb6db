//! Which connections are let in, and which idle one makes room for a new one when all are in use.

use crate::exporter;
use crate::limits::Limits;
use quorlock::CancellationToken;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts connections. There are two pools: one for all callers, and a small one for probes when the first is full.
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
    /// Connections that showed no secret and have no request under way, the one that was idle longest first.
    idle: BTreeMap<u64, CancellationToken>,
}

/// A connection that was let in, until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    admission: Arc<Admission>,
    is_probe: bool,
    /// Whether its caller showed a secret or a certificate. It then keeps its place.
    is_known: AtomicBool,
    /// Its number among the idle ones.
    idle: Mutex<Option<u64>>,
    closed: CancellationToken,
}

/// A request under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Admitted>);

impl Admission {
    /// Lets `limit` connections in, and [`Limits::PROBES`] more for probes.
    pub(crate) fn up_to(limit: usize) -> Self {
        let pool = |limit| Pool { limit, open: 0, idle: BTreeMap::new() };
        Self(Mutex::new(Pools { callers: pool(limit), probes: pool(Limits::PROBES), next: 0 }))
    }

    /// Lets a connection in; `None` if there is no room and no idle connection can make some.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Arc<Admitted>> {
        let mut pools = self.pools();
        let is_probe = match (pools.callers.make_room(), pools.probes.has_room()) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => pools.probes.make_room().then_some(true)?,
        };
        let closed = CancellationToken::new();
        let number = pools.number();
        let pool = pools.pool(is_probe);
        pool.open += 1;
        pool.idle.insert(number, closed.clone());
        drop(pools);
        let (is_known, idle) = (AtomicBool::new(false), Mutex::new(Some(number)));
        Some(Arc::new(Admitted { admission: self.clone(), is_probe, is_known, idle, closed }))
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
    fn has_room(&self) -> bool {
        self.open < self.limit
    }

    /// Whether one more fits, if need be in the place of the one that was idle longest.
    fn make_room(&mut self) -> bool {
        if self.has_room() {
            return true;
        }
        let Some((_, closed)) = self.idle.pop_first() else { return false };
        self.open -= 1;
        closed.cancel();
        exporter::count_evicted();
        true
    }
}

impl Admitted {
    /// Whether it may ask for nothing but probes.
    pub(crate) fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// Whether its caller showed a secret or a certificate.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Its caller showed a secret or a certificate.
    pub(crate) fn know(&self) {
        self.is_known.store(true, Ordering::Relaxed);
        self.leave_idle();
    }

    /// Waits until it must make room for another.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// A request is under way until the answer is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay {
        self.leave_idle();
        UnderWay(self.clone())
    }

    fn leave_idle(&self) {
        if let Some(number) = self.number().take() {
            self.admission.pools().pool(self.is_probe).idle.remove(&number);
        }
    }

    fn number(&self) -> MutexGuard<'_, Option<u64>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let Self(admitted) = self;
        if admitted.is_known() {
            return;
        }
        let mut pools = admitted.admission.pools();
        let number = pools.number();
        pools.pool(admitted.is_probe).idle.insert(number, admitted.closed.clone());
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
        // The one that took its place is counted instead.
        if !self.closed.is_cancelled() {
            pool.open -= 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn is_closed(admitted: &Admitted) -> bool {
        admitted.closed.is_cancelled()
    }

    #[test]
    fn the_connection_that_was_idle_longest_makes_room() {
        let admission = Arc::new(Admission::up_to(3));
        let [one, two, three] = [(); 3].map(|()| admission.admit().unwrap());
        drop(one.begin());
        let four = admission.admit().unwrap();
        assert!(is_closed(&two) && !is_closed(&one) && !is_closed(&three) && !four.is_probe());
        drop((one, two, three, four));
        assert_eq!(admission.pools().callers.open, 0);
        assert!(admission.pools().callers.idle.is_empty());
    }

    #[test]
    fn busy_and_known_connections_keep_their_places_and_probes_have_their_own() {
        let admission = Arc::new(Admission::up_to(2));
        let [busy, known] = [(); 2].map(|()| admission.admit().unwrap());
        let under_way = busy.begin();
        known.know();
        drop(known.begin());
        let probes: Vec<_> = (0..Limits::PROBES).map(|_| admission.admit().unwrap()).collect();
        assert!(probes.iter().all(|probe| probe.is_probe()));
        let another = admission.admit().unwrap();
        assert!(another.is_probe() && is_closed(&probes[0]) && !is_closed(&busy) && !is_closed(&known));
        let asking: Vec<_> = probes[1..].iter().chain([&another]).map(Admitted::begin).collect();
        assert!(admission.admit().is_none(), "all are busy");
        drop((under_way, asking));
        let next = admission.admit().unwrap();
        assert!(!next.is_probe() && is_closed(&busy));
        drop((busy, known, probes, another, next));
        let pools = admission.pools();
        assert_eq!((pools.callers.open, pools.probes.open), (0, 0));
    }
}
