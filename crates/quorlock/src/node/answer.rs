//! Where a node's reply goes, and where the replies of one round are collected.

use super::command::Reply;
use super::error::NodeError;
use smallvec::SmallVec;
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
        let board = Board::new(1);
        let given = board.clone();
        let reply = async move {
            let mut replies = poll_fn(|context| given.poll_take(context)).await;
            replies.pop().map_or(Reply::Failed(NodeError::Abandoned), |(_, reply)| reply)
        };
        (Self::new(board, 0), reply)
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

/// Replies of one round with their nodes' numbers. Five or fewer need no memory of their own.
pub(crate) type Replies = SmallVec<[(usize, Reply); 5]>;

/// The replies of one round that were given and not yet taken.
#[derive(Debug)]
pub(crate) struct Board(Mutex<Posts>);

#[derive(Debug)]
struct Posts {
    replies: Replies,
    /// How many more replies must come before the reader is woken.
    unready: usize,
    reader: Option<Waker>,
}

impl Board {
    /// A board whose reader can do nothing with fewer than `enough` replies, and is not woken for them.
    pub(crate) fn new(enough: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Posts { replies: Replies::new(), unready: enough, reader: None })))
    }

    fn post(&self, node: usize, reply: Reply) {
        let reader = {
            let mut posts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            posts.replies.push((node, reply));
            posts.unready = posts.unready.saturating_sub(1);
            if posts.unready == 0 { posts.reader.take() } else { None }
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Takes all replies that have come, the oldest first. If there are none, the reader is woken once there are enough.
    pub(crate) fn poll_take(&self, context: &Context<'_>) -> Poll<Replies> {
        let mut posts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if posts.replies.is_empty() {
            posts.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut posts.replies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Done;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn the_reader_is_woken_when_there_is_enough_and_for_each_reply_after_that() {
        let (board, count) = (Board::new(3), Arc::new(Count::default()));
        let waker = Waker::from(count.clone());
        let context = Context::from_waker(&waker);
        let mut seen = Vec::new();
        for node in 0..5 {
            assert!(board.poll_take(&context).is_pending());
            board.post(node, Reply::Done(Done::Plain));
            seen.push(count.0.load(Ordering::Relaxed));
            assert!(matches!(board.poll_take(&context), Poll::Ready(replies) if replies[0].0 == node));
        }
        assert_eq!(seen, [0, 0, 1, 2, 3]);
    }
}
