//! A writer among readers that never leave a gap between them.

use crate::simulator::clients::Client;
use crate::simulator::clients::wanted::Wanted;
use quorlock::{Guard, Name};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// The longest time for which a reader works before it asks for its next hold.
const MAX_READING: Duration = Duration::from_millis(200);

impl Client {
    /// Shares `name` again and again, and releases each hold only when it has the next one or was refused,
    /// until `is_over`.
    pub(crate) async fn keep_reading(mut self, name: Name, is_over: Arc<AtomicBool>) {
        let mut held: Option<Guard> = None;
        while !is_over.load(Ordering::Relaxed) {
            let next = self.acquire(&Wanted::shared(name.clone())).await.map(|(guard, _)| guard);
            if let Some(before) = std::mem::replace(&mut held, next) {
                self.release(before).await;
            }
            sleep(self.rng.span(Duration::ZERO, MAX_READING)).await;
        }
        if let Some(last) = held {
            self.release(last).await;
        }
    }
}
