//! Commands that know of shared holders: upgrade, downgrade, holding readers off, and who holds a name.

use crate::node::engine::batch::Urgency;
use crate::node::etcd::client::errors::CallError;
use crate::node::etcd::client::messages::{Entry, TxnResponse};
use crate::node::etcd::client::txn::{Txn, are_unchanged, delete, is_unchanged, put, read, read_oldest};
use crate::node::etcd::keys::{Held, Keys};
use crate::node::etcd::leases::Leases;
use crate::node::etcd::lock_store::{MAX_TRIES, Store, conflict, counter_of, raised, stamped, with_raise};
use crate::node::{Acquire, Content, Denied, Done, NodeError, Reply, View};
use quorlock_core::{Fence, Mode, StoredLock, Token};
use std::collections::{BTreeMap, BTreeSet};
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
        let held = match entries.held() {
            Ok(_) if entries.holders > 1 => return Ok(Reply::Denied(Denied::Taken)),
            Ok(held) => held,
            Err(denied) => return Ok(Reply::Denied(denied)),
        };
        let counters = self.lease_to_raise(keys, acquire.proposal).await?;
        let lease = self.longer_lease(&held.entry, acquire.ttl).await?;
        // No transaction writes two holders of one name, so no other client has this revision.
        let alone = are_unchanged(&keys.holders(), held.entry.mod_revision);
        let mut txn = with_raise(Txn::default().when(alone), keys, acquire.proposal, counters);
        if held.mode == Mode::Shared {
            txn = txn.then(delete(&held.entry.key));
        }
        let exclusive = keys.hold(Mode::Exclusive, &acquire.token);
        let txn = txn.then(put(&exclusive, acquire.value().as_bytes(), lease));
        let answer = self.commit(keys, txn, Urgency::WhileAwaited).await?;
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
        (at_most, fence): (Fence, Fence),
    ) -> Result<Reply, NodeError> {
        for _ in 0..MAX_TRIES {
            let Held { entry, mode } = match self.read_entries(keys, token).await?.held() {
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
            let shared = keys.hold(Mode::Shared, token);
            txn = txn.then(put(&shared, &stamped(&entry.value, fence), entry.lease));
            if self.commit(keys, txn, Urgency::WhileAwaited).await?.succeeded {
                return Ok(Reply::Done(Done::Plain));
            }
        }
        Err(conflict())
    }

    /// Refuses new readers for `ttl`, or somewhat longer.
    pub(crate) async fn hold_off_readers(&self, keys: &Keys, ttl: Duration) -> Result<Reply, NodeError> {
        let txn = Txn::default();
        let txn = if ttl.is_zero() {
            txn.then(delete(&keys.writer))
        } else {
            txn.then(put(&keys.writer, b"", self.lease(ttl.min(MAX_HOLD_OFF)).await?))
        };
        self.commit(keys, txn, Urgency::WhileAwaited).await?;
        Ok(Reply::Done(Done::Plain))
    }

    pub(crate) async fn inspect(&self, keys: &Keys) -> Result<Reply, NodeError> {
        let reads = Txn::default()
            .then(read(&keys.counter))
            .then(read_oldest(&keys.exclusive(), 1))
            .then(read_oldest(&keys.holders(), View::MAX_READERS));
        let answer = self.api.execute(reads).await?;
        let counter = answer.read(0).map(counter_of).transpose()?;
        let (content, left) = self.content(&answer).await?;
        Ok(Reply::Done(Done::Seen(Box::new(View { content, left, counter }))))
    }

    /// Who holds the name, and for how long.
    async fn content(&self, answer: &TxnResponse) -> Result<(Content, Option<Duration>), NodeError> {
        if let Some(holder) = answer.read(1) {
            let left = self.times_left(std::slice::from_ref(holder)).await?;
            return Ok((Content::from_value(&holder.value), left.get(&holder.lease).copied()));
        }
        let readers = answer.read_all(2);
        if readers.is_empty() {
            return Ok((Content::Free, None));
        }
        let left = self.times_left(readers).await?;
        let left_of = |reader: &Entry| left.get(&reader.lease).copied();
        let mut readers: Vec<&Entry> = readers.iter().collect();
        readers.sort_by_key(|reader| (left_of(reader), reader.mod_revision));
        let longest = readers.last().and_then(|reader| left_of(reader));
        let stored = readers.iter().filter_map(|reader| StoredLock::parse(&reader.value));
        Ok((Content::Shared(stored.collect()), longest))
    }

    /// How long locks with the leases of `holders` last, as far as one member reports it.
    async fn times_left(&self, holders: &[Entry]) -> Result<BTreeMap<i64, Duration>, NodeError> {
        let leases: BTreeSet<i64> =
            holders.iter().map(|holder| holder.lease).filter(|lease| *lease != 0).collect();
        let leases: Vec<i64> = leases.into_iter().collect();
        let mut found = BTreeMap::new();
        for some in leases.chunks(AT_ONCE) {
            let mut asked = JoinSet::new();
            for lease in some {
                let (api, lease) = (self.api.clone(), *lease);
                asked.spawn(async move { Ok::<_, CallError>((lease, api.left(lease).await?)) });
            }
            while let Some(answered) = asked.join_next().await {
                let (lease, left) = answered.map_err(|_| NodeError::Abandoned)??;
                found.insert(lease, Leases::left_of_lock(lease, left));
            }
        }
        Ok(found)
    }
}

/// The fence in a stored value.
fn fence_of(value: &[u8]) -> Fence {
    StoredLock::parse(value).map_or(Fence::NONE, |stored| stored.fence)
}
