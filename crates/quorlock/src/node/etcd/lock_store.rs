//! What each command does to the store of a cluster. Every decision is one transaction.
//!
//! A name has two keys: the lock, which ends with a lease of its own, and the counter of its fences,
//! which ends long after the last lock. A lease ends no earlier than its ttl after it was granted,
//! whichever member leads the cluster; extending means a new lease under the same lock.

use crate::context::clock::Clock;
use crate::context::entropy::{self, Entropy};
use crate::context::mutex::Mutex;
use crate::node::etcd::client::api::{Api, Status, protocol};
use crate::node::etcd::client::json::{Entry, Txn, delete, is_above, is_free, is_unchanged, put, read};
use crate::node::etcd::fence_leases::FenceLeases;
use crate::node::server_text::server_text;
use crate::node::{Acquire, Command, Content, Denied, Done, Names, NodeError, Reply, View};
use quorlock_core::hash::fnv1a;
use quorlock_core::{Fence, Name, Token};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::TaskTracker;

/// How often a change is tried while other clients change the lock first.
const MAX_TRIES: usize = 16;
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
    /// The tokens of attempts that were refused lately.
    pub(crate) refused: Arc<Mutex<VecDeque<Token>>>,
    /// Leases that are being ended.
    pub(crate) ending: TaskTracker,
    /// How long a caller waits for an answer.
    pub(crate) limit: Duration,
    /// No lock lives longer without an extension.
    pub(crate) longest_ttl: Duration,
}

/// The keys of one name.
struct Keys {
    lock: Vec<u8>,
    counter: Vec<u8>,
}

impl Keys {
    /// The lease of the attempt that has `token`: a number that no other attempt has.
    fn lease(&self, token: &Token) -> i64 {
        positive(fnv1a(&[&token.as_bytes()[..], &self.lock].concat()))
    }
}

impl Store {
    /// The key of the lock `name`.
    pub(crate) fn lock_key(&self, name: &Name) -> Vec<u8> {
        format!("{}/lock/{name}", self.prefix).into_bytes()
    }

    fn keys(&self, name: &Name) -> Keys {
        Keys { lock: self.lock_key(name), counter: format!("{}/fence/{name}", self.prefix).into_bytes() }
    }

    /// The lease of the attempt for `name` that has `token`.
    #[cfg(test)]
    pub(crate) fn lease(&self, name: &Name, token: &Token) -> i64 {
        self.keys(name).lease(token)
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
        if let Command::Release { token, .. } = command
            && self.was_refused(token)
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
            Command::Extend { token, ttl, .. } => self.extend(&keys, token, *ttl).await,
            Command::Release { token, .. } => self.release(&keys, token).await,
            Command::Inspect { .. } => self.inspect(&keys).await,
            Command::Downgrade { .. } | Command::HoldOffReaders { .. } | Command::Slots { .. } => {
                Err(NodeError::Server { message: "not on etcd yet".into() })
            }
        }
    }

    /// The names that are held.
    pub(crate) async fn names(&self) -> Result<Names, NodeError> {
        self.api.check_members(self.limit).await?;
        let prefix = format!("{}/lock/", self.prefix);
        let (keys, are_all) = self.api.keys(prefix.as_bytes(), Names::MOST).await?;
        let name = |key: Vec<u8>| {
            let key = String::from_utf8(key).ok()?;
            // What is no name was not written by us.
            Name::from_store(key.strip_prefix(&prefix)?).ok()
        };
        let names = Names::new(keys.into_iter().filter_map(name));
        Ok(if are_all { names } else { names.incomplete() })
    }

    pub(crate) async fn status(&self) -> Result<Status, NodeError> {
        self.api.check_members(self.limit).await?;
        self.api.status().await
    }

    async fn acquire(&self, keys: &Keys, acquire: &Acquire) -> Result<Reply, NodeError> {
        self.forget_refused(&acquire.token);
        if acquire.is_repair() {
            return Err(NodeError::Server { message: "a cluster needs no repair".into() });
        }
        let counters = match self.prepare(keys, acquire).await {
            Ok(Some(Prepared { counters })) => counters,
            // No lease, and nothing written, for a lock that is not available. The counter need not rise
            // for the clients that lose either: there are no other nodes on which they might win.
            refused => {
                self.record_refused(acquire.token);
                return refused.map(|_| Reply::Denied(Denied::Taken));
            }
        };
        // The release computes the same number without an answer to the acquire. Ending this lease makes
        // sure that no acquire which is still on its way takes effect later.
        let lease = keys.lease(&acquire.token);
        self.api.grant(lease, acquire.ttl).await?;
        let mut txn =
            Txn::default().when(is_free(&keys.lock)).then(put(&keys.lock, acquire.value().as_bytes(), lease));
        if let Some(counters) = counters {
            txn = txn.then(raise(&keys.counter, acquire.proposal, counters).into_step());
        }
        let answer = self.api.execute(&txn).await?;
        if !answer.succeeded {
            self.end(lease);
            self.record_refused(acquire.token);
            return Ok(Reply::Denied(Denied::Taken));
        }
        if counters.is_none() {
            return Ok(Reply::Done(Done::Raised));
        }
        let raised = answer.inner(1).ok_or_else(|| protocol("a transaction lacks a part of its answer"))?;
        if !raised.succeeded {
            return Ok(Reply::Done(Done::Raised));
        }
        Ok(Reply::Done(Done::Unraised { counter: raised.read(0).map(counter_of).transpose()? }))
    }

    /// What an acquire needs before it writes anything; `None` if another client has the lock.
    async fn prepare(&self, keys: &Keys, acquire: &Acquire) -> Result<Option<Prepared>, NodeError> {
        if self.api.read(&keys.lock).await?.is_some() {
            return Ok(None);
        }
        let counters = match acquire.proposal {
            Fence::NONE => None,
            _ => Some(self.counter_lease(keys).await?),
        };
        Ok(Some(Prepared { counters }))
    }

    async fn stamp(&self, keys: &Keys, token: &Token, at_least: Fence) -> Result<Reply, NodeError> {
        for _ in 0..MAX_TRIES {
            let entries = self.read_keys(keys).await?;
            let held = match entries.held_by(token) {
                Ok(held) => held,
                Err(denied) => return Ok(Reply::Denied(denied)),
            };
            let above = entries.counter()?.map_or(Some(at_least), Fence::next);
            let Some(to) = above.map(|above| above.max(at_least)) else {
                return Err(NodeError::Server {
                    message: "the fence counter of this name is used up".into(),
                });
            };
            let counters = self.counter_lease(keys).await?;
            let txn = Txn::default()
                .when(is_unchanged(&keys.lock, held.mod_revision))
                .when(is_unchanged(
                    &keys.counter,
                    entries.counter.as_ref().map_or(0, |entry| entry.mod_revision),
                ))
                .then(put(&keys.lock, &stamped(&held.value, to), held.lease))
                .then(put(&keys.counter, digits(to).as_bytes(), counters));
            if self.api.execute(&txn).await?.succeeded {
                return Ok(Reply::Done(Done::Stamped { to }));
            }
        }
        Err(conflict())
    }

    async fn extend(&self, keys: &Keys, token: &Token, ttl: Duration) -> Result<Reply, NodeError> {
        for _ in 0..MAX_TRIES {
            let entries = self.read_keys(keys).await?;
            let held = match entries.held_by(token) {
                Ok(held) => held,
                Err(denied) => return Ok(Reply::Denied(denied)),
            };
            // Always a new lease, even if the old one is reported to last: only what a majority agreed on
            // can be relied on.
            let left = if held.lease == 0 { Duration::ZERO } else { self.api.left(held.lease).await? };
            let lease = self.new_lease();
            self.api.grant(lease, ttl.max(left + SECOND)).await?;
            let mut txn = Txn::default().when(is_unchanged(&keys.lock, held.mod_revision)).then(put(
                &keys.lock,
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
            let held = match held_by(self.api.read(&keys.lock).await?, token) {
                Ok(held) => held,
                Err(denied) => {
                    // An acquire that was given up may still be on its way, and then finds that its lease
                    // ended.
                    self.api.revoke(keys.lease(token)).await?;
                    return Ok(Reply::Denied(denied));
                }
            };
            let same = is_unchanged(&keys.lock, held.mod_revision);
            if self.api.execute(&Txn::default().when(same).then(delete(&keys.lock))).await?.succeeded {
                self.end(held.lease);
                return Ok(Reply::Done(Done::Plain));
            }
        }
        Err(conflict())
    }

    async fn inspect(&self, keys: &Keys) -> Result<Reply, NodeError> {
        let entries = self.read_keys(keys).await?;
        let left = match entries.lock.as_ref().map_or(0, |entry| entry.lease) {
            0 => None,
            lease => Some(self.api.left(lease).await?),
        };
        let content = entries.lock.as_ref().map_or(Content::Free, |entry| Content::from_value(&entry.value));
        Ok(Reply::Done(Done::Seen(Box::new(View { content, left, counter: entries.counter()? }))))
    }

    async fn counter_lease(&self, keys: &Keys) -> Result<i64, NodeError> {
        self.counters.lease(&self.api, &keys.counter, self.clock.as_ref(), self.entropy.as_ref()).await
    }

    /// Reads both keys at one moment.
    async fn read_keys(&self, keys: &Keys) -> Result<Entries, NodeError> {
        let answer =
            self.api.execute(&Txn::default().then(read(&keys.lock)).then(read(&keys.counter))).await?;
        Ok(Entries { lock: answer.read(0).cloned(), counter: answer.read(1).cloned() })
    }

    /// Ends a lease that nothing needs any more, without waiting for it: if that fails, its ttl ends it.
    fn end(&self, lease: i64) {
        if lease != 0 {
            let api = self.api.clone();
            self.ending.spawn(async move { api.revoke(lease).await });
        }
    }

    /// Records an acquire that was never sent: it has nothing to undo.
    pub(crate) fn record_unsent(&self, command: &Command) {
        if let Command::Acquire(acquire) = command
            // The token of a repair is that of a lock which is held.
            && !acquire.is_repair()
        {
            self.record_refused(acquire.token);
        }
    }

    /// Records an attempt that was refused for sure: it left nothing to undo.
    fn record_refused(&self, token: Token) {
        let mut refused = self.refused.lock();
        refused.push_back(token);
        if refused.len() > MAX_REFUSED {
            refused.pop_front();
        }
    }

    fn forget_refused(&self, token: &Token) {
        self.refused.lock().retain(|refused| refused != token);
    }

    pub(crate) fn was_refused(&self, token: &Token) -> bool {
        self.refused.lock().contains(token)
    }

    fn new_lease(&self) -> i64 {
        positive(entropy::number(self.entropy.as_ref()))
    }
}

/// What an acquire knows before it writes anything.
struct Prepared {
    /// The lease of the counter, if there is to be a fence.
    counters: Option<i64>,
}

/// What is stored under both keys of a name.
struct Entries {
    lock: Option<Entry>,
    counter: Option<Entry>,
}

impl Entries {
    fn held_by(&self, token: &Token) -> Result<Entry, Denied> {
        held_by(self.lock.clone(), token)
    }

    fn counter(&self) -> Result<Option<Fence>, NodeError> {
        self.counter.as_ref().map(counter_of).transpose()
    }
}

fn held_by(lock: Option<Entry>, token: &Token) -> Result<Entry, Denied> {
    match lock {
        None => Err(Denied::Gone),
        Some(entry) if entry.value.split(|byte| *byte == b' ').next() != Some(token.as_bytes()) => {
            Err(Denied::Taken)
        }
        Some(entry) => Ok(entry),
    }
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

fn counter_of(entry: &Entry) -> Result<Fence, NodeError> {
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

/// A lease's number, which is above 0.
pub(crate) fn positive(random: u64) -> i64 {
    ((random >> 1) as i64).max(1)
}

fn conflict() -> NodeError {
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

    #[test]
    fn every_attempt_has_a_lease_of_its_own_above_zero() {
        let keys = |lock: &[u8]| Keys { lock: lock.to_vec(), counter: Vec::new() };
        let leases = [(b"a", 1), (b"a", 2), (b"b", 1)]
            .map(|(lock, token)| keys(lock).lease(&Token::from_random([token; 16])));
        assert!(leases[0] != leases[1] && leases[0] != leases[2] && leases.iter().all(|lease| *lease > 0));
        assert_eq!((positive(0), positive(u64::MAX)), (1, i64::MAX));
    }
}
