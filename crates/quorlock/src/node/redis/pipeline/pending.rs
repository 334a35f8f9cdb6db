//! What waits for an answer of the server, in the order in which the answers will come.

use crate::node::redis::protocol::commands::{ReleaseCall, UpdateCall};
use crate::node::redis::protocol::resp::Value;
use crate::node::{Command, NodeError, Question, Reply};
use quorlock_core::{Moment, Name, Token};
use tokio::sync::oneshot;

/// One thing that waits for one or more replies.
#[derive(Debug)]
pub(crate) enum Slot {
    /// Answered by the replies to `SET` and, if it raises, `ZADD`, and counted by the next [`Slot::Epoch`].
    Vote(Vote),
    /// The epoch as it was after all votes before it, without its first `skip` bytes.
    Epoch {
        skip: usize,
    },
    Release(Releasing),
    /// A release without the script, counted by the next [`Slot::Awaited`].
    Fast(Releasing),
    /// Whether somebody waits for anything.
    Awaited,
    /// Answered when those who wait were told.
    Hinted,
    Change(Change),
    Inspect(Question),
    /// Answered by a push, or by an error where the user may not subscribe.
    Hints,
    /// Answered when others know that we wait, which costs time and nothing else if it fails.
    Waiting,
    Verify(Verify),
    /// Answered by `INFO`: whether the server can still be a node.
    Survey,
    /// Answered by when a server that is marked durable syncs its file.
    Sync,
    Call(oneshot::Sender<Result<Value, NodeError>>),
}

#[derive(Debug)]
pub(crate) struct Vote {
    pub(crate) question: Question,
    /// Whether the counter is raised, too.
    pub(crate) raises: bool,
}

impl Vote {
    /// What undoes it, with nobody to hear of it.
    pub(crate) fn undo(&self) -> Option<Releasing> {
        match self.question.command() {
            Command::Acquire(vote) => Some(Releasing::unheard(vote.name.clone(), vote.token)),
            _ => None,
        }
    }
}

/// A release that is not acknowledged.
#[derive(Debug)]
pub(crate) struct Releasing {
    pub(crate) question: Question,
    pub(crate) call: ReleaseCall,
    /// Until when it is worth sending again; `None` before it first failed.
    pub(crate) until: Option<Moment>,
    /// On the first release of a run: how many share one reply.
    pub(crate) run: u32,
    /// Whether the script was sent whole, so that the server cannot lack it.
    pub(crate) whole: bool,
    /// Whether it may go without the script.
    pub(crate) is_fast: bool,
}

impl Releasing {
    /// The release of `token` that `question` asks for.
    pub(crate) fn new(question: Question, token: Token, quiet: bool) -> Self {
        let command = question.command();
        let is_fast = matches!(command, Command::Release { behind: Some(_), forced: false, .. });
        let forced = matches!(command, Command::Release { forced: true, .. });
        let call = ReleaseCall { token, keeps: false, quiet, forced };
        Self { question, call, until: None, run: 0, whole: false, is_fast }
    }

    /// A release that nobody waits for: an undo of our own.
    pub(crate) fn unheard(name: Name, token: Token) -> Self {
        let command = Command::Release { name, token, quiet: false, behind: None, forced: false };
        Self::new(Question::unheard(command), token, false)
    }

    pub(crate) fn name(&self) -> &Name {
        self.question.command().name()
    }

    /// As the script takes it.
    pub(crate) fn as_call(&self) -> (&Name, &ReleaseCall) {
        (self.name(), &self.call)
    }
}

/// An extend, a stamp or a refill.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) question: Question,
    pub(crate) call: UpdateCall,
}

#[derive(Debug, Default)]
pub(crate) struct Verify {
    pub(crate) done: Option<oneshot::Sender<Result<(), NodeError>>>,
    /// See [`Releasing::whole`].
    pub(crate) whole: bool,
}

impl Slot {
    /// How many replies it takes.
    pub(crate) fn replies(&self) -> usize {
        match self {
            Slot::Vote(vote) if vote.raises => 2,
            Slot::Inspect(_) => 3,
            _ => 1,
        }
    }

    pub(crate) fn as_release(&self) -> Option<&Releasing> {
        match self {
            Slot::Release(release) | Slot::Fast(release) => Some(release),
            _ => None,
        }
    }

    /// Takes out the release that is still owed if this fails. What is left only answers whoever asked.
    pub(crate) fn owed(self) -> (Self, Option<Releasing>) {
        match self {
            Slot::Release(mut release) | Slot::Fast(mut release) => {
                (Slot::Inspect(release.question.split()), Some(release))
            }
            slot => (slot, None),
        }
    }

    /// Fails it.
    pub(crate) fn fail(self, cause: &NodeError) {
        match self {
            Slot::Vote(Vote { question, .. })
            | Slot::Change(Change { question, .. })
            | Slot::Release(Releasing { question, .. })
            | Slot::Fast(Releasing { question, .. })
            | Slot::Inspect(question) => question.answer(Reply::failed(cause.clone())),
            // Whoever waited for these may have gone, which is no harm.
            Slot::Verify(verify) => drop(verify.done.map(|done| done.send(Err(cause.clone())))),
            Slot::Call(caller) => drop(caller.send(Err(cause.clone()))),
            Slot::Epoch { .. }
            | Slot::Awaited
            | Slot::Hinted
            | Slot::Hints
            | Slot::Waiting
            | Slot::Survey
            | Slot::Sync => {}
        }
    }
}
