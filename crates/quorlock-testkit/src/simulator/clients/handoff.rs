//! Handing a lock from one client to the next, while nothing disturbs them.

use crate::simulator::clients::Client;
use crate::simulator::clients::wanted::Wanted;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The longest time between the call of the waiter and the release by the holder.
const MAX_OVERLAP: Duration = Duration::from_millis(40);

/// What is handed off: what the holder has, what the waiter wants, and whether a downgrade is enough.
#[derive(Clone, Debug)]
pub(crate) struct HandOff {
    pub(crate) held: Wanted,
    pub(crate) wanted: Wanted,
    pub(crate) downgrades: bool,
}

impl Client {
    /// Holds something until `waiter` waits for it, and returns how long the waiter had to wait after the
    /// release. `None` if one of them did not get it.
    pub(crate) async fn hand_off(mut self, mut waiter: Client, hand_off: HandOff) -> Option<Duration> {
        let HandOff { held, wanted, downgrades } = hand_off;
        let (guard, _) = self.acquire(&held).await?;
        let waiting = tokio::spawn(async move {
            let acquired = waiter.acquire(&wanted).await;
            let at = Instant::now();
            if let Some((guard, _)) = acquired {
                waiter.release(guard).await;
                return Some(at);
            }
            None
        });
        sleep(self.rng.span(Duration::ZERO, MAX_OVERLAP)).await;
        let released = Instant::now();
        if downgrades {
            self.downgrade(&guard);
            let at = waiting.await.expect("no task panics");
            self.release(guard).await;
            return at.map(|at| at.saturating_duration_since(released));
        }
        self.release(guard).await;
        let at = waiting.await.expect("no task panics")?;
        Some(at.saturating_duration_since(released))
    }
}
