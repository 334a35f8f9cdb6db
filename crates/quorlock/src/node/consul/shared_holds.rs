//! Commands that know of shared holders: upgrade, downgrade, holding readers off, and who holds a name.

use crate::node::consul::client::api::Consistency;
use crate::node::consul::client::txn::{Content, Entry, Op, Outcome, Refusal};
use crate::node::consul::holds::{Hold, StoredHold};
use crate::node::consul::keys::{Keys, Times};
use crate::node::consul::lock_store::{Held, MAX_TRIES, Store, conflict, raised, stamped, written_at};
use crate::node::engine::Failure;
use crate::node::{Acquire, Content as Shown, Denied, Done, NodeError, Reply, View};
use quorlock_core::{Fence, Mode, Name, StoredLock, Token};
use std::time::Duration;

impl Store {
    /// Makes the hold of `acquire` exclusive if no other client holds the name.
    ///
    /// A downgrade changes the record and a release deletes the hold, so an upgrade that is still on its way when it
    /// is undone finds that something is not as it read it.
    pub(crate) async fn upgrade(&self, keys: &Keys, acquire: &Acquire) -> Result<Reply, Failure> {
        let (name, token) = (&acquire.name, &acquire.token);
        for _ in 0..MAX_TRIES {
            let state = self.load(keys, Consistency::Verified).await.map_err(Failure::Unsent)?;
            let Held { entry, mode } = match state.held_by(token) {
                Ok(_) if state.holders() > 1 => return Ok(Reply::Denied(Denied::Taken)),
                Ok(held) => held,
                Err(denied) => return Ok(Reply::Denied(denied)),
            };
            let session = self.longer_session((name, token), entry, acquire.ttl).await?;
            let now = self.clock.wall();
            let flags = Times::new(now, acquire.ttl, session.ttl).flags();
            let value = acquire.value().into_bytes();
            let content = Content { key: &keys.lock, value: &value, flags };
            let after = state.record.record.raised(acquire.proposal, now);
            let mut ops = vec![
                state.record.replace(&keys.record, &after),
                Op::is_unchanged(&entry.key, entry.modify_index),
                Op::delete(&entry.key),
            ];
            if mode == Mode::Shared {
                ops.push(Op::is_free(&keys.lock));
            }
            ops.push(Op::lock(content, &session.id));
            let own = self.own_hold(name, token, &entry.session);
            self.holds.forget_stored(name, token);
            // If the answer is lost, either session may have it.
            session.keep();
            match self.api.execute(&ops).await? {
                Outcome::Done(written) => {
                    let index = written_at(&written, &keys.lock);
                    let stored = Some(StoredHold { mode: Mode::Exclusive, value, flags, index });
                    self.holds.set(name, token, Hold { session, stored });
                    return Ok(raised(acquire.proposal, &state.record)?);
                }
                Outcome::Refused(refusal) => {
                    if let Some(own) = own {
                        self.holds.set(name, token, own);
                    }
                    if refusal == Refusal::NoSession {
                        self.sessions.discard(&session).await;
                    }
                }
            }
        }
        Err(conflict().into())
    }

    /// Makes the hold of `token` shared, by the session that it has.
    pub(crate) async fn downgrade(
        &self,
        keys: &Keys,
        (name, token): (&Name, &Token),
        (at_most, fence): (Fence, Fence),
    ) -> Result<Reply, Failure> {
        for _ in 0..MAX_TRIES {
            let state = self.load(keys, Consistency::Verified).await?;
            let Held { entry, mode } = match state.held_by(token) {
                Ok(held) => held,
                Err(denied) => return Ok(Reply::Denied(denied)),
            };
            // A later upgrade has a higher fence.
            if mode == Mode::Exclusive && fence_of(entry) > at_most {
                return Ok(Reply::Denied(Denied::Taken));
            }
            let (reader, value) = (keys.reader(token), stamped(&entry.value, fence));
            let content = Content { key: &reader, value: &value, flags: entry.flags };
            // The record is written in any case: an upgrade may still be on its way.
            let after = state.record.record.touched(self.clock.wall());
            let mut ops = vec![
                state.record.replace(&keys.record, &after),
                Op::is_unchanged(&entry.key, entry.modify_index),
            ];
            match mode {
                Mode::Exclusive => {
                    ops.extend([
                        Op::delete(&entry.key),
                        Op::is_free(&reader),
                        Op::lock(content, &entry.session),
                    ]);
                }
                // Consul would not write what is there already.
                Mode::Shared if value == entry.value => {}
                Mode::Shared => ops.push(Op::swap(content, entry.modify_index)),
            }
            self.holds.forget_stored(name, token);
            if let Outcome::Done(written) = self.api.execute(&ops).await? {
                if let Some(own) = self.own_hold(name, token, &entry.session) {
                    let (flags, index) = (entry.flags, written_at(&written, &reader));
                    let stored = Some(StoredHold { mode: Mode::Shared, value, flags, index });
                    self.holds.set(name, token, Hold { session: own.session, stored });
                }
                return Ok(Reply::Done(Done::Plain));
            }
        }
        Err(conflict().into())
    }

    /// Refuses new readers for `ttl`, by the wall clocks of clients.
    pub(crate) async fn hold_off_readers(&self, keys: &Keys, ttl: Duration) -> Result<Reply, Failure> {
        for _ in 0..MAX_TRIES {
            let state = self.load(keys, Consistency::Verified).await?;
            let now = self.clock.wall();
            if ttl.is_zero() && !state.record.record.holds_off_readers(now) {
                return Ok(Reply::Done(Done::Plain));
            }
            let after = state.record.record.holding_off(ttl, now);
            if let Outcome::Done(_) = self.api.execute(&[state.record.replace(&keys.record, &after)]).await? {
                return Ok(Reply::Done(Done::Plain));
            }
        }
        Err(conflict().into())
    }

    pub(crate) async fn inspect(&self, keys: &Keys) -> Result<Reply, NodeError> {
        let state = self.load(keys, Consistency::Verified).await?;
        let (now, counter) = (self.clock.wall(), state.record.record.counter()?);
        let left = |entry: &Entry| Times::from_flags(entry.flags).left(now);
        let view = match &state.lock {
            Some(lock) => View {
                content: Shown::from_value(&lock.value),
                left: (!lock.session.is_empty()).then(|| left(lock)),
                counter,
            },
            None if state.readers.is_empty() => View { content: Shown::Free, left: None, counter },
            None => {
                let mut readers: Vec<&Entry> = state.readers.iter().collect();
                readers.sort_by_key(|reader| (Times::from_flags(reader.flags).ends, reader.modify_index));
                let last = readers.last().map(|reader| left(reader));
                let stored = readers.iter().filter_map(|reader| StoredLock::parse(&reader.value));
                View { content: Shown::Shared(stored.take(View::MAX_READERS).collect()), left: last, counter }
            }
        };
        Ok(Reply::Done(Done::Seen(Box::new(view))))
    }
}

/// The fence of a hold.
fn fence_of(entry: &Entry) -> Fence {
    StoredLock::parse(&entry.value).map_or(Fence::NONE, |stored| stored.fence)
}
