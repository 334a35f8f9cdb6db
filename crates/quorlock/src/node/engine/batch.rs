//! Changes of many names, sent together: one request for all that wait while others are under way.
//!
//! A store takes about as long for one change as for many, because it writes them to disk together.
//! A change is sent at once unless enough requests are under way, so a lone client waits for no other.

use crate::context::mutex::Mutex;
use crate::node::NodeError;
use crate::node::engine::Failure;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// Sends changes of one kind.
pub(crate) trait Batching: Send + Sync + Sized + 'static {
    type Change: Send + 'static;
    type Answer: Send + 'static;
    type Error: From<Failure> + Send + 'static;

    /// Its changes that wait.
    fn batch(&self) -> &Batch<Self>;

    /// How many bytes `change` adds to a request.
    fn size(change: &Self::Change) -> usize;

    /// Sends `changes`, which concern different names, and answers each of them.
    fn send(self: &Arc<Self>, changes: Vec<Change<Self>>) -> impl Future<Output = ()> + Send;
}

/// How much is sent together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The most requests that are under way before further changes wait.
    pub(crate) under_way: usize,
    /// The most changes in one request.
    pub(crate) changes: usize,
    /// A request that has this many bytes gets no further changes.
    pub(crate) bytes: usize,
}

/// Changes that wait to be sent together.
pub(crate) struct Batch<S: Batching> {
    queue: Mutex<Queue<S>>,
    bounds: Bounds,
    /// How many changes one request may have.
    limit: AtomicUsize,
    /// How long a change may wait before it is sent, and for how long a request keeps others waiting.
    max_wait: Duration,
}

struct Queue<S: Batching> {
    waiting: VecDeque<Change<S>>,
    /// How many requests are under way that keep others waiting.
    under_way: usize,
}

/// One change, and the right to answer it.
pub(crate) struct Change<S: Batching> {
    pub(crate) change: S::Change,
    pub(crate) answer: oneshot::Sender<Result<S::Answer, S::Error>>,
    since: Instant,
    urgency: Urgency,
}

/// Whether a change is still to be made when its caller has given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    WhileAwaited,
    InAnyCase,
}

impl<S: Batching> Batch<S> {
    pub(crate) fn new(bounds: Bounds, max_wait: Duration) -> Self {
        let queue = Mutex::new(Queue { waiting: VecDeque::new(), under_way: 0 });
        Self { queue, bounds, limit: AtomicUsize::new(bounds.changes), max_wait }
    }

    /// Sends each change alone from now on.
    pub(crate) fn send_singly(&self) {
        self.limit.store(1, Ordering::Relaxed);
    }

    /// The changes to send next; those that waited for too long are refused.
    fn take(&self) -> Vec<Change<S>> {
        let limit = self.limit.load(Ordering::Relaxed);
        let (mut taken, mut late, mut bytes) = (Vec::new(), Vec::new(), 0);
        {
            let mut queue = self.queue.lock();
            while taken.len() < limit && bytes < self.bounds.bytes {
                let Some(change) = queue.waiting.pop_front() else { break };
                if change.urgency == Urgency::WhileAwaited && change.since.elapsed() > self.max_wait {
                    late.push(change);
                    continue;
                }
                bytes += S::size(&change.change);
                taken.push(change);
            }
            if taken.is_empty() {
                queue.under_way -= 1;
            }
        }
        for change in late {
            let late = Failure::Unsent(NodeError::Timeout { after: self.max_wait });
            let _ = change.answer.send(Err(late.into()));
        }
        taken
    }

    /// Whether one more request may keep others waiting; it is counted if so.
    fn may_start(&self) -> bool {
        let mut queue = self.queue.lock();
        let may = queue.under_way < self.bounds.under_way && !queue.waiting.is_empty();
        queue.under_way += usize::from(may);
        may
    }
}

impl<S: Batching> fmt::Debug for Batch<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("bounds", &self.bounds).finish_non_exhaustive()
    }
}

/// Makes `change` soon, together with others.
pub(crate) async fn submit<S: Batching>(
    sender: &Arc<S>,
    change: S::Change,
    urgency: Urgency,
) -> Result<S::Answer, S::Error> {
    let (answer, answered) = oneshot::channel();
    let change = Change { change, answer, since: Instant::now(), urgency };
    sender.batch().queue.lock().waiting.push_back(change);
    start_sending(sender);
    answered.await.unwrap_or_else(|_| Err(Failure::Unknown(NodeError::Abandoned).into()))
}

/// Sends what waits, unless enough is under way. It begins behind all tasks that can run now, so that their
/// changes go along.
fn start_sending<S: Batching>(sender: &Arc<S>) {
    if sender.batch().may_start() {
        tokio::spawn(send_all(sender.clone()));
    }
}

/// Sends what waits until nothing does.
async fn send_all<S: Batching>(sender: Arc<S>) {
    let batch = sender.batch();
    loop {
        let changes = batch.take();
        if changes.is_empty() {
            return;
        }
        let mut sending = std::pin::pin!(sender.send(changes));
        if timeout(batch.max_wait, &mut sending).await.is_err() {
            // It must not keep others waiting for longer: another server may answer them.
            batch.queue.lock().under_way -= 1;
            start_sending(&sender);
            sending.await;
            return;
        }
    }
}
