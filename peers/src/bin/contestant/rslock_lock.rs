//! The rslock crate, with its own retries (3 with 200 ms between them).

use crate::drive::{self, Library};
use crate::{refuse_others, versions};
use anyhow::Result;
use peers::protocol::Order;
use rslock::{LockGuard, LockManager};
use std::time::Duration;

pub async fn run(order: Order) -> Result<()> {
    refuse_others(&order)?;
    let locks = LockManager::new(order.nodes.clone());
    let ttl = order.ttl();
    drive::run(Rslock { locks, ttl }, order).await
}

struct Rslock {
    locks: LockManager,
    ttl: Duration,
}

impl Library for Rslock {
    type Lock = String;
    type Held = LockGuard;

    fn version(&self) -> String {
        format!("{} redis {}", versions::of("rslock"), versions::of("redis"))
    }

    fn lock(&self, name: &str) -> String {
        name.to_owned()
    }

    async fn acquire(&self, name: &String) -> Option<LockGuard> {
        self.locks.acquire(name.as_str(), self.ttl).await.ok()
    }

    async fn release(&self, held: LockGuard) {
        held.release().await;
    }
}
