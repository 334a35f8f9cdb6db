//! Commands that are on their way, and what the server's replies mean for them.

mod releases;

use crate::context::RestartGuard;
use crate::node::redis::connection::socket::Wire;
use crate::node::redis::link::Link;
use crate::node::redis::link::epoch::{Reading, Standing};
use crate::node::redis::pipeline::pending::{Change, Releasing, Slot, Verify, Vote};
use crate::node::redis::protocol::encode::FREE_CHANNEL;
use crate::node::redis::protocol::replies;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::{classify, is_unknown_script, protocol};
use crate::node::redis::protocol::server_info::{Survey, check_sync};
use crate::node::{Done, NodeError, Reply};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// What was handed to the connection and is not answered, oldest first.
#[derive(Default)]
pub(crate) struct Flight {
    pub(crate) slots: VecDeque<Slot>,
    /// Replies to the oldest slot, which takes more than one, but for the last.
    gathered: SmallVec<[Value; 2]>,
    /// Votes that were cast, with what they will answer once the epoch after them is known.
    votes: Vec<(Vote, Reply)>,
    /// Releases without the script that were done, until it is known whether somebody waits.
    freed: Vec<Releasing>,
    /// Whether somebody waits, as far as the last answers told.
    is_awaited: Option<bool>,
    /// How many slots were ever answered.
    pub(crate) answered: u64,
}

impl Flight {
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Empties it after the connection is gone.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Slot> {
        self.gathered.clear();
        self.is_awaited = None;
        let votes = self.votes.drain(..).map(|(vote, _)| Slot::Vote(vote));
        let freed = self.freed.drain(..).map(Slot::Release);
        votes.chain(freed).chain(self.slots.drain(..))
    }

    /// Takes the next reply or push. An error means that the connection cannot be used any more.
    pub(crate) fn take(&mut self, value: Value, link: &Link) -> Result<(), NodeError> {
        if let Value::Push(fields) = value {
            self.take_push(&fields, link);
            return Ok(());
        }
        let Some(oldest) = self.slots.front() else {
            return Err(protocol("an answer to no question"));
        };
        if self.gathered.len() + 1 < oldest.replies() {
            self.gathered.push(value);
            return Ok(());
        }
        match self.pop() {
            Some(slot) => self.settle(slot, value, link),
            None => Ok(()),
        }
    }

    /// Takes the next reply if it is a plain yes to a vote, as most are: those need no look at their parts.
    pub(crate) fn take_yes(&mut self, wire: &mut Wire, link: &Link) -> bool {
        let yes = match self.slots.front() {
            Some(Slot::Vote(vote)) if self.gathered.is_empty() && vote.raises => replies::YES_AND_RAISED,
            Some(Slot::Vote(_)) if self.gathered.is_empty() => replies::YES,
            _ => return false,
        };
        let is_yes = wire.take_exactly(yes);
        if is_yes && let Some(Slot::Vote(vote)) = self.pop() {
            self.cast(vote, Reply::Done(Done::Raised), link);
        }
        is_yes
    }

    fn pop(&mut self) -> Option<Slot> {
        self.answered += 1;
        self.slots.pop_front()
    }

    /// Hints ring their bell. A confirmation answers the oldest slot, as pushes keep their place among replies.
    fn take_push(&mut self, fields: &[Value], link: &Link) {
        match fields.first().and_then(Value::text) {
            Some(b"message") => {
                let name = fields
                    .get(1)
                    .and_then(Value::text)
                    .and_then(|channel| std::str::from_utf8(channel).ok())
                    .and_then(|channel| channel.strip_prefix(FREE_CHANNEL));
                let bell = name.and_then(|name| link.lock().bells.get(name).cloned());
                match (bell, fields.get(2).and_then(Value::text).and_then(told)) {
                    (Some(bell), Some((crowd, release))) => bell.ring_for(release, crowd),
                    (Some(bell), None) => bell.ring(),
                    (None, _) => {}
                }
            }
            Some(b"subscribe" | b"unsubscribe") if matches!(self.slots.front(), Some(Slot::Hints)) => {
                self.pop();
            }
            _ => {}
        }
    }

    /// Answers `slot`, whose last reply is `last`.
    fn settle(&mut self, slot: Slot, last: Value, link: &Link) -> Result<(), NodeError> {
        match (slot, &last) {
            (Slot::Vote(vote), _) => {
                let reply = match self.gathered.pop() {
                    Some(set) => replies::vote(&set, Some(&last)),
                    None => replies::vote(&last, None),
                };
                let shape = believable(&reply);
                match shape {
                    Ok(()) => self.cast(vote, reply, link),
                    Err(_) => vote.question.answer(reply),
                }
                return shape;
            }
            (Slot::Epoch { skip }, _) => return self.count_votes(&last, skip, link),
            (Slot::Release(first), _) => return self.settle_run(first, &last, link),
            (Slot::Fast(release), _) => return self.free(release, &last, link),
            (Slot::Awaited, Value::Integer(0 | 1) | Value::Error(_)) => self.settle_freed(&last, link),
            (Slot::Hinted, Value::Integer(_) | Value::Error(_)) => {}
            (Slot::Change(change), _) => return settle_change(change, &last, link),
            (Slot::Inspect(question), _) => {
                let gathered = std::mem::take(&mut self.gathered);
                let [stored, left] = gathered.as_slice() else {
                    return Err(protocol("an inspection with too few answers"));
                };
                let reply = replies::view(stored, left, &last);
                let shape = believable(&reply);
                question.answer(reply);
                return shape;
            }
            (Slot::Survey, info) => {
                let info = String::from_utf8_lossy(info.text().unwrap_or_default());
                return link.surveyed(&Survey::parse(&info));
            }
            (Slot::Sync, answer) => return check_sync(answer),
            // Only an error comes as a reply: no hints, which cost time and nothing else.
            (Slot::Hints, Value::Error(_)) => {}
            (Slot::Waiting, Value::Okay | Value::Error(_)) => {}
            (Slot::Verify(verify), _) => return settle_verify(verify, &last, link),
            // Whoever asked may have gone.
            (Slot::Call(caller), _) => drop(caller.send(replies::raw(last))),
            _ => return Err(protocol("an answer of another shape")),
        }
        Ok(())
    }

    /// Takes a vote in, which `reply` answers. It counts once the epoch behind it is known.
    fn cast(&mut self, vote: Vote, reply: Reply, link: &Link) {
        match link.around.guard {
            RestartGuard::Strict => self.votes.push((vote, reply)),
            RestartGuard::Off => vote.question.answer(reply),
        }
    }

    /// Counts the votes that were cast before `epoch` was read, and undoes those that must not count.
    fn count_votes(&mut self, epoch: &Value, skip: usize, link: &Link) -> Result<(), NodeError> {
        let mut queue = link.lock();
        if queue.standing.is_misplaced(epoch, skip) {
            return Err(protocol("an answer to another question"));
        }
        let (known, eligible) = match epoch {
            Value::Error(text) => match classify(text) {
                // Something else stands there: the mark is gone, whatever removed it.
                NodeError::WrongType { .. } => (Err(NodeError::EpochChanged), Ok(())),
                cause => (Err(cause), Ok(())),
            },
            epoch if queue.standing.confirms(epoch, skip) => {
                let around = &link.around;
                let eligible = queue.standing.admit(around.longest.recorded(), || around.clock.now());
                (Ok(()), around.siblings.check_epoch(&link.id).and(eligible))
            }
            _ => (Err(NodeError::EpochChanged), Ok(())),
        };
        if matches!(known, Err(NodeError::EpochChanged)) && !matches!(queue.standing, Standing::Unverified) {
            queue.standing = Standing::Unverified;
            queue.verify(Verify::default(), &link.around, &link.login);
        }
        if matches!(eligible, Err(NodeError::Quarantined { .. })) {
            // Another client may have declared it fresh.
            queue.look_again(&link.around, &link.login);
        }
        for (vote, reply) in &mut self.votes {
            match (&known, &eligible) {
                (Ok(()), Ok(())) => {}
                // The key stays, uncounted; an attempt that is refused releases it everywhere.
                (Ok(()), Err(cause)) => *reply = Reply::failed(cause.clone()),
                (Err(cause), _) => {
                    *reply = Reply::failed(cause.clone());
                    if let Some(undo) = vote.undo() {
                        queue.outbox.release(undo);
                    }
                }
            }
        }
        drop(queue);
        for (vote, reply) in self.votes.drain(..) {
            vote.question.answer(reply);
        }
        Ok(())
    }
}

/// What a hint tells: how many processes it went to, and a number for the release.
fn told(hint: &[u8]) -> Option<(usize, u64)> {
    let (crowd, release) = std::str::from_utf8(hint).ok()?.split_once(' ')?;
    Some((crowd.parse().ok()?, u64::from_str_radix(release, 16).ok()?))
}

/// Gives the answer to an extend or a stamp, or sends it again where the server has forgotten the script.
fn settle_change(mut change: Change, answer: &Value, link: &Link) -> Result<(), NodeError> {
    match answer {
        Value::Error(text) if is_unknown_script(text) && !change.call.whole => {
            change.call.whole = true;
            link.lock().outbox.push_change(change);
            Ok(())
        }
        answer => {
            let reply = replies::update(answer, change.call.kind, change.call.mark);
            let shape = believable(&reply);
            change.question.answer(reply);
            shape
        }
    }
}

/// An answer of another shape belongs to another command: whatever follows it on the connection may, too.
fn believable(reply: &Reply) -> Result<(), NodeError> {
    match reply {
        Reply::Failed(cause) if matches!(**cause, NodeError::Protocol { .. }) => Err(NodeError::clone(cause)),
        _ => Ok(()),
    }
}

/// Takes the epoch in. A server whose epoch cannot be read must not vote: an error begins a new connection.
fn settle_verify(mut verify: Verify, answer: &Value, link: &Link) -> Result<(), NodeError> {
    let outcome = match answer {
        Value::Error(text) if is_unknown_script(text) && !verify.whole => {
            verify.whole = true;
            link.lock().verify(verify, &link.around, &link.login);
            return Ok(());
        }
        Value::Error(text) => Err(classify(text)),
        answer => Reading::parse(answer)
            .map(|reading| link.verified(&reading))
            .ok_or_else(|| protocol("the epoch is no epoch")),
    };
    if let Some(done) = verify.done {
        // Whoever asked may have gone.
        let _ = done.send(outcome.clone());
    }
    outcome
}
