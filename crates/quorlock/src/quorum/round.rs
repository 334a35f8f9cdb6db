//! One command, or one for each of several names, to several nodes at the same moment, and their replies as they come.

use crate::node::{Command, Commands, Node, NodeError, Replies, Reply, Request, RoundReplies, WakeThreshold};
use pin_project_lite::pin_project;
use quorlock_core::NodeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Sleep, sleep};

pin_project! {
    /// A round under way. Dropping it forgets the replies, never the commands.
    ///
    /// A future that exists by the thousand boxes its rounds, to stay small itself.
    #[derive(Debug)]
    pub(crate) struct Round {
        replies: Arc<RoundReplies>,
        // Nodes that have not been counted.
        open: NodeSet,
        // Replies that were taken out and not returned yet, the oldest last.
        taken: Replies,
        timeout: Duration,
        #[pin]
        timer: Sleep,
    }
}

impl Round {
    /// Sends `commands` to the nodes `to`. When this returns, they are on their way to all of them.
    ///
    /// [`Round::next`] sleeps until `wake_at` is reached: with fewer replies the caller cannot decide.
    pub(crate) fn send(
        nodes: &[Arc<dyn Node>],
        to: NodeSet,
        commands: Commands,
        timeout: Duration,
        wake_at: WakeThreshold,
    ) -> Self {
        let replies = RoundReplies::new(commands, wake_at);
        for node in to.iter() {
            for part in 0..replies.commands().len() {
                nodes[node].send(Request::new(&replies, node, part));
            }
        }
        Self { replies, open: to, taken: Replies::new(), timeout, timer: sleep(timeout) }
    }

    /// What was sent.
    pub(crate) fn commands(&self) -> &Commands {
        self.replies.commands()
    }

    /// The next reply with its node's number; nodes that stay silent past the timeout fail. `None` after
    /// the last.
    ///
    /// # Cancel safety
    /// Cancel safe: a reply that is not returned is not taken.
    pub(crate) async fn next(mut self: Pin<&mut Self>) -> Option<(usize, Reply)> {
        if self.open.is_empty() {
            return None;
        }
        let (node, reply) = poll_fn(|task| self.as_mut().poll_reply(task)).await;
        self.project().open.remove(node);
        Some((node, reply))
    }

    fn poll_reply(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<(usize, Reply)> {
        let this = self.project();
        loop {
            // A node that timed out has been counted; a reply after that is too late.
            while let Some((node, reply)) = this.taken.pop() {
                if this.open.contains(node) {
                    return Poll::Ready((node, reply));
                }
            }
            if this.replies.poll_take(task, this.taken).is_pending() {
                break;
            }
            this.taken.reverse();
        }
        let silent = this.open.iter().next();
        match (this.timer.poll(task), silent) {
            (Poll::Ready(()), Some(node)) => {
                Poll::Ready((node, Reply::failed(NodeError::Timeout { after: *this.timeout })))
            }
            _ => Poll::Pending,
        }
    }
}

/// Sends `command` without waiting for any reply: for undo and drop, from any thread.
pub(crate) fn send_without_reply(nodes: &[Arc<dyn Node>], to: NodeSet, command: Command) {
    let mut request = Request::without_reply(command);
    for node in to.iter() {
        nodes[node].send(request.take_responder());
    }
}
