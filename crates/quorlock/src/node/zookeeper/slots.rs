//! Which slots of a semaphore are taken.

use crate::node::zookeeper::client::call::CallError;
use crate::node::zookeeper::lock_store::Store;
use crate::node::zookeeper::stored::Stored;
use quorlock_core::Name;
use tokio::time::Instant;

impl Store {
    /// For each of `count` slots of the semaphore at `path` whether it is taken.
    pub(crate) async fn taken_slots(
        &self,
        path: &str,
        semaphore: &Name,
        count: u32,
        deadline: Instant,
    ) -> Result<Vec<bool>, CallError> {
        let mut taken = vec![false; count as usize];
        let existing = self.client.children(path, deadline).await?;
        let existing = existing.iter().filter_map(|slot| slot.parse::<u32>().ok());
        let existing: Vec<u32> = existing.filter(|slot| *slot < count).collect();
        let paths: Vec<String> =
            existing.iter().map(|slot| self.paths.of(&Name::of_slot(semaphore, *slot))).collect();
        for (slot, found) in existing.iter().zip(self.client.read_all(&paths, deadline).await?) {
            let Some((data, stat)) = found else { continue };
            // What was not written by us makes an acquire fail.
            let is_held = Stored::parse(&data, stat).is_ok_and(|stored| self.is_held(&stored));
            taken[*slot as usize] = is_held;
        }
        Ok(taken)
    }

    /// Whether a client holds the name, as far as is known.
    pub(crate) fn is_held(&self, stored: &Stored) -> bool {
        self.see(stored);
        let now = self.clock.now();
        let mut record = self.record(stored, now, true);
        record.drop_ended(|hold| now >= hold.deadline);
        record.is_held()
    }
}
