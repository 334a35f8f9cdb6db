//! The work that waits for one name, in its order.

use crate::context::mutex::Mutex;
use crate::node::engine::health::QueuedCount;
use crate::node::{Request, Wakeup};
use std::collections::VecDeque;
use std::sync::MutexGuard;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// One piece of work for a name.
#[derive(Debug)]
pub(crate) enum Work {
    Request(QueuedRequest),
    Watch {
        wakeup: Wakeup,
        /// The position in the store's history from which hints are given.
        since: u64,
    },
    Unwatch,
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct QueuedRequest {
    pub(crate) request: Request,
    pub(crate) since: Instant,
    /// Counts the request as waiting until it is dropped.
    pub(crate) counted: QueuedCount,
}

/// The work of one name that its task has not taken yet.
#[derive(Debug, Default)]
pub(crate) struct NameQueue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    work: VecDeque<Work>,
    /// Whether the task of this queue has ended.
    is_over: bool,
}

impl NameQueue {
    pub(crate) fn with(work: Work) -> Self {
        let waiting = Waiting { work: VecDeque::from([work]), is_over: false };
        Self { waiting: Mutex::new(waiting), arrived: Notify::new() }
    }

    /// Enqueues `work`; returns it if the task of this queue has ended.
    pub(crate) fn push(&self, work: Work) -> Result<(), Work> {
        let mut waiting = self.waiting();
        if waiting.is_over {
            return Err(work);
        }
        waiting.work.push_back(work);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Marks the task as ended, in whatever way it ended.
    pub(crate) fn close(&self) {
        let left = {
            let mut waiting = self.waiting();
            waiting.is_over = true;
            std::mem::take(&mut waiting.work)
        };
        drop(left);
    }

    /// Whether the task of this queue has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting().is_over
    }

    /// The next thing to do. Waits for it while `stays` is set: a watch or a failed release keeps the
    /// task.
    pub(crate) async fn next(&self, stays: bool, until: Option<Instant>) -> Next {
        loop {
            {
                let mut waiting = self.waiting();
                match waiting.work.pop_front() {
                    Some(work) => return Next::Work(work),
                    None if !stays => {
                        waiting.is_over = true;
                        return Next::Over;
                    }
                    None => {}
                }
            }
            match until {
                None => self.arrived.notified().await,
                Some(until) if timeout_at(until, self.arrived.notified()).await.is_err() => return Next::Due,
                Some(_) => {}
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

/// What to do next.
pub(crate) enum Next {
    Work(Work),
    /// A release that failed is to be tried again.
    Due,
    Over,
}
