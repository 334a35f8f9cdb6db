//! Commands whose replies are expected, and the dispatch of the replies to them.

mod releases;

use crate::context::RestartGuard;
use crate::context::injected_bug::{InjectedBug, InjectedBugs};
use crate::node::redis::connection::socket::Socket;
use crate::node::redis::link::Link;
use crate::node::redis::link::epoch::Reading;
use crate::node::redis::link::voting_right::VotingRight;
use crate::node::redis::pipeline::pending::{
    Pending, PendingReaders, PendingRelease, PendingUpdate, PendingVerify, PendingVote,
};
use crate::node::redis::protocol::commands::UpdateKind;
use crate::node::redis::protocol::encode::{FREE_CHANNEL, KEY_END};
use crate::node::redis::protocol::replies;
use crate::node::redis::protocol::resp::Value;
use crate::node::redis::protocol::server_errors::{classify, is_unknown_script, protocol};
use crate::node::redis::protocol::server_info::{ServerInfo, check_sync};
use crate::node::{Content, Done, NodeError, Reply};
use smallvec::SmallVec;
use std::collections::VecDeque;

/// What was handed to the connection and is not answered, oldest first.
#[derive(Default)]
pub(crate) struct InFlight {
    pub(crate) pending: VecDeque<Pending>,
    /// All replies but the last to the oldest entry, if that takes more than one.
    partial_reply: SmallVec<[Value; 2]>,
    /// Votes that were cast, with what they will answer once the epoch after them is known.
    votes: Vec<(PendingVote, Reply)>,
    /// Releases that were done without the script, until it is known whether there are waiters.
    freed_unconfirmed: Vec<PendingRelease>,
    /// Whether there are waiters, by the last answers.
    has_waiters: Option<bool>,
    /// How many entries were ever answered.
    pub(crate) answered: u64,
}

impl InFlight {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Empties it after the connection ended.
    pub(crate) fn drain(&mut self, injected: InjectedBugs) -> impl Iterator<Item = Pending> {
        if !injected.is_on(InjectedBug::PartialReplyKept) {
            self.partial_reply.clear();
        }
        self.has_waiters = None;
        let votes = self.votes.drain(..).map(|(vote, _)| Pending::Vote(vote));
        let freed_unconfirmed = self.freed_unconfirmed.drain(..).map(Pending::Release);
        let kept = if injected.is_on(InjectedBug::RepliesAcrossConnections) { self.pending.len() } else { 0 };
        votes.chain(freed_unconfirmed).chain(self.pending.drain(kept..))
    }

    /// Handles the next reply or push. An error means that the connection cannot be used any more.
    pub(crate) fn on_value(&mut self, value: Value, link: &Link) -> Result<(), NodeError> {
        if let Value::Push(fields) = value {
            self.on_push(&fields, link);
            return Ok(());
        }
        let Some(oldest) = self.pending.front() else {
            return Err(protocol("a reply without a command"));
        };
        if self.partial_reply.len() + 1 < oldest.replies() {
            self.partial_reply.push(value);
            return Ok(());
        }
        match self.pop() {
            Some(pending) => self.dispatch(pending, value, link),
            None => Ok(()),
        }
    }

    /// Handles the next reply if it is a plain yes to a vote, as most are: such a reply need not be
    /// parsed.
    pub(crate) fn dispatch_plain_yes(&mut self, socket: &mut Socket, link: &Link) -> bool {
        let yes = match self.pending.front() {
            Some(Pending::Vote(vote)) if self.partial_reply.is_empty() && vote.raises => {
                replies::YES_AND_RAISED
            }
            Some(Pending::Vote(_)) if self.partial_reply.is_empty() => replies::YES,
            _ => return false,
        };
        let is_yes = socket.take_exactly(yes);
        if is_yes && let Some(Pending::Vote(vote)) = self.pop() {
            self.cast(vote, Reply::Done(Done::Raised), link);
        }
        is_yes
    }

    fn pop(&mut self) -> Option<Pending> {
        self.answered += 1;
        self.pending.pop_front()
    }

    /// Hints notify their wakeup. A confirmation answers the oldest entry, because pushes keep their
    /// place among replies.
    fn on_push(&mut self, fields: &[Value], link: &Link) {
        match fields.first().and_then(Value::text) {
            Some(b"message") => {
                let name = fields
                    .get(1)
                    .and_then(Value::text)
                    .and_then(|channel| std::str::from_utf8(channel).ok())
                    .and_then(|channel| channel.strip_prefix(FREE_CHANNEL)?.strip_suffix(KEY_END));
                let wakeup = name.and_then(|name| link.lock().wakeups.get(name).cloned());
                match (wakeup, fields.get(2).and_then(Value::text).and_then(parse_hint)) {
                    (Some(wakeup), Some((subscribers, release))) => {
                        wakeup.notify_release(release, subscribers)
                    }
                    (Some(wakeup), None) => wakeup.notify(),
                    (None, _) => {}
                }
            }
            Some(b"subscribe" | b"unsubscribe")
                if matches!(self.pending.front(), Some(Pending::Subscribe)) =>
            {
                self.pop();
            }
            _ => {}
        }
    }

    /// Answers `pending`, whose last reply is `last`.
    fn dispatch(&mut self, pending: Pending, last: Value, link: &Link) -> Result<(), NodeError> {
        match (pending, &last) {
            (Pending::Vote(vote), _) => {
                let mut reply = match self.partial_reply.pop() {
                    Some(set) => replies::vote(&set, Some(&last)),
                    None => replies::vote(&last, None),
                };
                let is_unraised = matches!(reply, Reply::Done(Done::Unraised { .. }));
                if is_unraised && link.ctx.injected.is_on(InjectedBug::NoStamp) {
                    reply = Reply::Done(Done::Raised);
                }
                let shape = check_shape(&reply);
                match shape {
                    Ok(()) => self.cast(vote, reply, link),
                    Err(_) => vote.request.answer(reply),
                }
                return shape;
            }
            (Pending::Epoch { skip }, _) => return self.count_votes(&last, skip, link),
            (Pending::Release(first), _) => return self.dispatch_batch(first, &last, link),
            (Pending::CompareAndDelete(release), _) => return self.free(release, &last, link),
            (Pending::HasWaiters, Value::Integer(0 | 1) | Value::Error(_)) => {
                self.dispatch_freed(&last, link)
            }
            (Pending::Hint, Value::Integer(_) | Value::Error(_)) => {}
            (Pending::Update(update), _) => return self.dispatch_update(update, &last, link),
            (Pending::Readers(readers), _) => return dispatch_readers(readers, &last, link),
            (Pending::Plain(request), Value::Okay | Value::Integer(_)) => {
                request.answer(Reply::Done(Done::Plain));
            }
            (Pending::Plain(request), Value::Error(text)) => {
                request.answer(Reply::failed(classify(text)));
            }
            (Pending::Inspect(request), _) => {
                let partial_reply = std::mem::take(&mut self.partial_reply);
                let [stored, left] = partial_reply.as_slice() else {
                    return Err(protocol("an inspection with too few answers"));
                };
                let reply = replies::view(stored, left, &last);
                let shape = check_shape(&reply);
                match reply {
                    // Shared holders have a type of their own, and so have values of other programs.
                    Reply::Done(Done::Seen(view)) if matches!(stored, Value::Error(_)) => {
                        link.lock().outbox.readers(request, *view);
                    }
                    reply => request.answer(reply),
                }
                return shape;
            }
            (Pending::ServerInfo, Value::Error(text)) => return Err(classify(text)),
            (Pending::ServerInfo, info) => {
                let info = String::from_utf8_lossy(info.text().unwrap_or_default());
                return link.on_server_info(&ServerInfo::parse(&info));
            }
            (Pending::Sync, answer) => return check_sync(answer),
            // Only an error comes as a reply: then there are no hints, which costs time and nothing else.
            (Pending::Subscribe, Value::Error(_)) => {}
            (Pending::Waiting, Value::Okay | Value::Error(_)) => {}
            (Pending::Verify(verify), _) => return dispatch_verify(verify, &last, link),
            // The caller may have been dropped.
            (Pending::Call(caller), _) => drop(caller.send(replies::raw(last))),
            _ => return Err(protocol("an answer of another shape")),
        }
        Ok(())
    }

    /// Answers a command that a script executed, or sends it again if the server has forgotten the script.
    fn dispatch_update(
        &mut self,
        mut update: PendingUpdate,
        answer: &Value,
        link: &Link,
    ) -> Result<(), NodeError> {
        if let Value::Error(text) = answer
            && is_missing_script(text, link)
            && !update.call.sends_script
        {
            let mut state = link.lock();
            state.outbox.forget_script(update.request.command());
            if matches!(update.call.kind, UpdateKind::Vote | UpdateKind::Repair) {
                // Sent again, it might be executed behind the release of what it stores. The next attempt or
                // extension brings the script.
                drop(state);
                update.request.answer(Reply::failed(classify(text)));
            } else {
                update.call.sends_script = true;
                state.outbox.push_update(update);
            }
            return Ok(());
        }
        let PendingUpdate { request, call, .. } = update;
        let reply = replies::update(answer, call.kind, call.call_id);
        let shape = check_shape(&reply);
        match call.kind {
            UpdateKind::Vote if shape.is_ok() => {
                self.cast(PendingVote { request, raises: false }, reply, link);
            }
            _ => request.answer(reply),
        }
        shape
    }

    /// Keeps a vote, which `reply` answers. It counts once the epoch after it is known.
    fn cast(&mut self, vote: PendingVote, reply: Reply, link: &Link) {
        match link.ctx.guard {
            RestartGuard::Strict => self.votes.push((vote, reply)),
            RestartGuard::Off => vote.request.answer(reply),
        }
    }

    /// Counts the votes that were cast before `epoch` was read, and undoes those that must not count.
    fn count_votes(&mut self, epoch: &Value, skip: usize, link: &Link) -> Result<(), NodeError> {
        let mut state = link.lock();
        let injected = link.ctx.injected;
        let is_misplaced = state.voting_right.is_misplaced(epoch, skip);
        if is_misplaced && !injected.is_on(InjectedBug::RepeatedReply) {
            return Err(protocol("a reply to another command"));
        }
        let (known, eligible) = match epoch {
            Value::Error(text) => match classify(text) {
                // Something else is stored under the key: the epoch was lost, whatever removed it.
                NodeError::WrongType { .. } => (Err(NodeError::EpochChanged), Ok(())),
                cause => (Err(cause), Ok(())),
            },
            _ if injected.is_on(InjectedBug::EpochUnchecked) => (Ok(()), Ok(())),
            epoch if state.voting_right.confirms(epoch, skip) || is_misplaced => {
                let ctx = &link.ctx;
                let eligible = match injected.is_on(InjectedBug::QuarantinedVote) {
                    true => Ok(()),
                    false => state.voting_right.admit(ctx.longest.recorded(), || ctx.clock.now()),
                };
                (Ok(()), ctx.identities.check_epoch(&link.id).and(eligible))
            }
            _ => (Err(NodeError::EpochChanged), Ok(())),
        };
        if matches!(known, Err(NodeError::EpochChanged))
            && !matches!(state.voting_right, VotingRight::Unverified)
        {
            state.voting_right = VotingRight::Unverified;
            state.verify(PendingVerify::default(), &link.ctx, &link.login);
        }
        if matches!(eligible, Err(NodeError::Quarantined { .. })) {
            // Another client may have declared it fresh.
            state.reverify(&link.ctx, &link.login);
        }
        for (vote, reply) in &mut self.votes {
            match (&known, &eligible) {
                (Ok(()), Ok(())) => {}
                // The key stays, uncounted; an attempt that is refused releases it everywhere.
                (Ok(()), Err(cause)) => *reply = Reply::failed(cause.clone()),
                (Err(cause), _) => {
                    *reply = Reply::failed(cause.clone());
                    if let Some(undo) = vote.undo() {
                        state.outbox.release(undo);
                    }
                }
            }
        }
        drop(state);
        for (vote, reply) in self.votes.drain(..) {
            vote.request.answer(reply);
        }
        Ok(())
    }
}

/// What a hint contains: how many processes it went to, and a number for the release.
fn parse_hint(hint: &[u8]) -> Option<(usize, u64)> {
    let (subscribers, release) = std::str::from_utf8(hint).ok()?.split_once(' ')?;
    Some((subscribers.parse().ok()?, u64::from_str_radix(release, 16).ok()?))
}

/// Whether the script must be sent whole.
fn is_missing_script(text: &[u8], link: &Link) -> bool {
    is_unknown_script(text) && !link.ctx.injected.is_on(InjectedBug::NoScript)
}

/// Completes an inspection by the shared holders.
fn dispatch_readers(mut readers: Box<PendingReaders>, answer: &Value, link: &Link) -> Result<(), NodeError> {
    if let Value::Error(text) = answer
        && is_missing_script(text, link)
        && !readers.update.call.sends_script
    {
        readers.update.call.sends_script = true;
        link.lock().outbox.push_readers(readers);
        return Ok(());
    }
    let PendingReaders { update: PendingUpdate { request, call, .. }, mut view } = *readers;
    let reply = match replies::readers(answer, call.call_id) {
        Ok(readers) => {
            if !readers.is_empty() {
                view.content = Content::Shared(readers);
            }
            Reply::Done(Done::Seen(Box::new(view)))
        }
        Err(failed) => failed,
    };
    let shape = check_shape(&reply);
    request.answer(reply);
    shape
}

/// An answer of another shape belongs to another command: whatever follows it on the connection may, too.
fn check_shape(reply: &Reply) -> Result<(), NodeError> {
    match reply {
        Reply::Failed(cause) if matches!(**cause, NodeError::Protocol { .. }) => Err(NodeError::clone(cause)),
        _ => Ok(()),
    }
}

/// Handles the reply to a verification. A server whose epoch cannot be read must not vote: an error
/// begins a new connection.
fn dispatch_verify(mut verify: PendingVerify, answer: &Value, link: &Link) -> Result<(), NodeError> {
    let outcome = match answer {
        Value::Error(text) if is_missing_script(text, link) && !verify.sends_script => {
            verify.sends_script = true;
            link.lock().verify(verify, &link.ctx, &link.login);
            return Ok(());
        }
        Value::Error(text) => Err(classify(text)),
        answer => Reading::parse(answer)
            .map(|reading| link.on_reading(&reading))
            .ok_or_else(|| protocol("the epoch is no epoch")),
    };
    if let Some(done) = verify.done {
        // The caller may have been dropped.
        let _ = done.send(outcome.clone());
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::node::NodeUrl;

    /// Goal: a server that refuses to report about itself is not mistaken for something that is no server.
    #[test]
    fn a_refusal_of_info_is_reported_as_what_it_is() {
        let url: NodeUrl = "redis://127.0.0.1:1".parse().unwrap();
        let (address, login) = crate::node::redis::reach(&url, &Context::default()).unwrap();
        let link = Link::new("a".into(), Context::default(), address, login, |_, _| {});
        let mut in_flight = InFlight::default();
        in_flight.pending.push_back(Pending::ServerInfo);
        let refused = in_flight.on_value(Value::Error("NOPERM no".into()), &link);
        assert!(matches!(refused, Err(NodeError::NoPermission { .. })), "{refused:?}");
    }
}
