//! One command to several nodes at the same moment, and their replies as they come.

use crate::node::{Board, Command, Enough, Node, NodeError, Question, Replies, Reply};
use pin_project_lite::pin_project;
use quorlock_core::NodeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

/// A round under way. Dropping it forgets the replies, never the commands.
///
/// It has memory of its own, of that which is used again and again: a task that holds a lock or waits for one may be one of
/// thousands, and cold.
#[derive(Debug)]
pub(crate) struct Round(Pin<Box<Hearing>>);

impl Round {
    /// Sends `command` to the nodes `to`, as [`Hearing::begin`].
    pub(crate) fn send(
        nodes: &[Arc<dyn Node>],
        to: NodeSet,
        command: Command,
        timeout: Duration,
        enough: Enough,
    ) -> Self {
        Self(Box::pin(Hearing::begin(nodes, to, command, timeout, enough)))
    }

    /// What was sent.
    pub(crate) fn command(&self) -> &Command {
        self.0.board.command()
    }

    /// As [`Hearing::next`].
    ///
    /// # Cancel safety
    /// Cancel safe: a reply that is not returned is not taken.
    pub(crate) async fn next(&mut self) -> Option<(usize, Reply)> {
        self.0.as_mut().next().await
    }
}

pin_project! {
    /// A round that stays where it is.
    #[derive(Debug)]
    pub(crate) struct Hearing {
        board: Arc<Board>,
        // Nodes that have not been counted.
        open: NodeSet,
        // Replies that were taken from the board and not given out.
        taken: <Replies as IntoIterator>::IntoIter,
        timeout: Duration,
        #[pin]
        timer: Sleep,
    }
}

impl Hearing {
    /// Sends `command` to the nodes `to`. When this returns, it is on its way to all of them.
    ///
    /// [`Hearing::next`] sleeps until there is `enough` for the caller to decide on.
    pub(crate) fn begin(
        nodes: &[Arc<dyn Node>],
        to: NodeSet,
        command: Command,
        timeout: Duration,
        enough: Enough,
    ) -> Self {
        let board = enqueue(nodes, to, command, enough);
        Self { board, open: to, taken: Replies::new().into_iter(), timeout, timer: sleep(timeout) }
    }

    /// The next reply with its node's number; nodes that stay silent past the timeout fail. `None` after the last.
    ///
    /// # Cancel safety
    /// Cancel safe: a reply that is not returned is not taken.
    pub(crate) async fn next(mut self: Pin<&mut Self>) -> Option<(usize, Reply)> {
        if self.open.is_empty() {
            return None;
        }
        let (node, reply) = poll_fn(|context| self.as_mut().poll_reply(context)).await;
        self.project().open.remove(node);
        Some((node, reply))
    }

    fn poll_reply(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(usize, Reply)> {
        let this = self.project();
        loop {
            // A node that timed out has been counted; what it says after that is too late.
            if let Some((node, reply)) = this.taken.find(|(node, _)| this.open.contains(*node)) {
                return Poll::Ready((node, reply));
            }
            match this.board.poll_take(context) {
                Poll::Ready(replies) => *this.taken = replies.into_iter(),
                Poll::Pending => break,
            }
        }
        let silent = this.open.iter().next();
        match (this.timer.poll(context), silent) {
            (Poll::Ready(()), Some(node)) => {
                Poll::Ready((node, Reply::failed(NodeError::Timeout { after: *this.timeout })))
            }
            _ => Poll::Pending,
        }
    }
}

/// Sends `command` without waiting for any reply: for undo and drop, from any thread.
pub(crate) fn send_and_forget(nodes: &[Arc<dyn Node>], to: NodeSet, command: Command) {
    let mut question = Question::unheard(command);
    for node in to.iter() {
        nodes[node].send(question.split());
    }
}

fn enqueue(nodes: &[Arc<dyn Node>], to: NodeSet, command: Command, enough: Enough) -> Arc<Board> {
    let board = Board::new(command, enough);
    for node in to.iter() {
        nodes[node].send(Question::new(&board, node));
    }
    board
}
