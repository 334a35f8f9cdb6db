//! Removing znodes of names that were not used for weeks.

use crate::context::entropy;
use crate::node::zookeeper::client::call::CallError;
use crate::node::zookeeper::client::jute::Stat;
use crate::node::zookeeper::client::operation::Operation;
use crate::node::zookeeper::lock_store::Store;
use crate::node::zookeeper::stored::Stored;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How long a znode stays after its last write: fence counters must outlive the locks of their names.
const IDLE: Duration = Duration::from_secs(14 * 24 * 3600);
/// After how many acquires of ours a part of the tree is looked through.
const PERIOD: u32 = 1024;
/// The most znodes that are looked at each time.
const MAX_LOOKED_AT: usize = 64;

/// Counts acquires until the next sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweeper(AtomicU32);

impl Sweeper {
    /// Counts an acquire, and sweeps now and then, without making anything wait for it.
    pub(crate) fn count(&self, store: &Store) {
        if self.0.fetch_add(1, Ordering::Relaxed) % PERIOD == PERIOD - 1 {
            let store = store.clone();
            tokio::spawn(async move {
                let bucket = entropy::number(store.entropy.as_ref());
                // Another client, or a later sweep, removes what is left.
                let _ = store.sweep(bucket, IDLE).await;
            });
        }
    }
}

impl Store {
    /// Removes znodes of one directory that no client wrote for `idle`. Returns how many.
    pub(crate) async fn sweep(&self, random: u64, idle: Duration) -> Result<usize, CallError> {
        let deadline = self.client.deadline();
        let bucket = self.paths.bucket(u32::try_from(random & 0xff).unwrap_or_default());
        let mut names = self.client.children(&bucket, deadline).await?;
        if names.is_empty() {
            return Ok(0);
        }
        let start = usize::try_from(random >> 8).unwrap_or_default() % names.len();
        names.rotate_left(start);
        names.truncate(MAX_LOOKED_AT);
        let mut paths: Vec<String> = names.iter().map(|name| format!("{bucket}/{name}")).collect();
        let found = self.client.read_all(&paths, deadline).await?;
        // The slots of a semaphore go before it does.
        let mut slots = Vec::new();
        for (path, found) in paths.iter().zip(&found) {
            if found.as_ref().is_some_and(|(_, stat)| stat.children > 0) && slots.len() < MAX_LOOKED_AT {
                let below = self.client.children(path, deadline).await?;
                slots.extend(below.iter().map(|slot| format!("{path}/{slot}")));
            }
        }
        slots.truncate(MAX_LOOKED_AT);
        let found_slots = self.client.read_all(&slots, deadline).await?;
        let found = found_slots.into_iter().chain(found);
        slots.append(&mut paths);
        self.ask_time(deadline).await?;
        let mut removed = 0;
        for (path, found) in slots.iter().zip(found) {
            let Some((data, stat)) = found else { continue };
            if !self.is_idle(&data, stat, idle) {
                continue;
            }
            // One that was written since, or has slots, stays. The write makes those fail that found this znode,
            // even if it has the same version when it comes back.
            let notice = Operation::Write { path: &bucket, data: &[], version: -1 };
            let delete = Operation::Delete { path, version: stat.version };
            match self.client.all(&[notice, delete], deadline).await {
                Ok(_) => removed += 1,
                Err(CallError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(removed)
    }

    fn is_idle(&self, data: &[u8], stat: Stat, idle: Duration) -> bool {
        let Some(leader) = self.leader_clock.leader_millis(self.clock.now()) else { return false };
        let age = Duration::from_millis(u64::try_from(leader - stat.mtime).unwrap_or_default());
        // What was not written by us stays.
        let stored = Stored::parse(data, stat);
        age >= idle
            && stat.version != -1
            && stored.is_ok_and(|stored| stored.holds.is_empty() || !self.is_held(&stored))
    }
}
