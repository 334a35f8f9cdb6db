//! Commands that know of shared holders: upgrade, downgrade, holding readers off, and who holds a name.

use crate::node::etcd::client::json::{
    Answer, Entry, Txn, are_unchanged, delete, is_unchanged, put, read, read_oldest,
};
use crate::node::etcd::keys::{Held, Keys};
use crate::node::etcd::lock_store::{MAX_TRIES, Store, conflict, counter_of, raised, with_raise};
use crate::node::{Acquire, Content, Denied, Done, NodeError, Reply, View};
use quorlock_core::{Fence, Mode, StoredLock, Token};
use std::time::Duration;
use tokio::task::JoinSet;

/// The longest time for which readers are held off at once.
const MAX_HOLD_OFF: Duration = Duration::from_secs(10);
/// How many leases are asked for at once how long they last.
const AT_ONCE: usize = 16;

impl Store {
    /// Makes the hold of `acquire` exclusive if no other client holds the name.
    ///
    /// A downgrade and a release change the shared hold, so an upgrade that is still on its way when it is
    /// undone finds that its hold is not the one that it read.
    pub(crate) async fn upgrade(&self, keys: &Keys, acquire: &Acquire) -> Result<Reply, NodeError> {
        let entries = self.read_entries(keys, &acquire.token).await?;
        let held = match entries.held_by(&acquire.token) {
            Ok(_) if entries.holders > 1 => return Ok(Reply::Denied(Denied::Taken)),
            Ok(held) => held,
            Err(denied) => return Ok(Reply::Denied(denied)),
        };
        let counters = self.lease_to_raise(keys, acquire.proposal).await?;
        let lease = self.grant_longer(&held.entry, acquire.ttl).await?;
        // No transaction writes two holders of one name, so no other client has this revision.
        let alone = are_unchanged(&keys.holders(), held.entry.mod_revision);
        let mut txn = with_raise(Txn::default().when(alone), keys, acquire.proposal, counters);
        if held.mode == Mode::Shared {
            txn = txn.then(delete(&held.entry.key));
        }
        let answer = self.api.execute(&txn.then(put(&keys.lock, acquire.value().as_bytes(), lease))).await?;
        self.end(if answer.succeeded { held.entry.lease } else { lease });
        if !answer.succeeded {
            return Ok(Reply::Denied(Denied::Taken));
        }
        raised(&answer, counters)
    }

    /// Makes the hold of `token` shared, under the lease that it has.
    pub(crate) async fn downgrade(
        &self,
        keys: &Keys,
        token: &Token,
        at_most: Fence,
    ) -> Result<Reply, NodeError> {
        for _ in 0..MAX_TRIES {
            let Held { entry, mode } = match self.read_entries(keys, token).await?.held_by(token) {
                Ok(held) => held,
                Err(denied) => return Ok(Reply::Denied(denied)),
            };
            // A later upgrade has a higher fence.
            if mode == Mode::Exclusive && fence_of(&entry.value) > at_most {
                return Ok(Reply::Denied(Denied::Taken));
            }
            let mut txn = Txn::default().when(is_unchanged(&entry.key, entry.mod_revision));
            if mode == Mode::Exclusive {
                txn = txn.then(delete(&entry.key));
            }
            // One that is shared already is written, too: an upgrade may still be on its way.
            txn = txn.then(put(&keys.shared(token), &entry.value, entry.lease));
            if self.api.execute(&txn).await?.succeeded {
                return Ok(Reply::Done(Done::Plain));
            }
        }
        Err(conflict())
    }

    /// Refuses new readers for `ttl`, or for the two seconds that a lease lasts at least.
    pub(crate) async fn hold_off_readers(&self, keys: &Keys, ttl: Duration) -> Result<Reply, NodeError> {
        let txn = Txn::default().then(read(&keys.writer));
        let txn = if ttl.is_zero() {
            txn.then(delete(&keys.writer))
        } else {
            let lease = self.new_lease();
            self.api.grant(lease, ttl.min(MAX_HOLD_OFF)).await?;
            txn.then(put(&keys.writer, b"", lease))
        };
        let answer = self.api.execute(&txn).await?;
        self.end(answer.read(0).map_or(0, |before| before.lease));
        Ok(Reply::Done(Done::Plain))
    }

    pub(crate) async fn inspect(&self, keys: &Keys) -> Result<Reply, NodeError> {
        let reads = Txn::default()
            .then(read(&keys.counter))
            .then(read(&keys.lock))
            .then(read_oldest(&keys.holders(), View::MAX_READERS));
        let answer = self.api.execute(&reads).await?;
        let counter = answer.read(0).map(counter_of).transpose()?;
        let (content, left) = self.content(&answer).await?;
        Ok(Reply::Done(Done::Seen(Box::new(View { content, left, counter }))))
    }

    /// Who holds the name, and for how long.
    async fn content(&self, answer: &Answer) -> Result<(Content, Option<Duration>), NodeError> {
        if let Some(lock) = answer.read(1) {
            let left = if lock.lease == 0 { None } else { Some(self.api.left(lock.lease).await?) };
            return Ok((Content::from_value(&lock.value), left));
        }
        if answer.read_all(2).is_empty() {
            return Ok((Content::Free, None));
        }
        let mut readers = self.with_times_left(answer.read_all(2)).await?;
        readers.sort_by_key(|(left, reader)| (*left, reader.mod_revision));
        let left = readers.last().map(|(left, _)| *left);
        let stored = readers.iter().filter_map(|(_, reader)| StoredLock::parse(&reader.value));
        Ok((Content::Shared(stored.collect()), left))
    }

    /// How long each of `readers` lasts, as far as one member reports it.
    async fn with_times_left(&self, readers: &[Entry]) -> Result<Vec<(Duration, Entry)>, NodeError> {
        let mut found = Vec::new();
        for some in readers.chunks(AT_ONCE) {
            let mut asked = JoinSet::new();
            for reader in some {
                let (api, reader) = (self.api.clone(), reader.clone());
                asked.spawn(async move { Ok((api.left(reader.lease).await?, reader)) });
            }
            while let Some(answered) = asked.join_next().await {
                found.push(answered.unwrap_or(Err(NodeError::Abandoned))?);
            }
        }
        Ok(found)
    }
}

/// The fence in a stored value.
fn fence_of(value: &[u8]) -> Fence {
    StoredLock::parse(value).map_or(Fence::NONE, |stored| stored.fence)
}
