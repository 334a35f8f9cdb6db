//! Bounds how many attempts of one locker are under way, so that votes do not time out in our own queue.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

/// So many attempts of one locker may be under way at the same moment; the others wait for their turn, first come, first
/// served.
///
/// The node timeout counts from the moment of sending. With more votes on their way than a server answers within a
/// fraction of it, all of them would time out, be undone and sent again.
const MOST_ATTEMPTS: usize = 256;

/// Where attempts of one locker wait until few enough others are under way. Extends and releases do not pass it.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Default for Gate {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MOST_ATTEMPTS)))
    }
}

impl Gate {
    /// Waits until an attempt may begin, at most for `limit`. The attempt lasts until the pass is dropped.
    ///
    /// Whoever has a pass waits for nodes alone, each for a node timeout at most, so every pass comes back.
    ///
    /// # Cancel safety
    /// Cancel safe: a dropped call gives up its place.
    pub(crate) async fn pass(&self, limit: impl FnOnce() -> Duration) -> Option<Pass<'_>> {
        if let Ok(permit) = self.0.try_acquire() {
            return Some(Pass { _permit: permit });
        }
        // The gate is never closed.
        let permit = timeout(limit(), self.0.acquire()).await.ok()?.ok()?;
        Some(Pass { _permit: permit })
    }
}

/// The right to make one attempt, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pass<'a> {
    _permit: SemaphorePermit<'a>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_comes_too_many_waits_for_a_pass_to_come_back_and_not_longer_than_allowed() {
        let gate = Gate::default();
        let limit = || Duration::from_millis(20);
        let mut passes = Vec::new();
        for _ in 0..MOST_ATTEMPTS {
            passes.push(gate.pass(limit).await.unwrap());
        }
        assert!(gate.pass(limit).await.is_none());
        let (next, ()) = tokio::join!(gate.pass(limit), async { drop(passes.pop()) });
        assert!(next.is_some());
    }
}
