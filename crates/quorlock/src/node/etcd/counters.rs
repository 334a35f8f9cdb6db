//! How long fence counters are kept: long after the last lock of their name, and not for ever.

use super::api::Api;
use super::store::positive;
use crate::entropy::{self, Entropy};
use crate::node::NodeError;
use quorlock_core::Wall;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

const DAY: Duration = Duration::from_secs(86_400);
/// How long a lease of counters is granted for. A counter that is raised gets the lease of the current week.
const GRANTED: Duration = DAY.saturating_mul(28);
/// A lease that ends sooner is not used any more. No lock lives longer than 7 days without a word.
const LEAST: Duration = DAY.saturating_mul(14);

/// The lease that the counters of all names end with. All clients share one for each week, so that programs which run once a
/// minute do not leave one each.
#[derive(Clone, Debug, Default)]
pub(super) struct Counters(Arc<Mutex<Option<Known>>>);

#[derive(Clone, Copy, Debug)]
struct Known {
    lease: i64,
    /// When to look for another one.
    until: Instant,
}

impl Counters {
    /// The lease for a counter that is raised now.
    pub(super) async fn lease(
        &self,
        api: &Api,
        prefix: &str,
        wall: Wall,
        entropy: &dyn Entropy,
    ) -> Result<i64, NodeError> {
        let mut known = self.0.lock().await;
        if let Some(Known { lease, .. }) = known.filter(|known| Instant::now() < known.until) {
            return Ok(lease);
        }
        let shared = of_week(prefix, wall);
        // Somebody else may make it between the look and the grant.
        for _ in 0..2 {
            let left = api.left(shared).await?;
            if left >= LEAST {
                *known = Some(Known { lease: shared, until: Instant::now() + (left - LEAST) });
                return Ok(shared);
            }
            // One that is there and ends soon is of a clock that was weeks off.
            if !left.is_zero() {
                break;
            }
            api.try_grant(shared, GRANTED).await?;
        }
        let own = positive(entropy::number(entropy));
        api.grant(own, GRANTED).await?;
        *known = Some(Known { lease: own, until: Instant::now() + (GRANTED - LEAST) });
        Ok(own)
    }

    /// Looks again next time: the lease is not there any more.
    pub(super) async fn forget(&self) {
        *self.0.lock().await = None;
    }
}

/// The number of the lease of a week.
fn of_week(prefix: &str, wall: Wall) -> i64 {
    let week = Duration::from_micros(wall.as_micros()).as_secs() / (7 * DAY).as_secs();
    let text = format!("{prefix} counters of week {week}");
    positive(super::store::hash(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_week_has_one_lease() {
        let at = |day: u32| of_week("quorlock", Wall::from_micros((DAY * day).as_micros() as u64));
        assert_eq!(at(70), at(76));
        assert_ne!(at(70), at(77));
        assert_ne!(at(70), of_week("team", Wall::from_micros((DAY * 70).as_micros() as u64)));
    }
}
