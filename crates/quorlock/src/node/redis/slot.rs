//! What waits for an answer of the server, in the order in which the answers will come.

use super::resp::Value;
use crate::node::{Answer, NodeError, Reply};
use quorlock_core::{Fence, Moment, Name, Token};
use std::time::Duration;
use tokio::sync::oneshot;

/// One thing that waits for one or more replies.
#[derive(Debug)]
pub(super) enum Slot {
    /// Answered by the replies to `SET` and, if it raises, `ZADD`, and counted by the next [`Slot::Epoch`].
    Vote(Vote),
    /// The epoch as it was after all votes before it, without its first `skip` bytes.
    Epoch {
        skip: usize,
    },
    Release(Releasing),
    Change(Change),
    Inspect(Answer),
    /// Answered by a push, or by an error where the user may not subscribe.
    Hints,
    /// Answered when others know that we wait, which costs time and nothing else if it fails.
    Waiting,
    Verify(Verify),
    /// Answered by `INFO`: whether the server can still be a node.
    Survey,
    Call(oneshot::Sender<Result<Value, NodeError>>),
}

#[derive(Debug)]
pub(super) struct Vote {
    pub(super) name: Name,
    pub(super) token: Token,
    pub(super) top_up: bool,
    /// Whether the counter is raised, too.
    pub(super) raises: bool,
    pub(super) answer: Answer,
}

/// A release that is not acknowledged.
#[derive(Debug)]
pub(super) struct Releasing {
    pub(super) name: Name,
    pub(super) token: Token,
    /// `None` if nobody waits for it: an undo of our own, or one sent again.
    pub(super) answer: Option<Answer>,
    /// Until when it is worth sending again; `None` before it first failed.
    pub(super) until: Option<Moment>,
    /// Whether it also tells the name's counter how long to be kept.
    pub(super) keeps: bool,
    /// Whether those who wait are not told.
    pub(super) quiet: bool,
    /// On the first release of a run: how many share one reply.
    pub(super) run: usize,
    /// Whether the script was sent whole, so that the server cannot lack it.
    pub(super) whole: bool,
}

impl Releasing {
    pub(super) fn new(name: Name, token: Token, answer: Option<Answer>) -> Self {
        Self { name, token, answer, until: None, keeps: false, quiet: false, run: 0, whole: false }
    }
}

/// An extend or a stamp.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) name: Name,
    pub(super) token: Token,
    pub(super) kind: ChangeKind,
    pub(super) answer: Answer,
    /// Comes back with the answer, to prove that it is the one to this question.
    pub(super) mark: u64,
    /// See [`Releasing::whole`].
    pub(super) whole: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ChangeKind {
    Extend { ttl: Duration },
    Stamp { at_least: Fence },
}

#[derive(Debug, Default)]
pub(super) struct Verify {
    pub(super) done: Option<oneshot::Sender<Result<(), NodeError>>>,
    /// See [`Releasing::whole`].
    pub(super) whole: bool,
}

impl Slot {
    /// How many replies it takes.
    pub(super) fn replies(&self) -> usize {
        match self {
            Slot::Vote(vote) if vote.raises => 2,
            Slot::Inspect(_) => 3,
            _ => 1,
        }
    }

    pub(super) fn as_release(&self) -> Option<&Releasing> {
        match self {
            Slot::Release(release) => Some(release),
            _ => None,
        }
    }

    /// Fails it; a release comes back, as it is still owed.
    pub(super) fn fail(self, cause: &NodeError) -> Option<Releasing> {
        match self {
            Slot::Vote(Vote { answer, .. }) | Slot::Change(Change { answer, .. }) | Slot::Inspect(answer) => {
                answer.give(Reply::Failed(cause.clone()))
            }
            Slot::Release(mut release) => {
                if let Some(answer) = release.answer.take() {
                    answer.give(Reply::Failed(cause.clone()));
                }
                return Some(release);
            }
            // Whoever waited for these may have gone, which is no harm.
            Slot::Verify(verify) => drop(verify.done.map(|done| done.send(Err(cause.clone())))),
            Slot::Call(caller) => drop(caller.send(Err(cause.clone()))),
            Slot::Epoch { .. } | Slot::Hints | Slot::Waiting | Slot::Survey => {}
        }
        None
    }
}
