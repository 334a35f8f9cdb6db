//! One command to several nodes at the same moment, and their replies as they come.

use crate::node::Board;
use crate::node::{Answer, Command, Node, NodeError, Reply};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::time::Sleep;

/// A round under way. Dropping it forgets the replies, never the commands.
#[derive(Debug)]
pub(crate) struct Round {
    board: Arc<Board>,
    open: Vec<usize>,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Round {
    /// Sends `command` to the nodes with the numbers `to`. When this returns, it is on its way to all of them.
    pub(crate) fn send(
        nodes: &[Arc<dyn Node>],
        to: impl IntoIterator<Item = usize>,
        command: &Command,
        timeout: Duration,
    ) -> Self {
        let (board, open) = enqueue(nodes, to, command);
        Self { board, open, timeout, timer: Box::pin(tokio::time::sleep(timeout)) }
    }

    /// The next reply with its node's number; nodes that stay silent past the timeout fail. `None` after the last.
    ///
    /// # Cancel safety
    /// Cancel safe: a reply that is not returned is not taken.
    pub(crate) async fn next(&mut self) -> Option<(usize, Reply)> {
        if self.open.is_empty() {
            return None;
        }
        let (node, reply) = poll_fn(|context| {
            while let Poll::Ready((node, reply)) = self.board.poll_take(context) {
                // A node that timed out has been counted; what it says after that is too late.
                if self.open.contains(&node) {
                    return Poll::Ready((node, reply));
                }
            }
            match self.timer.as_mut().poll(context) {
                Poll::Ready(()) => {
                    Poll::Ready((self.open[0], Reply::Failed(NodeError::Timeout { after: self.timeout })))
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        self.open.retain(|open| *open != node);
        Some((node, reply))
    }
}

/// Sends `command` without waiting for any reply: for undo and drop, from any thread.
pub(crate) fn send_and_forget(
    nodes: &[Arc<dyn Node>],
    to: impl IntoIterator<Item = usize>,
    command: &Command,
) {
    enqueue(nodes, to, command);
}

fn enqueue(
    nodes: &[Arc<dyn Node>],
    to: impl IntoIterator<Item = usize>,
    command: &Command,
) -> (Arc<Board>, Vec<usize>) {
    let board = Board::for_replies(nodes.len());
    let open: Vec<usize> = to.into_iter().collect();
    for &node in &open {
        nodes[node].send(command, Answer::new(board.clone(), node));
    }
    (board, open)
}
