//! What each command does to the store of a cluster. Every decision is one transaction.
//!
//! A name has a key for its exclusive holder or one for each shared holder, each of which ends with a lease
//! of its own, and the counter of its fences, which ends long after the last lock. A lease ends no earlier
//! than its ttl after it was granted, whichever member leads the cluster; extending means a new lease under
//! the same key.

use crate::context::clock::Clock;
use crate::context::entropy::{self, Entropy};
use crate::context::mutex::Mutex;
use crate::node::etcd::client::api::{Api, Status, protocol};
use crate::node::etcd::client::json::{
    Answer, Entry, Txn, are_free, count, delete, is_above, is_free, is_unchanged, put, read,
};
use crate::node::etcd::fence_leases::FenceLeases;
use crate::node::etcd::keys::{Entries, Held, Keys, positive};
use crate::node::server_text::server_text;
use crate::node::{Acquire, AcquireKind, Command, Denied, Done, Names, NodeError, Reply};
use quorlock_core::{Fence, Mode, Name, Token};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::TaskTracker;

/// How often a change is tried while other clients change the lock first.
pub(crate) const MAX_TRIES: usize = 16;
/// The most shared holders of one name.
const MAX_READERS: usize = 10_000;
/// How many refused attempts are remembered until they are undone.
const MAX_REFUSED: usize = 512;
/// The part of a second that etcd cuts off when it reports how long a lease lasts is less than this.
const SECOND: Duration = Duration::from_secs(1);
/// As many digits as the highest fence has, so that counters are ordered as texts, too.
const DIGITS: usize = 16;

/// The store of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    pub(crate) api: Arc<Api>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: FenceLeases,
    /// What all keys begin with.
    pub(crate) prefix: String,
    /// Name and token of attempts that were refused lately. The names of a set have the same token.
    pub(crate) refused: Arc<Mutex<VecDeque<(Name, Token)>>>,
    /// Leases that are being ended.
    pub(crate) ending: TaskTracker,
    /// How long a caller waits for an answer.
    pub(crate) limit: Duration,
    /// No lock lives longer without an extension.
    pub(crate) longest_ttl: Duration,
}

impl Store {
    pub(crate) fn keys(&self, name: &Name) -> Keys {
        Keys::new(&self.prefix, name)
    }

    pub(crate) async fn execute(&self, command: &Command) -> Result<Reply, NodeError> {
        let result = self.try_execute(command).await;
        if let Err(error) = &result
            && error.to_string().contains("lease not found")
        {
            self.counters.forget(&self.keys(command.name()).counter).await;
        }
        result
    }

    async fn try_execute(&self, command: &Command) -> Result<Reply, NodeError> {
        if let Command::Release { name, token, .. } = command
            && self.was_refused(name, token)
        {
            return Ok(Reply::Denied(Denied::Taken));
        }
        if let Err(error) = self.api.check_members(self.limit).await {
            self.record_unsent(command);
            return Err(error);
        }
        let keys = self.keys(command.name());
        match command {
            Command::Acquire(acquire) => self.acquire(&keys, acquire).await,
            Command::Stamp { token, at_least, .. } => self.stamp(&keys, token, *at_least).await,
            Command::Extend { token, ttl, mode, .. } => self.extend(&keys, token, *ttl, *mode).await,
            Command::Downgrade { token, at_most, .. } => self.downgrade(&keys, token, *at_most).await,
            Command::Release { token, .. } => self.release(&keys, token).await,
            Command::HoldOffReaders { ttl, .. } => self.hold_off_readers(&keys, *ttl).await,
            Command::Inspect { .. } => self.inspect(&keys).await,
            Command::Slots { count, replace, .. } => self.slots(&keys, *count, *replace).await,
        }
    }

    /// The names that are held.
    pub(crate) async fn names(&self) -> Result<Names, NodeError> {
        self.api.check_members(self.limit).await?;
        let all = Keys::all_locks(&self.prefix);
        let (keys, are_all) = self.api.keys(all.as_bytes(), Names::MOST).await?;
        // What is no name was not written by us.
        let names = Names::new(keys.iter().filter_map(|key| Keys::name_of(&self.prefix, key)));
        Ok(if are_all { names } else { names.incomplete() })
    }

    pub(crate) async fn status(&self) -> Result<Status, NodeError> {
        self.api.check_members(self.limit).await?;
        self.api.status().await
    }

    async fn acquire(&self, keys: &Keys, acquire: &Acquire) -> Result<Reply, NodeError> {
        self.forget_refused(&acquire.name, &acquire.token);
        match acquire.kind {
            AcquireKind::Vote => self.vote(keys, acquire).await,
            AcquireKind::Upgrade => self.upgrade(keys, acquire).await,
            AcquireKind::Repair => Err(NodeError::Server { message: "a cluster needs no repair".into() }),
        }
    }

    async fn vote(&self, keys: &Keys, acquire: &Acquire) -> Result<Reply, NodeError> {
        let counters = match self.prepare(keys, acquire).await {
            Ok(Some(Prepared { counters })) => counters,
            // No lease, and nothing written, for a lock that is not available. The counter need not rise
            // for the clients that lose either: there are no other nodes on which they might win.
            refused => {
                self.record_refused(&acquire.name, acquire.token);
                return refused.map(|_| Reply::Denied(Denied::Taken));
            }
        };
        // The release computes the same number without an answer to the acquire. Ending this lease makes
        // sure that no acquire which is still on its way takes effect later.
        let lease = keys.lease(&acquire.token);
        self.api.grant(lease, acquire.ttl).await?;
        let txn = with_raise(Txn::default(), keys, acquire.proposal, counters);
        let txn = match acquire.mode {
            Mode::Exclusive => txn.when(are_free(&keys.holders())),
            Mode::Shared => txn.when(is_free(&keys.lock)).when(is_free(&keys.writer)),
        };
        let hold = keys.hold(acquire.mode, &acquire.token);
        let answer = self.api.execute(&txn.then(put(&hold, acquire.value().as_bytes(), lease))).await?;
        if !answer.succeeded {
            self.end(lease);
            self.record_refused(&acquire.name, acquire.token);
            return Ok(Reply::Denied(Denied::Taken));
        }
        raised(&answer, counters)
    }

    /// What an acquire needs before it writes anything; `None` if another client has the lock, or is to have
    /// it first.
    async fn prepare(&self, keys: &Keys, acquire: &Acquire) -> Result<Option<Prepared>, NodeError> {
        let reads =
            Txn::default().then(count(&keys.holders())).then(read(&keys.lock)).then(read(&keys.writer));
        let answer = self.api.execute(&reads).await?;
        let is_available = match acquire.mode {
            Mode::Exclusive => answer.count(0) == 0,
            Mode::Shared => answer.read(1).is_none() && answer.read(2).is_none(),
        };
        if !is_available {
            return Ok(None);
        }
        if answer.count(0) >= MAX_READERS {
            let message = format!("{MAX_READERS} clients share the name already").into();
            return Err(NodeError::Server { message });
        }
        Ok(Some(Prepared { counters: self.lease_to_raise(keys, acquire.proposal).await? }))
    }

    async fn stamp(&self, keys: &Keys, token: &Token, at_least: Fence) -> Result<Reply, NodeError> {
        for _ in 0..MAX_TRIES {
            let entries = self.read_entries(keys, token).await?;
            let held = match entries.held_by(token) {
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
            let txn = Txn::default()
                .when(is_unchanged(&held.key, held.mod_revision))
                .when(is_unchanged(
                    &keys.counter,
                    entries.counter.as_ref().map_or(0, |entry| entry.mod_revision),
                ))
                .then(put(&held.key, &stamped(&held.value, to), held.lease))
                .then(put(&keys.counter, digits(to).as_bytes(), counters));
            if self.api.execute(&txn).await?.succeeded {
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
            let held = match entries.held_by(token) {
                // A shared hold may still be exclusive, because its downgrade failed; not the other way round.
                Ok(held) if mode == Mode::Exclusive && held.mode == Mode::Shared => {
                    return Ok(Reply::Denied(Denied::Gone));
                }
                Ok(Held { entry, .. }) => entry,
                Err(denied) => return Ok(Reply::Denied(denied)),
            };
            let lease = self.grant_longer(&held, ttl).await?;
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
            let is_done = self.api.execute(&txn).await?.succeeded;
            self.end(if is_done { held.lease } else { lease });
            if is_done {
                return Ok(Reply::Done(Done::Plain));
            }
        }
        Err(conflict())
    }

    async fn release(&self, keys: &Keys, token: &Token) -> Result<Reply, NodeError> {
        for _ in 0..MAX_TRIES {
            let held = match self.read_entries(keys, token).await?.held_by(token) {
                Ok(Held { entry, .. }) => entry,
                Err(denied) => {
                    // An acquire that was given up may still be on its way, and then finds that its lease
                    // ended.
                    self.api.revoke(keys.lease(token)).await?;
                    return Ok(Reply::Denied(denied));
                }
            };
            let same = is_unchanged(&held.key, held.mod_revision);
            if self.api.execute(&Txn::default().when(same).then(delete(&held.key))).await?.succeeded {
                self.end(held.lease);
                return Ok(Reply::Done(Done::Plain));
            }
        }
        Err(conflict())
    }

    /// Grants a new lease for `held`, for `ttl` and never for less than before.
    pub(crate) async fn grant_longer(&self, held: &Entry, ttl: Duration) -> Result<i64, NodeError> {
        // Always a new lease, even if the old one is reported to last: only what a majority agreed on can be
        // relied on.
        let left = if held.lease == 0 { Duration::ZERO } else { self.api.left(held.lease).await? };
        let lease = self.new_lease();
        self.api.grant(lease, ttl.max(left + SECOND)).await?;
        Ok(lease)
    }

    /// The lease for a counter that is to be raised to `proposal`; `None` if there is to be no fence.
    pub(crate) async fn lease_to_raise(
        &self,
        keys: &Keys,
        proposal: Fence,
    ) -> Result<Option<i64>, NodeError> {
        match proposal {
            Fence::NONE => Ok(None),
            _ => self.counter_lease(keys).await.map(Some),
        }
    }

    /// The lease for whatever is kept long after the last lock of a name.
    pub(crate) async fn counter_lease(&self, keys: &Keys) -> Result<i64, NodeError> {
        self.counters.lease(&self.api, &keys.counter, self.clock.as_ref(), self.entropy.as_ref()).await
    }

    /// Reads the keys that an attempt needs at one moment.
    pub(crate) async fn read_entries(&self, keys: &Keys, token: &Token) -> Result<Entries, NodeError> {
        let reads = Txn::default()
            .then(read(&keys.lock))
            .then(read(&keys.shared(token)))
            .then(read(&keys.counter))
            .then(count(&keys.holders()));
        let answer = self.api.execute(&reads).await?;
        let read = |at| answer.read(at).cloned();
        Ok(Entries { lock: read(0), shared: read(1), counter: read(2), holders: answer.count(3) })
    }

    /// Ends a lease that nothing needs any more, without waiting for it: if that fails, its ttl ends it.
    pub(crate) fn end(&self, lease: i64) {
        if lease != 0 {
            let api = self.api.clone();
            self.ending.spawn(async move { api.revoke(lease).await });
        }
    }

    /// Records an acquire that was never sent: it has nothing to undo.
    pub(crate) fn record_unsent(&self, command: &Command) {
        if let Command::Acquire(acquire) = command
            // The token of a repair or an upgrade is that of a lock which is held.
            && acquire.kind == AcquireKind::Vote
        {
            self.record_refused(&acquire.name, acquire.token);
        }
    }

    /// Records an attempt that was refused for sure: it left nothing to undo.
    fn record_refused(&self, name: &Name, token: Token) {
        let mut refused = self.refused.lock();
        refused.push_back((name.clone(), token));
        if refused.len() > MAX_REFUSED {
            refused.pop_front();
        }
    }

    fn forget_refused(&self, name: &Name, token: &Token) {
        self.refused.lock().retain(|(of, refused)| (of, refused) != (name, token));
    }

    pub(crate) fn was_refused(&self, name: &Name, token: &Token) -> bool {
        self.refused.lock().iter().any(|(of, refused)| (of, refused) == (name, token))
    }

    pub(crate) fn new_lease(&self) -> i64 {
        positive(entropy::number(self.entropy.as_ref()))
    }
}

/// What an acquire knows before it writes anything.
struct Prepared {
    /// The lease of the counter, if there is to be a fence.
    counters: Option<i64>,
}

/// `txn`, which raises the counter first if it has a lease to raise it with.
pub(crate) fn with_raise(txn: Txn, keys: &Keys, proposal: Fence, lease: Option<i64>) -> Txn {
    match lease {
        None => txn,
        Some(lease) => txn.then(raise(&keys.counter, proposal, lease).into_step()),
    }
}

/// The reply to an acquire that took the name with a transaction of [`with_raise`].
pub(crate) fn raised(answer: &Answer, lease: Option<i64>) -> Result<Reply, NodeError> {
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
fn stamped(value: &[u8], fence: Fence) -> Vec<u8> {
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
