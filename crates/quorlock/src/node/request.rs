//! One command on its way to one node, and the collection of a round's replies.

use crate::context::mutex::Mutex;
use crate::error::node::NodeError;
use crate::node::command::{Command, Reply};
use quorlock_core::Quorum;
use smallvec::SmallVec;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// One command on its way to one node. It is answered once; dropped without an answer it counts as
/// [`NodeError::Abandoned`].
///
/// All nodes of a round share the command, so that a request is no larger than two words.
#[derive(Debug)]
#[must_use = "a node that does not answer counts as failed"]
pub struct Request {
    round: Arc<RoundReplies>,
    node: u32,
    is_open: bool,
}

impl Request {
    pub(crate) fn new(round: &Arc<RoundReplies>, node: usize) -> Self {
        // There are 31 nodes at most.
        Self { round: round.clone(), node: node as u32, is_open: true }
    }

    /// A request and the future of its reply, for nodes that wrap other nodes.
    pub fn channel(command: Command) -> (Self, impl Future<Output = Reply> + Send + 'static) {
        let round = RoundReplies::new(command, WakeThreshold::ONE);
        let request = Self::new(&round, 0);
        let reply = async move {
            let mut replies = poll_fn(|context| round.poll_take(context)).await;
            replies.pop().map_or(Reply::failed(NodeError::Abandoned), |(_, reply)| reply)
        };
        (request, reply)
    }

    /// A request without a caller that waits for its answer.
    pub fn without_reply(command: Command) -> Self {
        Self { round: RoundReplies::new(command, WakeThreshold::ONE), node: 0, is_open: false }
    }

    /// What the node is asked to do.
    pub fn command(&self) -> &Command {
        &self.round.command
    }

    /// Hands the reply to the caller. Never blocks.
    pub fn answer(mut self, reply: Reply) {
        self.push(reply);
    }

    /// Takes the right to answer out; the command stays, for a node that still needs it.
    pub(crate) fn take_responder(&mut self) -> Self {
        let is_open = std::mem::take(&mut self.is_open);
        Self { round: self.round.clone(), node: self.node, is_open }
    }

    fn push(&mut self, reply: Reply) {
        if std::mem::take(&mut self.is_open) {
            self.round.push(self.node as usize, reply);
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if self.is_open {
            self.push(Reply::failed(NodeError::Abandoned));
        }
    }
}

/// Replies of one round with their nodes' numbers. Five or fewer need no memory of their own.
pub(crate) type Replies = SmallVec<[(usize, Reply); 5]>;

/// How many replies decide a round: this many nodes that did it, or this many that did not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakeThreshold {
    done: usize,
    undone: usize,
}

impl WakeThreshold {
    /// Any reply.
    pub(crate) const ONE: Self = Self { done: 1, undone: 1 };

    /// A majority of all nodes, or as many failures as make a majority impossible.
    pub(crate) fn majority(quorum: Quorum) -> Self {
        Self { done: quorum.needed(), undone: quorum.spare() + 1 }
    }

    /// Counts down; whether it is enough.
    fn count(&mut self, reply: &Reply) -> bool {
        let kind = if matches!(reply, Reply::Done(_)) { &mut self.done } else { &mut self.undone };
        *kind = kind.saturating_sub(1);
        self.done == 0 || self.undone == 0
    }
}

/// The command of one round, and the replies that were given and not yet taken.
#[derive(Debug)]
pub(crate) struct RoundReplies {
    command: Command,
    collected: Mutex<Collected>,
}

#[derive(Debug)]
struct Collected {
    replies: Replies,
    /// What must still come before the reader is woken.
    missing: WakeThreshold,
    reader: Option<Waker>,
}

impl RoundReplies {
    /// The replies to `command`. The reader is not woken before `wake_at`: with fewer it cannot decide.
    pub(crate) fn new(command: Command, wake_at: WakeThreshold) -> Arc<Self> {
        let collected = Collected { replies: Replies::new(), missing: wake_at, reader: None };
        Arc::new(Self { command, collected: Mutex::new(collected) })
    }

    pub(crate) fn command(&self) -> &Command {
        &self.command
    }

    fn push(&self, node: usize, reply: Reply) {
        let reader = {
            let mut collected = self.collected.lock();
            let is_enough = collected.missing.count(&reply);
            collected.replies.push((node, reply));
            if is_enough { collected.reader.take() } else { None }
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Takes all replies that have come, the oldest first. If there are none, the reader is woken once
    /// there are enough.
    pub(crate) fn poll_take(&self, context: &Context<'_>) -> Poll<Replies> {
        let mut collected = self.collected.lock();
        if collected.replies.is_empty() {
            collected.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(std::mem::take(&mut collected.replies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::Done;
    use quorlock_core::Name;
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
            let command = Command::Inspect { name: Name::new("a").unwrap() };
            let round = RoundReplies::new(command, WakeThreshold::majority(Quorum::of(nodes).unwrap()));
            let count = Arc::new(Count::default());
            let waker = Waker::from(count.clone());
            let context = Context::from_waker(&waker);
            for (node, reply) in replies.chars().enumerate() {
                assert!(round.poll_take(&context).is_pending());
                let failed = Reply::failed(NodeError::Abandoned);
                round.push(node, if reply == 'y' { Reply::Done(Done::Plain) } else { failed });
                assert_eq!(count.0.load(Ordering::Relaxed), woken[node], "{replies} at {node}");
                assert!(matches!(round.poll_take(&context), Poll::Ready(taken) if taken[0].0 == node));
            }
        }
    }
}
