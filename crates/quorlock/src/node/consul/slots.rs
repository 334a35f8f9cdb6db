//! How many slots a semaphore has, and which of them are taken.

use crate::node::consul::client::api::Consistency;
use crate::node::consul::client::txn::{Entry, Outcome};
use crate::node::consul::keys::Keys;
use crate::node::consul::lock_store::{MAX_TRIES, Store, conflict};
use crate::node::consul::name_record::ReadRecord;
use crate::node::engine::Failure;
use crate::node::{Done, RecordSlots, Reply};

impl Store {
    /// How many slots are recorded, and which of `count` are taken.
    pub(crate) async fn slots(&self, keys: &Keys, count: u32, record: RecordSlots) -> Result<Reply, Failure> {
        for _ in 0..MAX_TRIES {
            let entries = self.api.read(&[&keys.record, &keys.slots()], Consistency::Verified).await?;
            let read = entries.iter().find(|entry| entry.key == keys.record);
            let before = read.map(ReadRecord::parse).transpose()?.unwrap_or_default();
            let now = self.clock.wall();
            let after = before.record.with_slots(count, record, now);
            let is_stored = match &after {
                None => true,
                Some(after) => {
                    let replaced = self.api.execute(&[before.replace(&keys.record, after)]).await?;
                    matches!(replaced, Outcome::Done(_))
                }
            };
            if is_stored {
                let taken = taken(keys, count, &entries);
                let view = after.unwrap_or(before.record).slots_view(taken, now);
                return Ok(Reply::Done(Done::Slots(Box::new(view))));
            }
        }
        Err(conflict().into())
    }
}

/// Which of `count` slots have one of the `entries`.
fn taken(keys: &Keys, count: u32, entries: &[Entry]) -> Vec<bool> {
    let mut taken = vec![false; count as usize];
    for slot in entries.iter().filter_map(|entry| keys.slot_of(&entry.key)) {
        if let Some(is_taken) = taken.get_mut(slot) {
            *is_taken = true;
        }
    }
    taken
}
