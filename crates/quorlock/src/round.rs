//! One command to several nodes at the same moment, and their replies as they come.

use crate::node::{Board, Command, Enough, Node, NodeError, Question, Replies, Reply};
use quorlock_core::NodeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;

/// A round under way. Dropping it forgets the replies, never the commands.
#[derive(Debug)]
pub(crate) struct Round {
    board: Arc<Board>,
    /// Nodes that have not been counted.
    open: NodeSet,
    /// Replies that were taken from the board and not given out.
    taken: <Replies as IntoIterator>::IntoIter,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Round {
    /// Sends `command` to the nodes `to`. When this returns, it is on its way to all of them.
    ///
    /// [`Round::next`] sleeps until there is `enough` for the caller to decide on.
    pub(crate) fn send(
        nodes: &[Arc<dyn Node>],
        to: NodeSet,
        command: Command,
        timeout: Duration,
        enough: Enough,
    ) -> Self {
        let board = enqueue(nodes, to, command, enough);
        let timer = Box::pin(tokio::time::sleep(timeout));
        Self { board, open: to, taken: Replies::new().into_iter(), timeout, timer }
    }

    /// What was sent.
    pub(crate) fn command(&self) -> &Command {
        self.board.command()
    }

    /// The next reply with its node's number; nodes that stay silent past the timeout fail. `None` after the last.
    ///
    /// # Cancel safety
    /// Cancel safe: a reply that is not returned is not taken.
    pub(crate) async fn next(&mut self) -> Option<(usize, Reply)> {
        if self.open.is_empty() {
            return None;
        }
        let (node, reply) = poll_fn(|context| self.poll_reply(context)).await;
        self.open.remove(node);
        Some((node, reply))
    }

    fn poll_reply(&mut self, context: &mut Context<'_>) -> Poll<(usize, Reply)> {
        loop {
            // A node that timed out has been counted; what it says after that is too late.
            if let Some((node, reply)) = self.taken.find(|(node, _)| self.open.contains(*node)) {
                return Poll::Ready((node, reply));
            }
            match self.board.poll_take(context) {
                Poll::Ready(replies) => self.taken = replies.into_iter(),
                Poll::Pending => break,
            }
        }
        let silent = self.open.iter().next();
        match (self.timer.as_mut().poll(context), silent) {
            (Poll::Ready(()), Some(node)) => {
                Poll::Ready((node, Reply::Failed(NodeError::Timeout { after: self.timeout })))
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
