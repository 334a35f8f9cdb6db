//! Handing a lock from one client to the next, while nothing disturbs them.

use crate::simulator::clients::Client;
use quorlock::Name;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time between the call of the waiter and the release by the holder.
const MAX_OVERLAP: Duration = Duration::from_millis(40);

impl Client {
    /// Holds `name` until `waiter` waits for it, and returns how long the waiter had to wait after the
    /// release. `None` if one of them did not get it.
    pub(crate) async fn hand_off(mut self, mut waiter: Client, name: Name) -> Option<Duration> {
        let (guard, _) = self.acquire(&name).await?;
        let waited_for = name.clone();
        let waiting = tokio::spawn(async move {
            let acquired = waiter.acquire(&waited_for).await;
            let at = Instant::now();
            if let Some((guard, _)) = acquired {
                waiter.release(guard).await;
                return Some(at);
            }
            None
        });
        sleep(self.rng.span(Duration::ZERO, MAX_OVERLAP)).await;
        let released = Instant::now();
        self.release(guard).await;
        let at = waiting.await.expect("no task panics")?;
        Some(at.saturating_duration_since(released))
    }
}
