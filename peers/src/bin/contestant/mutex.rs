//! No lock service at all: a mutex in memory, for what the work under the lock alone allows.

use crate::drive::{self, Library};
use crate::refuse_others;
use anyhow::Result;
use peers::protocol::Order;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use tokio::sync::{Mutex, OwnedMutexGuard};

pub async fn run(order: Order) -> Result<()> {
    refuse_others(&order)?;
    drive::run(InMemory::default(), order).await
}

#[derive(Default)]
struct InMemory(std::sync::Mutex<HashMap<String, Arc<Mutex<()>>>>);

impl Library for InMemory {
    type Lock = Arc<Mutex<()>>;
    type Held = OwnedMutexGuard<()>;

    fn version(&self) -> String {
        "tokio".to_owned()
    }

    fn lock(&self, name: &str) -> Self::Lock {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.entry(name.to_owned()).or_default().clone()
    }

    async fn acquire(&self, lock: &Self::Lock) -> Option<Self::Held> {
        Some(lock.clone().lock_owned().await)
    }

    async fn release(&self, held: Self::Held) {
        drop(held);
    }
}
