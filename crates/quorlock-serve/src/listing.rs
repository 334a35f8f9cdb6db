//! The list of held locks, remembered for a moment, as asking all nodes for it costs them something.

use crate::problem::Problem;
use quorlock::{Listing, Locker};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A list may be this old.
const FRESH: Duration = Duration::from_millis(500);
/// A list that takes long to make may be so many times as old.
const PATIENCE: u32 = 10;
/// But never older than this: one slow moment must not hide locks for long.
const STALE: Duration = Duration::from_secs(2);

/// The last list. While nobody asks, nothing is listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListingCache {
    last: Arc<Mutex<Option<Arc<Snapshot>>>>,
    /// One list is made at a time.
    making: Arc<tokio::sync::Mutex<()>>,
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

/// How old a list may be that took so long to make.
fn lifetime(took: Duration) -> Duration {
    took.saturating_mul(PATIENCE).clamp(FRESH, STALE)
}

impl ListingCache {
    /// The last list, however old.
    pub(crate) fn last(&self) -> Option<Arc<Snapshot>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A fresh list.
    pub(crate) async fn fresh(&self, locker: &Locker) -> Result<Arc<Snapshot>, Problem> {
        if let Some(last) = self.last().filter(|last| last.is_fresh()) {
            return Ok(last);
        }
        let _making = self.making.lock().await;
        // Somebody else may have made one while we waited.
        if let Some(last) = self.last().filter(|last| last.is_fresh()) {
            return Ok(last);
        }
        let start = Instant::now();
        let listing = locker.list().await?;
        let snapshot = Arc::new(Snapshot { listing, made: Instant::now(), took: start.elapsed() });
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// A list that is at most `limit` late: a fresh one if it can be made by then, else the last one.
    pub(crate) async fn soon(&self, locker: &Locker, limit: Duration) -> Option<Arc<Snapshot>> {
        let (cache, locker) = (self.clone(), locker.clone());
        // On a task of its own: what was begun is finished, for the next one who asks.
        let making = tokio::spawn(async move { cache.fresh(&locker).await.ok() });
        match tokio::time::timeout(limit, making).await {
            Ok(Ok(Some(fresh))) => Some(fresh),
            _ => self.last(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_list_lives_longer_and_never_for_long() {
        let ms = Duration::from_millis;
        assert_eq!(lifetime(ms(1)), FRESH);
        assert_eq!(lifetime(ms(100)), ms(1000));
        assert_eq!(lifetime(Duration::from_secs(9)), STALE);
    }
}
