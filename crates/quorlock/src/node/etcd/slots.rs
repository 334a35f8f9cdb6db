//! How many slots a semaphore has, and which of them are taken.

use crate::node::etcd::client::api::protocol;
use crate::node::etcd::client::json::{Entry, Txn, is_unchanged, put, read, read_keys};
use crate::node::etcd::keys::Keys;
use crate::node::etcd::lock_store::{MAX_TRIES, Store, conflict};
use crate::node::server_text::server_text;
use crate::node::{Done, NodeError, Reply, SlotsView};

/// The most slots that are read, with those of semaphores whose names go on with a colon and a digit. A slot
/// that was not read is reported as free; the client that tries it is refused.
const MAX_READ: usize = 10_000;

impl Store {
    /// Which of `count` slots are taken. Records `count` if nothing is recorded, or if `replace` says so.
    pub(crate) async fn slots(&self, keys: &Keys, count: u32, replace: bool) -> Result<Reply, NodeError> {
        for _ in 0..MAX_TRIES {
            let reads = Txn::default().then(read(&keys.slots)).then(read_keys(&keys.slot_locks(), MAX_READ));
            let answer = self.api.execute(&reads).await?;
            let taken = taken(keys, count, answer.read_all(1));
            let record = answer.read(0);
            let recorded = match record.map(recorded).transpose()? {
                Some(recorded) if !replace => recorded,
                _ => count,
            };
            if self.record_slots(keys, record, recorded).await? {
                return Ok(Reply::Done(Done::Slots(Box::new(SlotsView { recorded, taken }))));
            }
        }
        Err(conflict())
    }

    /// Records the number of slots, and keeps the record as long as counters; whether it was still as it was
    /// read.
    async fn record_slots(
        &self,
        keys: &Keys,
        record: Option<&Entry>,
        number: u32,
    ) -> Result<bool, NodeError> {
        let (lease, value) = (self.counter_lease(keys).await?, number.to_string().into_bytes());
        if record.is_some_and(|record| record.lease == lease && record.value == value) {
            return Ok(true);
        }
        let same = is_unchanged(&keys.slots, record.map_or(0, |record| record.mod_revision));
        let txn = Txn::default().when(same).then(put(&keys.slots, &value, lease));
        Ok(self.api.execute(&txn).await?.succeeded)
    }
}

/// Which of `count` slots have one of the `locks`.
fn taken(keys: &Keys, count: u32, locks: &[Entry]) -> Vec<bool> {
    let mut taken = vec![false; count as usize];
    for slot in locks.iter().filter_map(|lock| keys.slot_of(&lock.key)) {
        if let Some(is_taken) = taken.get_mut(slot) {
            *is_taken = true;
        }
    }
    taken
}

fn recorded(record: &Entry) -> Result<u32, NodeError> {
    let number = std::str::from_utf8(&record.value).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| protocol(format!("`{}` holds no number of slots", server_text(&record.key))))
}
