//! The list of held locks, cached for a moment because listing costs the nodes work.

use quorlock::{ListError, Listing, Locker};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a list is fresh at least.
const FRESH: Duration = Duration::from_millis(500);
/// A slow list is fresh for this many times the time that it took.
const FRESH_PER_COST: u32 = 10;
/// How long a list is fresh at most: one slow moment must not hide locks for long.
const MAX_FRESH: Duration = Duration::from_secs(2);

/// The last list. Without requests nothing is listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct LockListCache {
    last: Arc<Mutex<Option<Arc<Snapshot>>>>,
    /// Held while a list is made: one at a time.
    listing: Arc<tokio::sync::Mutex<()>>,
}

/// A list and when it was made.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) listing: Listing,
    pub(crate) made: Instant,
    took: Duration,
}

impl Snapshot {
    pub(crate) fn age(&self) -> Duration {
        self.made.elapsed()
    }

    fn is_fresh(&self) -> bool {
        self.age() < lifetime(self.took)
    }
}

/// How long a list is fresh that took `took` to make.
fn lifetime(took: Duration) -> Duration {
    took.saturating_mul(FRESH_PER_COST).clamp(FRESH, MAX_FRESH)
}

impl LockListCache {
    /// The last list, of any age.
    pub(crate) fn last(&self) -> Option<Arc<Snapshot>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A fresh list.
    pub(crate) async fn fresh(&self, locker: &Locker) -> Result<Arc<Snapshot>, ListError> {
        if let Some(last) = self.last().filter(|last| last.is_fresh()) {
            return Ok(last);
        }
        let _listing = self.listing.lock().await;
        // Another request may have made one in the meantime.
        if let Some(last) = self.last().filter(|last| last.is_fresh()) {
            return Ok(last);
        }
        let start = Instant::now();
        let listing = locker.list().await?;
        let snapshot = Arc::new(Snapshot { listing, made: Instant::now(), took: start.elapsed() });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// A fresh list if it can be made within `limit`, else the last one.
    pub(crate) async fn fresh_or_last(&self, locker: &Locker, limit: Duration) -> Option<Arc<Snapshot>> {
        let (cache, locker) = (self.clone(), locker.clone());
        // On a task of its own: after the limit it still finishes, for the next request.
        let listing = tokio::spawn(async move { cache.fresh(&locker).await.ok() });
        match tokio::time::timeout(limit, listing).await {
            Ok(Ok(Some(fresh))) => Some(fresh),
            _ => self.last(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_list_is_fresh_for_longer_within_a_bound() {
        let ms = Duration::from_millis;
        assert_eq!(lifetime(ms(1)), FRESH);
        assert_eq!(lifetime(ms(100)), ms(1000));
        assert_eq!(lifetime(Duration::from_secs(9)), MAX_FRESH);
    }
}
