//! The leases that locks end with. Locks that are taken or extended at about the same time share one.
//!
//! A lease is never kept alive: what one member answers alone cannot be relied on. It ends no sooner than it
//! was granted for, counted from the grant, whichever member leads. So the client counts from before it asked
//! for the grant, and uses the lease only for locks that end before it does.

use crate::context::clock::Clock;
use crate::context::entropy::{self, Entropy};
use crate::context::mutex::Mutex;
use crate::node::etcd::client::api::Api;
use crate::node::etcd::client::errors::CallError;
use quorlock_core::Moment;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;

/// A lease lasts this part of the ttl longer than the ttl, in whole seconds, one at least: for so long it
/// serves further locks, and so much later than its ttl a dead holder's lock may be free.
const SPARE_PART: u64 = 8;
/// This part of the spare time is not used: the clocks of client and cluster may run at different rates.
const MARGIN_PART: u32 = 4;
/// The most lengths for which a lease is kept for further locks.
const MAX_LENGTHS: usize = 64;
/// The most leases whose end is remembered.
const MAX_KNOWN: usize = 1024;
/// How many bits of a lease's number say how long its locks last, in seconds.
const LENGTH_BITS: u32 = 22;

/// The leases that this client has made.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// The newest for each length in seconds. Locked while it is made, so that it is made once.
    newest: Mutex<BTreeMap<u64, Arc<AsyncMutex<Option<Lease>>>>>,
    /// When the lease of each number ends at the earliest.
    known: Mutex<BTreeMap<i64, Moment>>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    id: i64,
    /// It ends no sooner.
    ends: Moment,
}

impl Leases {
    /// A lease for a lock that lasts for `ttl` from now on.
    pub(crate) async fn lease(
        &self,
        api: &Api,
        ttl: Duration,
        clock: &dyn Clock,
        entropy: &dyn Entropy,
    ) -> Result<i64, CallError> {
        let length = Length::new(ttl);
        let newest = self.newest(length);
        let mut newest = newest.lock().await;
        let until = clock.now() + ttl + length.margin();
        if let Some(lease) = newest.filter(|lease| until <= lease.ends) {
            return Ok(lease.id);
        }
        let id = length.lease_id(entropy::number(entropy));
        // Counted from before the request: when the cluster begins to count is not known.
        let asked = clock.now();
        api.grant(id, length.granted()).await?;
        let lease = Lease { id, ends: asked + length.granted() };
        self.remember(lease, asked);
        *newest = Some(lease);
        Ok(id)
    }

    /// When the lease `id` ends at the earliest, if this client has made it.
    pub(crate) fn end_of(&self, id: i64) -> Option<Moment> {
        self.known.lock().get(&id).copied()
    }

    /// Makes new leases from now on: one does not exist any more.
    pub(crate) fn forget(&self) {
        self.newest.lock().clear();
    }

    /// How long a lock with the lease `id` lasts at most, if its lease has `left`.
    pub(crate) fn left_of_lock(id: i64, left: Duration) -> Duration {
        left.min(Duration::from_secs(id.unsigned_abs() & ((1 << LENGTH_BITS) - 1)))
    }

    fn newest(&self, length: Length) -> Arc<AsyncMutex<Option<Lease>>> {
        let mut newest = self.newest.lock();
        if newest.len() >= MAX_LENGTHS && !newest.contains_key(&length.0) {
            newest.clear();
        }
        newest.entry(length.0).or_default().clone()
    }

    fn remember(&self, lease: Lease, now: Moment) {
        let mut known = self.known.lock();
        if known.len() >= MAX_KNOWN {
            known.retain(|_, ends| *ends > now);
        }
        // The end of a lease that is not remembered is asked for.
        if known.len() < MAX_KNOWN {
            known.insert(lease.id, lease.ends);
        }
    }
}

/// How long locks last, in whole seconds.
#[derive(Clone, Copy, Debug)]
struct Length(u64);

impl Length {
    fn new(ttl: Duration) -> Self {
        Self((ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0)).max(1))
    }

    fn spare(self) -> u64 {
        self.0.div_ceil(SPARE_PART)
    }

    /// How long a lease for such locks is granted for.
    fn granted(self) -> Duration {
        Duration::from_secs(self.0 + self.spare())
    }

    fn margin(self) -> Duration {
        Duration::from_secs(self.spare()) / MARGIN_PART
    }

    /// A number that shows the length, so that other clients can tell how long a lock lasts.
    fn lease_id(self, random: u64) -> i64 {
        let length = self.0.min((1 << LENGTH_BITS) - 1);
        (((random << LENGTH_BITS) | length) & i64::MAX as u64) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_outlasts_the_ttl_by_an_eighth_and_a_second_at_most() {
        for (millis, granted) in [(1, 2), (1_000, 2), (1_500, 3), (8_000, 9), (10_000, 12), (30_000, 34)] {
            let length = Length::new(Duration::from_millis(millis));
            assert_eq!(length.granted(), Duration::from_secs(granted), "{millis} ms");
            assert!(length.granted() - length.margin() > Duration::from_millis(millis), "{millis} ms");
        }
    }

    #[test]
    fn the_number_of_a_lease_shows_the_length_of_its_locks() {
        let week = Duration::from_secs(7 * 86_400);
        for (ttl, random) in [(week, u64::MAX), (Duration::from_secs(10), 0), (Duration::from_secs(1), 7)] {
            let id = Length::new(ttl).lease_id(random);
            assert!(id > 0);
            assert_eq!(Leases::left_of_lock(id, 2 * week), ttl);
            assert_eq!(Leases::left_of_lock(id, ttl / 2), ttl / 2);
        }
    }
}
