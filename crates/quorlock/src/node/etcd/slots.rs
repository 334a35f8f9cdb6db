//! How many slots a semaphore has, and which of them are taken.

use crate::node::engine::batch::Urgency;
use crate::node::etcd::client::errors::protocol;
use crate::node::etcd::client::messages::Entry;
use crate::node::etcd::client::txn::{Txn, is_unchanged, put, read, read_keys};
use crate::node::etcd::keys::Keys;
use crate::node::etcd::lock_store::{MAX_TRIES, Store, conflict};
use crate::node::server_text::server_text;
use crate::node::{Done, NodeError, RecordSlots, RefusedSlots, Reply, SlotsView};
use std::time::Duration;

/// The most slots that are read, with those of semaphores whose names go on with a colon and a digit. A slot
/// that was not read is reported as free; the client that tries it is refused.
const MAX_READ: usize = 10_000;

impl Store {
    /// How many slots are recorded, and which of `count` are taken.
    pub(crate) async fn slots(
        &self,
        keys: &Keys,
        count: u32,
        record: RecordSlots,
    ) -> Result<Reply, NodeError> {
        for _ in 0..MAX_TRIES {
            let reads =
                Txn::default().then(read(&keys.slots())).then(read_keys(&keys.slot_locks(), MAX_READ));
            let answer = self.api.execute(reads).await?;
            let taken = taken(keys, count, answer.read_all(1));
            let entry = answer.read(0);
            let before = entry.map(Record::parse).transpose()?;
            let now = self.clock.wall().as_micros() / 1_000_000;
            let after = match (record, before) {
                (RecordSlots::Replace, _) | (RecordSlots::IfNone, None) => {
                    Some(Record { count, refused: None })
                }
                (RecordSlots::Refused, Some(before)) => {
                    Some(Record { refused: Some((count, now)), ..before })
                }
                _ => before,
            };
            let view = SlotsView {
                recorded: after.map(|record| record.count),
                refused: after
                    .and_then(|record| record.refused)
                    .map(|(count, at)| RefusedSlots::new(count, Duration::from_secs(now.saturating_sub(at)))),
                taken,
            };
            let is_stored = match after {
                Some(after) if record != RecordSlots::Nothing => {
                    self.record_slots(keys, entry, after).await?
                }
                _ => true,
            };
            if is_stored {
                return Ok(Reply::Done(Done::Slots(Box::new(view))));
            }
        }
        Err(conflict())
    }

    /// Stores the record, and keeps it as long as counters; whether it was still as it was read.
    async fn record_slots(
        &self,
        keys: &Keys,
        entry: Option<&Entry>,
        record: Record,
    ) -> Result<bool, NodeError> {
        let (lease, value) = (self.counter_lease(keys).await?, record.value());
        if entry.is_some_and(|entry| entry.lease == lease && entry.value == value) {
            return Ok(true);
        }
        let same = is_unchanged(&keys.slots(), entry.map_or(0, |entry| entry.mod_revision));
        let txn = Txn::default().when(same).then(put(&keys.slots(), &value, lease));
        Ok(self.api.commit(txn, Urgency::WhileAwaited).await?.succeeded)
    }
}

/// What is stored about a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    count: u32,
    /// How many slots the client counts that was refused last, and when, in seconds since 1970.
    refused: Option<(u32, u64)>,
}

impl Record {
    /// The number; after a refusal also the number of the client and the time.
    fn value(&self) -> Vec<u8> {
        match self.refused {
            None => self.count.to_string().into_bytes(),
            Some((count, at)) => format!("{} {count} {at}", self.count).into_bytes(),
        }
    }

    fn parse(entry: &Entry) -> Result<Self, NodeError> {
        let odd = || protocol(format!("`{}` holds no number of slots", server_text(&entry.key)));
        let text = std::str::from_utf8(&entry.value).map_err(|_| odd())?;
        let words: Vec<&str> = text.split(' ').collect();
        let record = match words.as_slice() {
            [count] => count.parse().ok().map(|count| Self { count, refused: None }),
            [count, refused, at] => {
                let refused = refused.parse().ok().zip(at.parse().ok());
                refused.and_then(|refused| Some(Self { count: count.parse().ok()?, refused: Some(refused) }))
            }
            _ => None,
        };
        record.ok_or_else(odd)
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
