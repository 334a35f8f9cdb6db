//! The replies that are expected from the server, in the order in which they will come.

use crate::node::redis::protocol::commands::{ReleaseCall, UpdateCall};
use crate::node::redis::protocol::resp::Value;
use crate::node::{AcquireKind, Command, NodeError, Reply, Request, View};
use quorlock_core::{Mode, Moment, Name, Token};
use tokio::sync::oneshot;

/// One command that expects one or more replies.
#[derive(Debug)]
pub(crate) enum Pending {
    /// Answered by the replies to `SET` and, if it raises, `ZADD`, and counted by the next
    /// [`Pending::Epoch`].
    Vote(PendingVote),
    /// The epoch as it was after all votes before it, without its first `skip` bytes.
    Epoch {
        skip: usize,
    },
    Release(PendingRelease),
    /// A release without the script, counted by the next [`Pending::HasWaiters`].
    CompareAndDelete(PendingRelease),
    /// Whether any client waits for any name.
    HasWaiters,
    /// Answered when the hint was published.
    Hint,
    Update(PendingUpdate),
    Inspect(Request),
    /// The shared holders of a name, to complete an inspection.
    Readers(Box<PendingReaders>),
    /// Answered when a plain command was executed.
    Plain(Request),
    /// Answered by a push, or by an error where the user may not subscribe.
    Subscribe,
    /// Answered when the server has recorded that we wait; a failure costs time and nothing else.
    Waiting,
    Verify(PendingVerify),
    /// Answered by `INFO`: whether the server can still be a node.
    ServerInfo,
    /// Answered by the setting that says when a server marked durable syncs its file.
    Sync,
    Call(oneshot::Sender<Result<Value, NodeError>>),
    /// Nothing to send or parse: only its caller must be answered.
    AnswerOnly(Request),
}

#[derive(Debug)]
pub(crate) struct PendingVote {
    pub(crate) request: Request,
    /// Whether the counter is raised, too.
    pub(crate) raises: bool,
}

impl PendingVote {
    /// The release that undoes it, without a caller that waits for it.
    pub(crate) fn undo(&self) -> Option<PendingRelease> {
        match self.request.command() {
            Command::Acquire(vote) if vote.kind == AcquireKind::Vote => {
                let mut undo = PendingRelease::without_reply(vote.name.clone(), vote.token);
                undo.call.may_be_shared = vote.mode == Mode::Shared;
                Some(undo)
            }
            _ => None,
        }
    }
}

/// A release that is not acknowledged.
#[derive(Debug)]
pub(crate) struct PendingRelease {
    pub(crate) request: Request,
    pub(crate) call: ReleaseCall,
    /// Until when it must be sent again; `None` before it first failed.
    pub(crate) until: Option<Moment>,
    /// On the first release of a batch: how many share one reply.
    pub(crate) batch: u32,
    /// Whether the script's text is sent instead of its hash, because the server does not have it.
    pub(crate) sends_script: bool,
    /// Whether it may go without the script.
    pub(crate) is_fast: bool,
}

impl PendingRelease {
    /// The release that `request` asks for; the request itself if it asks for something else.
    pub(crate) fn new(request: Request) -> Result<Self, Request> {
        match *request.command() {
            Command::Release { token, quiet, ref stored_after_token, forced, may_be_shared, .. } => {
                let is_fast = stored_after_token.is_some() && !forced && !may_be_shared;
                let call = ReleaseCall { token, renews_fence_ttl: false, quiet, may_be_shared, forced };
                Ok(Self { request, call, until: None, batch: 0, sends_script: false, is_fast })
            }
            _ => Err(request),
        }
    }

    /// A release that no caller waits for: an undo of our own.
    pub(crate) fn without_reply(name: Name, token: Token) -> Self {
        let (quiet, stored_after_token, may_be_shared, forced) = (false, None, false, false);
        let call = ReleaseCall { token, renews_fence_ttl: false, quiet, may_be_shared, forced };
        let command = Command::Release { name, token, quiet, stored_after_token, may_be_shared, forced };
        let request = Request::without_reply(command);
        Self { request, call, until: None, batch: 0, sends_script: false, is_fast: false }
    }

    pub(crate) fn name(&self) -> &Name {
        self.request.command().name()
    }

    /// The release as the script takes it.
    pub(crate) fn as_call(&self) -> (&Name, &ReleaseCall) {
        (self.name(), &self.call)
    }
}

/// A command that a script of its own executes.
#[derive(Debug)]
pub(crate) struct PendingUpdate {
    pub(crate) request: Request,
    pub(crate) call: UpdateCall,
    /// Whether the epoch is read behind it: a vote counts only with that, and a repair may show that the
    /// server has forgotten.
    pub(crate) is_guarded: bool,
}

/// An inspection that lacks the shared holders.
#[derive(Debug)]
pub(crate) struct PendingReaders {
    pub(crate) update: PendingUpdate,
    /// What is known already.
    pub(crate) view: View,
}

#[derive(Debug, Default)]
pub(crate) struct PendingVerify {
    pub(crate) done: Option<oneshot::Sender<Result<(), NodeError>>>,
    /// See [`PendingRelease::sends_script`].
    pub(crate) sends_script: bool,
}

impl Pending {
    /// How many replies it takes.
    pub(crate) fn replies(&self) -> usize {
        match self {
            Pending::Vote(vote) if vote.raises => 2,
            Pending::Inspect(_) => 3,
            _ => 1,
        }
    }

    pub(crate) fn as_release(&self) -> Option<&PendingRelease> {
        match self {
            Pending::Release(release) | Pending::CompareAndDelete(release) => Some(release),
            _ => None,
        }
    }

    /// Separates the release that must be sent again from the caller to answer.
    pub(crate) fn split_release(self) -> (Self, Option<PendingRelease>) {
        match self {
            Pending::Release(mut release) | Pending::CompareAndDelete(mut release) => {
                (Pending::AnswerOnly(release.request.take_responder()), Some(release))
            }
            pending => (pending, None),
        }
    }

    /// Fails it.
    pub(crate) fn fail(self, cause: &NodeError) {
        match self {
            Pending::Vote(PendingVote { request, .. })
            | Pending::Update(PendingUpdate { request, .. })
            | Pending::Release(PendingRelease { request, .. })
            | Pending::CompareAndDelete(PendingRelease { request, .. })
            | Pending::Inspect(request)
            | Pending::Plain(request)
            | Pending::AnswerOnly(request) => request.answer(Reply::failed(cause.clone())),
            Pending::Readers(readers) => readers.update.request.answer(Reply::failed(cause.clone())),
            // The callers may have been dropped, which does no harm.
            Pending::Verify(verify) => drop(verify.done.map(|done| done.send(Err(cause.clone())))),
            Pending::Call(caller) => drop(caller.send(Err(cause.clone()))),
            Pending::Epoch { .. }
            | Pending::HasWaiters
            | Pending::Hint
            | Pending::Subscribe
            | Pending::Waiting
            | Pending::ServerInfo
            | Pending::Sync => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every command in flight is moved several times, so a rare kind must not make all of them larger.
    #[test]
    fn a_pending_reply_is_little_larger_than_a_release() {
        let tag = size_of::<usize>();
        assert!(size_of::<Pending>() <= size_of::<PendingRelease>() + tag, "{}", size_of::<Pending>());
    }
}
