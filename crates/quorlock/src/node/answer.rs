//! Where a node's reply goes, and where the replies of one round are collected.

use super::command::Reply;
use super::error::NodeError;
use quorlock_core::Quorum;
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
        let board = Board::new(Enough::ONE);
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

/// How many replies decide a round: so many nodes that did it, or so many that did not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Enough {
    done: usize,
    undone: usize,
}

impl Enough {
    /// Any reply.
    pub(crate) const ONE: Self = Self { done: 1, undone: 1 };

    /// A majority of all nodes, or so many that the others are none.
    pub(crate) fn of(quorum: Quorum) -> Self {
        Self { done: quorum.needed(), undone: quorum.spare() + 1 }
    }

    /// Counts down; whether it is enough.
    fn count(&mut self, reply: &Reply) -> bool {
        let kind = if matches!(reply, Reply::Done(_)) { &mut self.done } else { &mut self.undone };
        *kind = kind.saturating_sub(1);
        self.done == 0 || self.undone == 0
    }
}

/// The replies of one round that were given and not yet taken.
#[derive(Debug)]
pub(crate) struct Board(Mutex<Posts>);

#[derive(Debug)]
struct Posts {
    replies: Replies,
    /// What must still come before the reader is woken.
    missing: Enough,
    reader: Option<Waker>,
}

impl Board {
    /// A board whose reader can do nothing with less than `enough`, and is not woken for it.
    pub(crate) fn new(enough: Enough) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Posts { replies: Replies::new(), missing: enough, reader: None })))
    }

    fn post(&self, node: usize, reply: Reply) {
        let reader = {
            let mut posts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let is_enough = posts.missing.count(&reply);
            posts.replies.push((node, reply));
            if is_enough { posts.reader.take() } else { None }
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
        // y = done, n = not done: how often the reader was woken after each reply
        let table = [
            (5, "yyyyy", [0, 0, 1, 2, 3]),
            (5, "nnyyy", [0, 0, 0, 0, 1]),
            (5, "nynyn", [0, 0, 0, 0, 1]),
            (5, "nnnyy", [0, 0, 1, 2, 3]),
            (4, "nyny", [0, 0, 1, 2, 2]),
            (2, "ny", [1, 2, 2, 2, 2]),
            (1, "y", [1, 1, 1, 1, 1]),
        ];
        for (nodes, replies, woken) in table {
            let board = Board::new(Enough::of(Quorum::of(nodes).unwrap()));
            let count = Arc::new(Count::default());
            let waker = Waker::from(count.clone());
            let context = Context::from_waker(&waker);
            for (node, reply) in replies.chars().enumerate() {
                assert!(board.poll_take(&context).is_pending());
                let failed = Reply::Failed(NodeError::Abandoned);
                board.post(node, if reply == 'y' { Reply::Done(Done::Plain) } else { failed });
                assert_eq!(count.0.load(Ordering::Relaxed), woken[node], "{replies} at {node}");
                assert!(matches!(board.poll_take(&context), Poll::Ready(taken) if taken[0].0 == node));
            }
        }
    }
}
