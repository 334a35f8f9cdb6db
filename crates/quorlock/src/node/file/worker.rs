//! The thread that executes the commands of one file node in their order.

use crate::context::mutex::Mutex;
use crate::node::file::failed_releases::FailedReleases;
use crate::node::file::failed_without_path;
use crate::node::file::store::Store;
use crate::node::file::watch::Watches;
use crate::node::limits::RELEASE_HEADROOM;
use crate::node::{Command, NodeError, Reply, Request};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most commands that may wait.
pub(crate) const MAX_WAITING: usize = 4096;
/// How long a retried release may wait for the lock of a file.
const RETRY_LOCK_TIMEOUT: Duration = Duration::from_millis(5);

/// The handle of the thread. Dropping it lets the thread finish what waits, and end.
#[derive(Debug)]
pub(crate) struct Worker(Arc<Queue>);

impl Worker {
    /// A worker whose thread starts, and opens its store, with the first command.
    ///
    /// A release that fails is tried again for `longest_ttl`.
    pub(crate) fn new(
        store: impl FnOnce() -> Store + Send + 'static,
        watches: Arc<Watches>,
        longest_ttl: Duration,
    ) -> Self {
        let failed = FailedReleases::new(longest_ttl);
        Self(Arc::new(Queue {
            jobs: Mutex::new(Jobs {
                unstarted: Some(Box::new(move |queue| queue.work(store(), failed, &watches))),
                waiting: VecDeque::new(),
                trouble: None,
                closed: false,
            }),
            arrived: Condvar::new(),
        }))
    }

    /// Enqueues `request` behind those that wait.
    pub(crate) fn enqueue(&self, request: Request) {
        let limit = match request.command() {
            Command::Release { .. } => MAX_WAITING + RELEASE_HEADROOM,
            _ => MAX_WAITING,
        };
        let mut jobs = self.0.lock();
        if jobs.waiting.len() >= limit {
            drop(jobs);
            return request.answer(Reply::failed(NodeError::QueueFull { limit }));
        }
        if let Some(run) = jobs.unstarted.take() {
            let queue = self.0.clone();
            let thread = std::thread::Builder::new().name("quorlock-file".to_owned());
            if let Err(error) = thread.spawn(move || run(&queue)) {
                // The store was lost with the thread that did not start: this node stays unusable.
                jobs.closed = true;
                jobs.trouble = Some(failed_without_path("cannot start a thread", error));
            }
        }
        if jobs.closed {
            let trouble = jobs.trouble.clone().unwrap_or(NodeError::Abandoned);
            drop(jobs);
            return request.answer(Reply::failed(trouble));
        }
        jobs.waiting.push_back(request);
        drop(jobs);
        self.0.arrived.notify_one();
    }

    /// How many commands wait, and why the last one failed if it did.
    pub(crate) fn health(&self) -> (usize, Option<NodeError>) {
        let jobs = self.0.lock();
        (jobs.waiting.len(), jobs.trouble.clone())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.arrived.notify_one();
    }
}

#[derive(Debug)]
struct Queue {
    jobs: Mutex<Jobs>,
    arrived: Condvar,
}

type Work = Box<dyn FnOnce(&Queue) + Send>;

struct Jobs {
    /// What the thread will run, until it is started.
    unstarted: Option<Work>,
    waiting: VecDeque<Request>,
    trouble: Option<NodeError>,
    closed: bool,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jobs")
            .field("waiting", &self.waiting.len())
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

/// What the thread has to do next.
enum Next {
    Command(Request),
    /// A failed release is due.
    Due,
    /// Nothing any more: the node was dropped.
    Over,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock()
    }

    fn work(&self, mut store: Store, mut failed: FailedReleases, watches: &Watches) {
        let lock_timeout = store.lock_timeout;
        let mut execute = |command: &Command, lock_timeout: Duration| {
            store.lock_timeout = lock_timeout;
            let executed = store.execute(command);
            if executed.freed {
                watches.notify(command.name());
            }
            match &executed.reply {
                Reply::Failed(error) => self.lock().trouble = Some(NodeError::clone(error)),
                // An inspection succeeds even if nothing can be written.
                Reply::Done(_) | Reply::Denied(_) if matches!(command, Command::Inspect { .. }) => {}
                Reply::Done(_) | Reply::Denied(_) => self.lock().trouble = None,
            }
            executed.reply
        };
        let has_succeeded = |reply: Reply| !matches!(reply, Reply::Failed(_));
        loop {
            match self.next(failed.due()) {
                Next::Command(request) => {
                    let reply = execute(request.command(), lock_timeout);
                    if matches!(reply, Reply::Failed(_)) {
                        failed.keep(request.command(), Instant::now());
                    }
                    request.answer(reply);
                }
                // Commands that come in the meantime must not wait for it.
                Next::Due => failed
                    .retry_due(Instant::now(), |release| has_succeeded(execute(release, RETRY_LOCK_TIMEOUT))),
                Next::Over => {
                    return failed.retry_all(|release| has_succeeded(execute(release, RETRY_LOCK_TIMEOUT)));
                }
            }
        }
    }

    /// Waits for the next command, at most until something is `due`.
    fn next(&self, due: Option<Instant>) -> Next {
        let mut jobs = self.lock();
        loop {
            if let Some(job) = jobs.waiting.pop_front() {
                return Next::Command(job);
            }
            if jobs.closed {
                return Next::Over;
            }
            jobs = match due.map(|due| due.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Next::Due,
                Some(left) => {
                    let (jobs, _) =
                        self.arrived.wait_timeout(jobs, left).unwrap_or_else(PoisonError::into_inner);
                    jobs
                }
                None => self.arrived.wait(jobs).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
