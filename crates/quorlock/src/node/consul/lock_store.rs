//! What each command does to the keys of a cluster. Every decision is one transaction.
//!
//! A name has a key for its exclusive holder or one for each shared holder, each of which is locked by a session and
//! deleted with it, and a record, which stays. Whoever takes a name replaces the record that it read, so two clients
//! that decide at the same moment cannot both succeed, and a decision that arrives after its undo fails.

use crate::context::clock::Clock;
use crate::context::entropy::{self, Entropy};
use crate::node::consul::client::api::{Api, Consistency, protocol};
use crate::node::consul::client::txn::{Content, Entry, Op, Outcome, Refusal};
use crate::node::consul::holds::{Hold, Holds, Records, StoredHold};
use crate::node::consul::keys::{Keys, Times, has_token};
use crate::node::consul::name_record::{NameRecord, ReadRecord};
use crate::node::consul::sessions::{Session, Sessions};
use crate::node::consul::sweep::Sweeper;
use crate::node::engine::{Failure, Limits};
use crate::node::{Acquire, AcquireKind, Command, Denied, Done, NodeError, Reply};
use quorlock_core::{Fence, Mode, Name, Token, Wall};
use std::sync::Arc;
use std::time::Duration;

/// How often a change is tried while other clients change the lock first.
pub(crate) const MAX_TRIES: usize = 16;
/// The most shared holders of one name.
const MAX_READERS: usize = 256;

/// The store of one cluster.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) api: Arc<Api>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) sessions: Sessions,
    pub(crate) holds: Holds,
    pub(crate) records: Records,
    pub(crate) sweeper: Arc<Sweeper>,
    /// What all keys begin with.
    pub(crate) prefix: String,
    pub(crate) limits: Limits,
}

/// What is stored for a name at one moment.
#[derive(Debug, Default)]
pub(crate) struct NameState {
    pub(crate) record: ReadRecord,
    pub(crate) lock: Option<Entry>,
    pub(crate) readers: Vec<Entry>,
}

/// The hold of one attempt, as it was read.
pub(crate) struct Held<'a> {
    pub(crate) entry: &'a Entry,
    pub(crate) mode: Mode,
}

impl NameState {
    /// The hold of `token`. Other shared holders do not keep a reader from getting its hold back.
    pub(crate) fn held_by(&self, token: &Token) -> Result<Held<'_>, Denied> {
        let is_ours = |entry: &&Entry| has_token(entry, token);
        let lock = self.lock.as_ref().filter(is_ours).map(|entry| Held { entry, mode: Mode::Exclusive });
        let reader = || self.readers.iter().find(is_ours).map(|entry| Held { entry, mode: Mode::Shared });
        lock.or_else(reader).ok_or(if self.lock.is_some() { Denied::Taken } else { Denied::Gone })
    }

    /// How many clients hold the name.
    pub(crate) fn holders(&self) -> usize {
        self.readers.len() + usize::from(self.lock.is_some())
    }

    fn admits(&self, acquire: &Acquire, now: Wall) -> bool {
        match acquire.mode {
            Mode::Exclusive => self.holders() == 0,
            Mode::Shared => self.lock.is_none() && !self.record.record.holds_off_readers(now),
        }
    }
}

impl Store {
    pub(crate) fn keys(&self, name: &Name) -> Keys {
        Keys::new(&self.prefix, name)
    }

    /// Whether the agents in the address may be asked.
    pub(crate) async fn check_agents(&self) -> Result<(), NodeError> {
        self.api.check_agents(self.limits.caller, entropy::number(self.entropy.as_ref())).await
    }

    pub(crate) async fn execute_command(&self, command: &Command) -> Result<Reply, Failure> {
        self.check_agents().await.map_err(Failure::Unsent)?;
        let keys = self.keys(command.name());
        match command {
            Command::Acquire(acquire) => match acquire.kind {
                AcquireKind::Vote => self.vote(&keys, acquire).await,
                AcquireKind::Upgrade => self.upgrade(&keys, acquire).await,
                AcquireKind::Repair => {
                    Err(Failure::Unsent(NodeError::Server { message: "a cluster needs no repair".into() }))
                }
            },
            Command::Stamp { name, token, at_least } => self.stamp(&keys, name, token, *at_least).await,
            Command::Extend { name, token, ttl, mode, .. } => {
                self.extend(&keys, (name, token), *ttl, *mode).await
            }
            Command::Downgrade { name, token, at_most, fence } => {
                self.downgrade(&keys, (name, token), (*at_most, *fence)).await
            }
            Command::Release { name, token, .. } => self.release(&keys, name, token).await,
            Command::HoldOffReaders { ttl, .. } => self.hold_off_readers(&keys, *ttl).await,
            Command::Inspect { .. } => Ok(self.inspect(&keys).await?),
            Command::Slots { count, record, .. } => self.slots(&keys, *count, *record).await,
        }
    }

    async fn vote(&self, keys: &Keys, acquire: &Acquire) -> Result<Reply, Failure> {
        let (name, token) = (&acquire.name, &acquire.token);
        // As long as the record is the same, no client shares the name.
        let known = self.records.get(name).filter(|_| acquire.mode == Mode::Exclusive);
        let mut known = known.map(|record| NameState { record, ..NameState::default() });
        for _ in 0..MAX_TRIES {
            let state = match known.take() {
                Some(state) => state,
                // The transaction finds out if this is old.
                None => self.load(keys, Consistency::Default).await.map_err(Failure::Unsent)?,
            };
            if state.held_by(token).is_ok() {
                // It arrived twice, or the answer that refused it was one to another request. Its release settles it.
                return Err(Failure::Unknown(protocol("it has this hold already")));
            }
            if !state.admits(acquire, self.clock.wall()) {
                return Ok(Reply::Denied(Denied::Taken));
            }
            if state.readers.len() >= MAX_READERS {
                let message = format!("{MAX_READERS} clients share the name already").into();
                return Err(Failure::Unsent(NodeError::Server { message }));
            }
            let session = self.sessions.get(acquire.ttl).await.map_err(Failure::Unsent)?;
            let Taking { ops, stored, record } = self.taking(keys, acquire, &state, &session);
            // Until the answer is known, the session must not be ended for another reason.
            self.holds.set(name, token, Hold { session: session.clone(), stored: None });
            match self.api.execute(&ops).await {
                Err(failure @ Failure::Unknown(_)) => {
                    self.records.was_changed(name);
                    return Err(failure);
                }
                Err(failure) => {
                    self.holds.remove(name, token);
                    return Err(failure);
                }
                Ok(Outcome::Refused(refusal)) => {
                    self.holds.remove(name, token);
                    self.records.was_changed(name);
                    if refusal == Refusal::NoSession {
                        self.sessions.discard(&session).await;
                    }
                }
                Ok(Outcome::Done(written)) => {
                    let index = written_at(&written, &keys.hold(acquire.mode, token));
                    let stored = Some(StoredHold { index, ..stored });
                    self.holds.set(name, token, Hold { session, stored });
                    if acquire.mode == Mode::Exclusive {
                        let index = written_at(&written, &keys.record);
                        self.records.set(name, ReadRecord { record, index });
                    }
                    return Ok(raised(acquire.proposal, &state.record)?);
                }
            }
        }
        // Each try was refused.
        Err(Failure::Unsent(conflict()))
    }

    /// The transaction that takes the name if it is as `state` says.
    pub(crate) fn taking(
        &self,
        keys: &Keys,
        acquire: &Acquire,
        state: &NameState,
        session: &Session,
    ) -> Taking {
        let now = self.clock.wall();
        let flags = Times::new(now, acquire.ttl, session.ttl).flags();
        let stored = StoredHold { mode: acquire.mode, value: acquire.value().into_bytes(), flags, index: 0 };
        let hold = keys.hold(acquire.mode, &acquire.token);
        let record = state.record.record.raised(acquire.proposal, now);
        let mut ops = vec![state.record.replace(&keys.record, &record), Op::is_free(&keys.lock)];
        if acquire.mode == Mode::Shared {
            ops.push(Op::is_free(&hold));
        }
        ops.push(Op::lock(Content { key: &hold, value: &stored.value, flags }, &session.id));
        Taking { ops, stored, record }
    }

    async fn stamp(
        &self,
        keys: &Keys,
        name: &Name,
        token: &Token,
        at_least: Fence,
    ) -> Result<Reply, Failure> {
        for _ in 0..MAX_TRIES {
            let state = self.load(keys, Consistency::Verified).await?;
            let Held { entry, mode } = match state.held_by(token) {
                Ok(held) => held,
                Err(denied) => return Ok(Reply::Denied(denied)),
            };
            let above = state.record.record.counter()?.map_or(Some(at_least), Fence::next);
            let Some(to) = above.map(|above| above.max(at_least)) else {
                let message = "the fence counter of this name is used up".into();
                return Err(Failure::Unsent(NodeError::Server { message }));
            };
            let (value, flags) = (stamped(&entry.value, to), entry.flags);
            let after = state.record.record.raised(to, self.clock.wall());
            let ops = [
                state.record.replace(&keys.record, &after),
                Op::swap(Content { key: &entry.key, value: &value, flags }, entry.modify_index),
            ];
            self.holds.forget_stored(name, token);
            if let Outcome::Done(written) = self.api.execute(&ops).await? {
                if let Some(hold) = self.own_hold(name, token, &entry.session) {
                    let index = written_at(&written, &entry.key);
                    let stored = Some(StoredHold { mode, value, flags, index });
                    self.holds.set(name, token, Hold { session: hold.session, stored });
                }
                if mode == Mode::Exclusive {
                    let index = written_at(&written, &keys.record);
                    self.records.set(name, ReadRecord { record: after, index });
                }
                return Ok(Reply::Done(Done::Stamped { to }));
            }
        }
        Err(conflict().into())
    }

    /// Keeps the hold of `token` for `ttl` from now, by another session if its own ends before that.
    async fn extend(
        &self,
        keys: &Keys,
        (name, token): (&Name, &Token),
        ttl: Duration,
        mode: Mode,
    ) -> Result<Reply, Failure> {
        // What we stored is probably still there; the transaction finds out.
        let known = self.holds.get(name, token);
        if let Some(Hold { session, stored: Some(stored) }) = known
            && (mode == Mode::Shared || stored.mode == Mode::Exclusive)
            && !session.covers(self.clock.now(), ttl)
        {
            let key = keys.hold(stored.mode, token);
            let next = self.sessions.get(ttl).await.map_err(Failure::Unsent)?;
            let before = Before { key: &key, stored: &stored, session: &session.id, record: None };
            if self.move_hold((name, token), before, ttl, &next).await? {
                return Ok(Reply::Done(Done::Plain));
            }
        }
        for _ in 0..MAX_TRIES {
            let state = self.load(keys, Consistency::Verified).await?;
            let held = match state.held_by(token) {
                // A shared hold may still be exclusive, because its downgrade failed; not the other way round.
                Ok(held) if mode == Mode::Exclusive && held.mode == Mode::Shared => {
                    return Ok(Reply::Denied(Denied::Gone));
                }
                Ok(held) => held,
                Err(denied) => return Ok(Reply::Denied(denied)),
            };
            let own = self.own_hold(name, token, &held.entry.session);
            if own.is_some_and(|own| own.session.covers(self.clock.now(), ttl)) {
                return Ok(Reply::Done(Done::Plain));
            }
            let next = self.longer_session((name, token), held.entry, ttl).await?;
            let stored = StoredHold {
                mode: held.mode,
                value: held.entry.value.clone(),
                flags: held.entry.flags,
                index: held.entry.modify_index,
            };
            let (key, session) = (&held.entry.key, &held.entry.session);
            let is_stale = state.record.record.is_stale(self.clock.wall());
            let record = is_stale.then_some((keys.record.as_str(), &state.record));
            let before = Before { key, stored: &stored, session, record };
            if self.move_hold((name, token), before, ttl, &next).await? {
                return Ok(Reply::Done(Done::Plain));
            }
        }
        Err(conflict().into())
    }

    /// A session for a hold that is extended by `ttl`, which lasts no less than the one that the hold has.
    pub(crate) async fn longer_session(
        &self,
        (name, token): (&Name, &Token),
        entry: &Entry,
        ttl: Duration,
    ) -> Result<Arc<Session>, Failure> {
        let found = match self.own_hold(name, token, &entry.session) {
            // It ends before a new one for `ttl` does.
            Some(own) if own.session.ends() <= self.clock.now() + ttl => self.sessions.get(ttl).await,
            Some(own) => {
                let left = self.clock.now().until(own.session.ends());
                self.sessions.single(left, ttl).await
            }
            // Another process began it, we do not know when.
            None => self.sessions.single(Times::from_flags(entry.flags).session_ttl, ttl).await,
        };
        found.map_err(Failure::Unsent)
    }

    /// Gives a hold that is as it was `before` to the session `next`; `false` if it was changed.
    async fn move_hold(
        &self,
        (name, token): (&Name, &Token),
        before: Before<'_>,
        ttl: Duration,
        next: &Arc<Session>,
    ) -> Result<bool, Failure> {
        let Before { key, stored, session, record } = before;
        let now = self.clock.wall();
        let times = Times::new(now, ttl, next.ttl);
        let flags = Times { ends: times.ends.max(Times::from_flags(stored.flags).ends), ..times }.flags();
        let content = Content { key, value: &stored.value, flags };
        let mut ops = vec![Op::is_unchanged(key, stored.index)];
        if let Some((key, record)) = record {
            ops.push(record.replace(key, &record.record.touched(now)));
        }
        if !session.is_empty() {
            ops.push(Op::unlock(content, session));
        }
        ops.push(Op::lock(content, &next.id));
        self.holds.forget_stored(name, token);
        let executed = self.api.execute(&ops).await.inspect_err(|failure| {
            if matches!(failure, Failure::Unknown(_)) {
                // It may have the hold, although that is not counted.
                next.keep();
            }
        });
        match executed? {
            Outcome::Done(written) => {
                let stored = StoredHold { flags, index: written_at(&written, key), ..stored.clone() };
                self.holds.set(name, token, Hold { session: next.clone(), stored: Some(stored) });
                Ok(true)
            }
            Outcome::Refused(refusal) => {
                if refusal == Refusal::NoSession {
                    self.sessions.discard(next).await;
                }
                Ok(false)
            }
        }
    }

    /// Frees the name. An acquire that was given up and is still on its way fails from now on.
    pub(crate) async fn release(&self, keys: &Keys, name: &Name, token: &Token) -> Result<Reply, Failure> {
        if let Some(Hold { stored: Some(stored), .. }) = self.holds.get(name, token) {
            let key = keys.hold(stored.mode, token);
            let ops = [Op::is_unchanged(&key, stored.index), Op::delete(&key)];
            if let Outcome::Done(read) = self.api.execute(&ops).await?
                && written_at(&read, &key) == stored.index
            {
                self.holds.remove(name, token);
                return Ok(Reply::Done(Done::Plain));
            }
        }
        for _ in 0..MAX_TRIES {
            let state = self.load(keys, Consistency::Verified).await?;
            let (ops, reply) = match state.held_by(token) {
                Ok(Held { entry, .. }) => {
                    let ops = vec![Op::is_unchanged(&entry.key, entry.modify_index), Op::delete(&entry.key)];
                    (ops, Reply::Done(Done::Plain))
                }
                // The acquire replaces the record that it read, so it fails after any change of the record.
                Err(denied) => {
                    let after = state.record.record.touched(self.clock.wall());
                    (vec![state.record.replace(&keys.record, &after)], Reply::Denied(denied))
                }
            };
            if let Outcome::Done(_) = self.api.execute(&ops).await? {
                self.holds.remove(name, token);
                return Ok(reply);
            }
        }
        Err(conflict().into())
    }

    /// What is stored for the name.
    pub(crate) async fn load(&self, keys: &Keys, consistency: Consistency) -> Result<NameState, NodeError> {
        let entries = self.api.read(&[&keys.record, &keys.lock, &keys.readers], consistency).await?;
        let mut state = NameState::default();
        for entry in entries {
            if entry.key == keys.record {
                state.record = ReadRecord::parse(&entry)?;
            } else if entry.key == keys.lock {
                state.lock = Some(entry);
            } else if entry.key.starts_with(&keys.readers) {
                state.readers.push(entry);
            }
        }
        Ok(state)
    }

    /// What this client knows of its hold, if that is still locked by `session`.
    pub(crate) fn own_hold(&self, name: &Name, token: &Token, session: &str) -> Option<Hold> {
        self.holds.get(name, token).filter(|hold| hold.session.id == session)
    }
}

/// A transaction that takes a name, and what it writes.
pub(crate) struct Taking {
    pub(crate) ops: Vec<Op>,
    stored: StoredHold,
    record: NameRecord,
}

/// A hold that is to be given to another session.
struct Before<'a> {
    key: &'a str,
    stored: &'a StoredHold,
    /// The session that it has; empty if it has none.
    session: &'a str,
    /// The key of the record, and the record if it must be written, too.
    record: Option<(&'a str, &'a ReadRecord)>,
}

/// The index of `key` after a transaction; 0 if that did not report it.
pub(crate) fn written_at(entries: &[Entry], key: &str) -> u64 {
    entries.iter().rev().find(|entry| entry.key == key).map_or(0, |entry| entry.modify_index)
}

/// The reply to an acquire that took the name when `before` was its record.
pub(crate) fn raised(proposal: Fence, before: &ReadRecord) -> Result<Reply, NodeError> {
    let counter = before.record.counter()?;
    let is_raised = proposal == Fence::NONE || counter.is_none_or(|counter| counter < proposal);
    Ok(Reply::Done(if is_raised { Done::Raised } else { Done::Unraised { counter } }))
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
