//! How long fence counters are kept: long after the last lock of their name, and not for ever.

use crate::context::clock::Clock;
use crate::context::entropy::{self, Entropy};
use crate::node::etcd::client::api::Api;
use crate::node::etcd::client::errors::CallError;
use crate::node::etcd::keys::positive;
use quorlock_core::hash::fnv1a;
use quorlock_core::{Moment, Wall};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

pub(crate) const DAY: Duration = Duration::from_secs(86_400);
/// How long a lease of counters is granted for. A counter that is raised gets the lease of the current week.
const GRANTED: Duration = DAY.saturating_mul(28);
/// A lease that ends sooner is not used any more. No lock lives longer than 7 days without an extension.
const LEAST: Duration = DAY.saturating_mul(15);
/// How long a lease that was read is used before it is read again.
const TRUSTED: Duration = DAY;
/// This many leases share the counters of a week: all counters of a lease end at the same moment.
const SHARES: usize = 16;

/// The leases that counters end with. All clients share those of a week, so that programs which run once
/// a minute do not leave one each.
#[derive(Clone, Debug, Default)]
pub(crate) struct FenceLeases(Arc<[Mutex<Option<CachedLease>>; SHARES]>);

#[derive(Clone, Copy, Debug)]
struct CachedLease {
    lease: i64,
    /// When to read it again.
    until: Moment,
}

impl FenceLeases {
    /// The lease for `counter`, which is raised now.
    pub(crate) async fn lease(
        &self,
        api: &Api,
        counter: &[u8],
        clock: &dyn Clock,
        entropy: &dyn Entropy,
    ) -> Result<i64, CallError> {
        let mut cached = self.share(counter).lock().await;
        let now = clock.now();
        if let Some(CachedLease { lease, .. }) = cached.filter(|cached| now < cached.until) {
            return Ok(lease);
        }
        let lease = find(api, weekly_lease_id(counter, clock.wall()), entropy).await?;
        *cached = Some(CachedLease { lease, until: now + TRUSTED });
        Ok(lease)
    }

    /// Makes the next call read the lease again: it does not exist any more.
    pub(crate) async fn forget(&self, counter: &[u8]) {
        *self.share(counter).lock().await = None;
    }

    fn share(&self, counter: &[u8]) -> &Mutex<Option<CachedLease>> {
        &self.0[share_of(counter)]
    }
}

/// The lease `shared` if it lasts long enough, made if it does not exist; else one of our own.
async fn find(api: &Api, shared: i64, entropy: &dyn Entropy) -> Result<i64, CallError> {
    // Another client may make it between the read and the grant.
    for _ in 0..2 {
        let left = api.left(shared).await?;
        if left >= LEAST {
            return Ok(shared);
        }
        // One that exists and ends soon was made by a clock that was weeks off.
        if !left.is_zero() {
            break;
        }
        api.try_grant(shared, GRANTED).await?;
    }
    let own = positive(entropy::number(entropy));
    api.grant(own, GRANTED).await?;
    Ok(own)
}

fn share_of(counter: &[u8]) -> usize {
    fnv1a(counter) as usize % SHARES
}

/// The number of the lease for `counter` in a week. Prefixes have leases of their own.
pub(crate) fn weekly_lease_id(counter: &[u8], wall: Wall) -> i64 {
    let week = Duration::from_micros(wall.as_micros()).as_secs() / (7 * DAY).as_secs();
    let prefix = String::from_utf8_lossy(counter);
    let prefix = prefix.split("/fence/").next().unwrap_or_default();
    let text = format!("{prefix} counters {} of week {week}", share_of(counter));
    positive(fnv1a(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_has_few_leases() {
        let at = |counter: &str, day: u32| {
            weekly_lease_id(counter.as_bytes(), Wall::from_micros((DAY * day).as_micros() as u64))
        };
        assert_eq!(at("quorlock/fence/a", 70), at("quorlock/fence/a", 76));
        assert_ne!(at("quorlock/fence/a", 70), at("quorlock/fence/a", 77));
        assert_ne!(at("quorlock/fence/a", 70), at("team/fence/a", 70));
        let leases: std::collections::BTreeSet<_> =
            (0..1000).map(|number| at(&format!("quorlock/fence/{number}"), 70)).collect();
        assert_eq!(leases.len(), SHARES);
    }
}
