//! What each command does to the store of a cluster. Every decision is one transaction.
//!
//! A name has a key for each holder, which ends with a lease, and the counter of its fences, which ends long
//! after the last lock. A lease ends no earlier than its ttl after it was granted, whichever member leads the
//! cluster; extending means a newer lease under the same key.

use crate::context::clock::Clock;
use crate::context::entropy::Entropy;
use crate::node::engine::batch::Urgency;
use crate::node::engine::{Failure, Limits};
use crate::node::etcd::client::api::Api;
use crate::node::etcd::client::errors::{CallError, protocol};
use crate::node::etcd::client::messages::{Entry, StatusResponse, TxnResponse};
use crate::node::etcd::client::txn::{
    Txn, are_free, count, delete, is_above, is_free, is_unchanged, put, read,
};
use crate::node::etcd::fence_leases::FenceLeases;
use crate::node::etcd::keys::{Entries, Held, Keys, not_held};
use crate::node::etcd::leases::Leases;
use crate::node::etcd::refused_names::RefusedNames;
use crate::node::etcd::watch::Watches;
use crate::node::server_text::server_text;
use crate::node::{Acquire, AcquireKind, Command, Denied, Done, Names, NodeError, Reply};
use quorlock_core::{Fence, Mode, Name, Token};
use std::sync::Arc;
use std::time::Duration;

/// How often a change is tried while other clients change the lock first.
pub(crate) const MAX_TRIES: usize = 16;
/// The most shared holders of one name.
const MAX_READERS: usize = 10_000;
/// The part of a second that etcd cuts off when it reports how long a lease lasts is less than this.
const SECOND: Duration = Duration::from_secs(1);
/// As many digits as the highest fence has, so that counters are ordered as texts, too.
const DIGITS: usize = 16;
/// How much longer than a lease of locks the mark of an undone attempt is kept: an acquire that comes later
/// finds that its lease has ended.
const UNDONE_MARGIN: Duration = Duration::from_secs(60);

/// The store of one cluster.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) api: Arc<Api>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) leases: Leases,
    pub(crate) counters: FenceLeases,
    pub(crate) refused: RefusedNames,
    pub(crate) watches: Watches,
    /// What all keys begin with.
    pub(crate) prefix: String,
    pub(crate) limits: Limits,
}

impl Store {
    pub(crate) fn keys(&self, name: &Name) -> Keys {
        Keys::new(&self.prefix, name)
    }

    pub(crate) async fn execute_command(&self, command: &Command) -> Result<Reply, Failure> {
        self.api.check_members(self.limits.caller).await.map_err(Failure::Unsent)?;
        let keys = self.keys(command.name());
        let reply = match command {
            Command::Acquire(acquire) => return self.acquire(&keys, acquire).await,
            Command::Stamp { token, at_least, .. } => self.stamp(&keys, token, *at_least).await,
            Command::Extend { token, ttl, mode, .. } => self.extend(&keys, token, *ttl, *mode).await,
            Command::Downgrade { token, at_most, fence, .. } => {
                self.downgrade(&keys, token, (*at_most, *fence)).await
            }
            Command::Release { token, may_be_shared, .. } => self.release(&keys, token, *may_be_shared).await,
            Command::HoldOffReaders { ttl, .. } => self.hold_off_readers(&keys, *ttl).await,
            Command::Inspect { .. } => self.inspect(&keys).await,
            Command::Slots { count, record, .. } => self.slots(&keys, *count, *record).await,
        };
        Ok(reply?)
    }

    /// Frees the name if `token` holds it, and leaves a mark with which an acquire that arrives later is
    /// refused.
    pub(crate) async fn undo_attempt(&self, name: &Name, token: &Token) -> Result<Reply, NodeError> {
        self.api.check_members(self.limits.caller).await?;
        let keys = self.keys(name);
        let lease = self.lease(2 * self.limits.longest_ttl + UNDONE_MARGIN).await?;
        let mark = put(&keys.undone(token), b"", lease);
        let answer = self.commit(&keys, frees(&keys, token).then(mark), Urgency::InAnyCase).await?;
        self.released(&keys, answer.deleted() > 0).await
    }

    /// The names that are held.
    pub(crate) async fn held_names(&self) -> Result<Names, NodeError> {
        self.api.check_members(self.limits.caller).await?;
        let all = Keys::all_locks(&self.prefix);
        let (keys, are_all) = self.api.keys(all.as_bytes(), Names::MOST).await?;
        // What is no name was not written by us.
        let names = Names::new(keys.iter().filter_map(|key| Keys::name_of(&self.prefix, key)));
        Ok(if are_all { names } else { names.incomplete() })
    }

    pub(crate) async fn status(&self) -> Result<StatusResponse, NodeError> {
        self.api.check_members(self.limits.caller).await?;
        Ok(self.api.status().await?)
    }

    async fn acquire(&self, keys: &Keys, acquire: &Acquire) -> Result<Reply, Failure> {
        match acquire.kind {
            AcquireKind::Vote => self.vote(keys, acquire).await,
            AcquireKind::Upgrade => Ok(self.upgrade(keys, acquire).await?),
            AcquireKind::Repair => {
                Err(Failure::Unsent(NodeError::Server { message: "a cluster needs no repair".into() }))
            }
        }
    }

    async fn vote(&self, keys: &Keys, acquire: &Acquire) -> Result<Reply, Failure> {
        let unsent = |error: CallError| Failure::Unsent(error.into());
        // A name that was not available may still be held: a read costs the cluster less than a change that
        // is refused. The counter need not rise for the clients that lose: there are no other nodes on which
        // they might win.
        if self.refused.contains(&acquire.name)
            && !self.is_available(keys, acquire.mode).await.map_err(unsent)?
        {
            return Ok(Reply::Denied(Denied::Taken));
        }
        let counters = self.lease_to_raise(keys, acquire.proposal).await.map_err(unsent)?;
        let lease = self.lease(acquire.ttl).await.map_err(unsent)?;
        let hold = keys.hold(acquire.mode, &acquire.token);
        let txn = Txn::default().when(is_free(&keys.undone(&acquire.token)));
        let txn = match acquire.mode {
            Mode::Exclusive => txn.when(are_free(&keys.holders())),
            Mode::Shared => {
                txn.when(are_free(&keys.exclusive())).when(is_free(&keys.writer)).when(is_free(&hold))
            }
        };
        let mut txn = with_raise(txn, keys, acquire.proposal, counters);
        if acquire.mode == Mode::Shared {
            txn = txn.then(count(&keys.holders()));
        }
        let txn = txn.then(put(&hold, acquire.value().as_bytes(), lease)).otherwise(read(&hold));
        let answer = self.commit(keys, txn, Urgency::WhileAwaited).await?;
        if !answer.succeeded && answer.read(0).is_some() {
            let message = "this attempt has the name already".into();
            return Err(Failure::Unknown(NodeError::Server { message }));
        }
        if !answer.succeeded {
            self.refused.insert(&acquire.name);
            return Ok(Reply::Denied(Denied::Taken));
        }
        self.refused.remove(&acquire.name);
        if acquire.mode == Mode::Shared && answer.count(usize::from(counters.is_some())) >= MAX_READERS {
            self.api.delete(&hold).await.map_err(|error| Failure::Unknown(error.into()))?;
            let message = format!("{MAX_READERS} clients share the name already").into();
            return Err(Failure::Unsent(NodeError::Server { message }));
        }
        Ok(raised(&answer, counters)?)
    }

    /// Whether no other client has the name, or is to have it first.
    async fn is_available(&self, keys: &Keys, mode: Mode) -> Result<bool, CallError> {
        let reads = match mode {
            Mode::Exclusive => Txn::default().then(count(&keys.holders())),
            Mode::Shared => Txn::default().then(count(&keys.exclusive())).then(read(&keys.writer)),
        };
        let answer = self.api.execute(reads).await?;
        Ok(answer.count(0) == 0 && answer.read(1).is_none())
    }

    async fn stamp(&self, keys: &Keys, token: &Token, at_least: Fence) -> Result<Reply, NodeError> {
        for _ in 0..MAX_TRIES {
            let entries = self.read_entries(keys, token).await?;
            let held = match entries.held() {
                Ok(Held { entry, .. }) => entry,
                Err(denied) => return Ok(Reply::Denied(denied)),
            };
            let above = counter_in(&entries)?.map_or(Some(at_least), Fence::next);
            let Some(to) = above.map(|above| above.max(at_least)) else {
                return Err(NodeError::Server {
                    message: "the fence counter of this name is used up".into(),
                });
            };
            let counters = self.counter_lease(keys).await?;
            let counter = entries.counter.as_ref().map_or(0, |entry| entry.mod_revision);
            let txn = Txn::default()
                .when(is_unchanged(&held.key, held.mod_revision))
                .when(is_unchanged(&keys.counter, counter))
                .then(put(&held.key, &stamped(&held.value, to), held.lease))
                .then(put(&keys.counter, digits(to).as_bytes(), counters));
            if self.commit(keys, txn, Urgency::WhileAwaited).await?.succeeded {
                return Ok(Reply::Done(Done::Stamped { to }));
            }
        }
        Err(conflict())
    }

    async fn extend(
        &self,
        keys: &Keys,
        token: &Token,
        ttl: Duration,
        mode: Mode,
    ) -> Result<Reply, NodeError> {
        for _ in 0..MAX_TRIES {
            let entries = self.read_entries(keys, token).await?;
            let held = match entries.held() {
                // A shared hold may still be exclusive, because its downgrade failed; not the other way round.
                Ok(held) if mode == Mode::Exclusive && held.mode == Mode::Shared => {
                    return Ok(Reply::Denied(Denied::Gone));
                }
                Ok(Held { entry, .. }) => entry,
                Err(denied) => return Ok(Reply::Denied(denied)),
            };
            let lease = self.longer_lease(&held, ttl).await?;
            let mut txn = Txn::default().when(is_unchanged(&held.key, held.mod_revision)).then(put(
                &held.key,
                &held.value,
                lease,
            ));
            // A counter must outlive a lock that is held for weeks.
            if let Some(counter) = &entries.counter {
                let counters = self.counter_lease(keys).await?;
                if counter.lease != counters {
                    txn = txn.when(is_unchanged(&keys.counter, counter.mod_revision)).then(put(
                        &keys.counter,
                        &counter.value,
                        counters,
                    ));
                }
            }
            if self.commit(keys, txn, Urgency::WhileAwaited).await?.succeeded {
                return Ok(Reply::Done(Done::Plain));
            }
        }
        Err(conflict())
    }

    /// No comparison is needed: the key of a hold has its token.
    async fn release(&self, keys: &Keys, token: &Token, may_be_shared: bool) -> Result<Reply, NodeError> {
        let is_released = if may_be_shared {
            self.commit(keys, frees(keys, token), Urgency::InAnyCase).await?.deleted() > 0
        } else {
            self.api.delete(&keys.hold(Mode::Exclusive, token)).await?
        };
        self.released(keys, is_released).await
    }

    async fn released(&self, keys: &Keys, is_released: bool) -> Result<Reply, NodeError> {
        if is_released {
            return Ok(Reply::Done(Done::Plain));
        }
        let holders = self.api.execute(Txn::default().then(count(&keys.exclusive()))).await?;
        Ok(Reply::Denied(not_held(holders.count(0) > 0)))
    }

    /// A lease for a lock that lasts for `ttl` from now on.
    pub(crate) async fn lease(&self, ttl: Duration) -> Result<i64, CallError> {
        self.leases.lease(&self.api, ttl, self.clock.as_ref(), self.entropy.as_ref()).await
    }

    /// A lease for `held` that lasts for `ttl`, and never for less than was promised before.
    pub(crate) async fn longer_lease(&self, held: &Entry, ttl: Duration) -> Result<i64, CallError> {
        // What a member reports about a lease only decides how long the next one is: only what a majority
        // agreed on can be relied on.
        let left = match self.leases.end_of(held.lease) {
            Some(end) => self.clock.now().until(end),
            None if held.lease == 0 => Duration::ZERO,
            None => self.api.left(held.lease).await? + SECOND,
        };
        self.lease(ttl.max(Leases::left_of_lock(held.lease, left))).await
    }

    /// Carries out a transaction of a name together with those of others.
    pub(crate) async fn commit(
        &self,
        keys: &Keys,
        txn: Txn,
        urgency: Urgency,
    ) -> Result<TxnResponse, CallError> {
        let answer = self.api.commit(txn, urgency).await;
        if answer.as_ref().is_err_and(CallError::is_lost_lease) {
            self.leases.forget();
            self.counters.forget(&keys.counter).await;
        }
        answer
    }

    /// The lease for a counter that is to be raised to `proposal`; `None` if there is to be no fence.
    pub(crate) async fn lease_to_raise(
        &self,
        keys: &Keys,
        proposal: Fence,
    ) -> Result<Option<i64>, CallError> {
        match proposal {
            Fence::NONE => Ok(None),
            _ => self.counter_lease(keys).await.map(Some),
        }
    }

    /// The lease for whatever is kept long after the last lock of a name.
    pub(crate) async fn counter_lease(&self, keys: &Keys) -> Result<i64, CallError> {
        self.counters.lease(&self.api, &keys.counter, self.clock.as_ref(), self.entropy.as_ref()).await
    }

    /// Reads the keys that an attempt needs at one moment.
    pub(crate) async fn read_entries(&self, keys: &Keys, token: &Token) -> Result<Entries, CallError> {
        let reads = Txn::default()
            .then(read(&keys.hold(Mode::Exclusive, token)))
            .then(read(&keys.hold(Mode::Shared, token)))
            .then(read(&keys.counter))
            .then(count(&keys.holders()))
            .then(count(&keys.exclusive()));
        let answer = self.api.execute(reads).await?;
        let read = |at| answer.read(at).cloned();
        Ok(Entries {
            exclusive: read(0),
            shared: read(1),
            counter: read(2),
            holders: answer.count(3),
            is_exclusive: answer.count(4) > 0,
        })
    }
}

/// Deletes whatever `token` holds.
fn frees(keys: &Keys, token: &Token) -> Txn {
    let holds = [Mode::Exclusive, Mode::Shared].map(|mode| keys.hold(mode, token));
    holds.iter().fold(Txn::default(), |txn, hold| txn.then(delete(hold)))
}

/// `txn`, which raises the counter first if it has a lease to raise it with.
pub(crate) fn with_raise(txn: Txn, keys: &Keys, proposal: Fence, lease: Option<i64>) -> Txn {
    match lease {
        None => txn,
        Some(lease) => txn.then(raise(&keys.counter, proposal, lease).into_step()),
    }
}

/// The reply to an acquire that took the name with a transaction of [`with_raise`].
pub(crate) fn raised(answer: &TxnResponse, lease: Option<i64>) -> Result<Reply, NodeError> {
    if lease.is_none() {
        return Ok(Reply::Done(Done::Raised));
    }
    let raise = answer.inner(0).ok_or_else(|| protocol("a transaction lacks a part of its answer"))?;
    if !raise.succeeded {
        return Ok(Reply::Done(Done::Raised));
    }
    Ok(Reply::Done(Done::Unraised { counter: raise.read(0).map(counter_of).transpose()? }))
}

/// Raises the counter to `proposal` if it is below; succeeds, and returns the counter, if it is not.
fn raise(counter: &[u8], proposal: Fence, lease: i64) -> Txn {
    let below = Fence::new(proposal.get().saturating_sub(1));
    Txn::default().when(is_above(counter, digits(below).as_bytes())).then(read(counter)).otherwise(put(
        counter,
        digits(proposal).as_bytes(),
        lease,
    ))
}

fn digits(fence: Fence) -> String {
    format!("{:0DIGITS$}", fence.get())
}

fn counter_in(entries: &Entries) -> Result<Option<Fence>, NodeError> {
    entries.counter.as_ref().map(counter_of).transpose()
}

pub(crate) fn counter_of(entry: &Entry) -> Result<Fence, NodeError> {
    let number = std::str::from_utf8(&entry.value).ok().filter(|text| text.len() == DIGITS);
    let number = number.and_then(|text| text.parse::<u64>().ok());
    number
        .and_then(|number| Fence::try_from(number).ok())
        .ok_or_else(|| protocol(format!("the counter `{}` holds no number of ours", server_text(&entry.key))))
}

/// `value` with another fence.
pub(crate) fn stamped(value: &[u8], fence: Fence) -> Vec<u8> {
    let mut parts = value.splitn(3, |byte| *byte == b' ');
    let (token, _, label) = (parts.next(), parts.next(), parts.next());
    let (token, label) = (token.unwrap_or_default(), label.unwrap_or_default());
    [token, b" ", fence.to_string().as_bytes(), b" ", label].concat()
}

pub(crate) fn conflict() -> NodeError {
    NodeError::Server { message: "others changed the lock again and again".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_ordered_as_texts_and_read_back() {
        let (low, high) = (digits(Fence::new(99)), digits(Fence::MAX));
        assert!(low < digits(Fence::new(100)) && low < high && high.len() == DIGITS);
        let entry = |value: &str| Entry { value: value.as_bytes().to_vec(), ..Entry::default() };
        assert_eq!(counter_of(&entry(&low)).unwrap(), Fence::new(99));
        assert_eq!(counter_of(&entry(&high)).unwrap(), Fence::MAX);
        for odd in ["", "99", "00000000000000x9", "9999999999999999"] {
            assert!(counter_of(&entry(odd)).is_err(), "{odd}");
        }
    }

    #[test]
    fn a_stamp_changes_the_fence_alone() {
        assert_eq!(
            stamped(b"token 5 ann@web 7 9 for a reason", Fence::new(12)),
            b"token 12 ann@web 7 9 for a reason"
        );
    }
}
