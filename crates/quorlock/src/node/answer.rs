//! Where a node's reply goes, and where the replies of one round are collected.

use super::command::Reply;
use super::error::NodeError;
use std::future::{Future, poll_fn};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The place for one node's reply. Given once; dropped without a reply it counts as [`NodeError::Abandoned`].
#[derive(Debug)]
#[must_use = "a node that does not answer counts as failed"]
pub struct Answer {
    board: Option<Arc<Board>>,
    node: usize,
}

impl Answer {
    pub(crate) fn new(board: Arc<Board>, node: usize) -> Self {
        Self { board: Some(board), node }
    }

    /// An answer and the future of its reply, for nodes that stand before other nodes.
    pub fn channel() -> (Self, impl Future<Output = Reply> + Send + 'static) {
        let board = Board::for_replies(1);
        let reply = board.clone();
        (Self::new(board, 0), async move { poll_fn(|context| reply.poll_take(context)).await.1 })
    }

    /// An answer that nobody waits for.
    pub fn discarded() -> Self {
        Self { board: None, node: 0 }
    }

    /// Hands the reply to whoever asked. Never blocks.
    pub fn give(mut self, reply: Reply) {
        if let Some(board) = self.board.take() {
            board.post(self.node, reply);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(board) = self.board.take() {
            board.post(self.node, Reply::Failed(NodeError::Abandoned));
        }
    }
}

/// The replies of one round that were given and not yet taken.
#[derive(Debug, Default)]
pub(crate) struct Board(Mutex<Posts>);

#[derive(Debug, Default)]
struct Posts {
    replies: Vec<(usize, Reply)>,
    reader: Option<Waker>,
}

impl Board {
    pub(crate) fn for_replies(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Posts { replies: Vec::with_capacity(count), reader: None })))
    }

    fn post(&self, node: usize, reply: Reply) {
        let reader = {
            let mut posts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            posts.replies.push((node, reply));
            posts.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Takes a reply, the oldest first.
    pub(crate) fn poll_take(&self, context: &Context<'_>) -> Poll<(usize, Reply)> {
        let mut posts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if posts.replies.is_empty() {
            posts.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(posts.replies.remove(0))
    }
}
