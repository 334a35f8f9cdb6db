//! What waits to be done for one name, in its order.

use crate::context::mutex::Mutex;
use crate::node::etcd::health::Counted;
use crate::node::{Request, Wakeup};
use std::collections::VecDeque;
use std::sync::MutexGuard;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// What is to be done for a name.
#[derive(Debug)]
pub(crate) enum Work {
    Ask(Asked),
    Watch(Wakeup),
    Unwatch,
}

/// A question that waits.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) since: Instant,
    /// It counts as long as this lives.
    pub(crate) counted: Counted,
}

/// What waits for its turn.
#[derive(Debug, Default)]
pub(crate) struct NameQueue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    work: VecDeque<Work>,
    /// Whether whoever walked it has left.
    is_over: bool,
}

impl NameQueue {
    pub(crate) fn with(work: Work) -> Self {
        let waiting = Waiting { work: VecDeque::from([work]), is_over: false };
        Self { waiting: Mutex::new(waiting), arrived: Notify::new() }
    }

    /// Puts `work` behind what waits; gives it back if nobody walks this lane any more.
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

    /// Nobody walks it any more, whatever became of whoever did.
    pub(crate) fn close(&self) {
        let left = {
            let mut waiting = self.waiting();
            waiting.is_over = true;
            std::mem::take(&mut waiting.work)
        };
        drop(left);
    }

    /// Whether nobody walks it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting().is_over
    }

    /// The next thing to do, waiting for it as long as a watch or a debt keeps somebody here.
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
