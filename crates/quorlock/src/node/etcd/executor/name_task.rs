//! The task that executes the commands for one name, one after another.

use crate::node::etcd::executor::name_queue::{NameQueue, Next, QueuedRequest, Work};
use crate::node::etcd::health::{FailedReleaseCount, SharedHealth};
use crate::node::etcd::lock_store::Store;
use crate::node::etcd::watch::{Watch, notify};
use crate::node::limits::RELEASE_RETRY as DELAYS;
use crate::node::{Command, Denied, NodeError, Reply, Wakeup};
use quorlock_core::Name;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// How long a release is tried at least, even if all ttls are shorter: a new leader counts them from
/// their start.
const LEAST: Duration = Duration::from_secs(120);

/// A release that failed. Its caller got the failure.
struct FailedRelease {
    release: Command,
    since: Instant,
    due: Instant,
    delay: Duration,
    /// Counts the release as failed until it is dropped.
    _count: FailedReleaseCount,
}

impl FailedRelease {
    fn new(release: &Command, failed: FailedReleaseCount) -> Self {
        let now = Instant::now();
        Self { release: release.clone(), since: now, due: now + DELAYS.0, delay: DELAYS.0, _count: failed }
    }
}

/// Executes what waits in the queue of one name.
pub(crate) struct NameTask {
    pub(crate) name: Name,
    pub(crate) store: Store,
    pub(crate) health: SharedHealth,
    /// How long a watch may take to begin.
    pub(crate) request_timeout: Duration,
    watch: Option<AbortHandle>,
    failed: VecDeque<FailedRelease>,
}

impl NameTask {
    pub(crate) fn new(name: Name, store: Store, health: SharedHealth, request_timeout: Duration) -> Self {
        Self { name, store, health, request_timeout, watch: None, failed: VecDeque::new() }
    }

    /// Executes what waits in `queue`, until nothing does.
    pub(crate) async fn run(mut self, queue: &NameQueue) {
        let _closing = Closing(queue);
        loop {
            let stays = !self.failed.is_empty() && self.health.is_open();
            let due = self.failed.front().map(|failed| failed.due);
            match queue.next(stays || self.watch.is_some(), due).await {
                Next::Work(Work::Request(queued)) => self.answer(queued).await,
                Next::Work(Work::Watch { wakeup, since }) => self.begin_watch(wakeup, since).await,
                Next::Work(Work::Unwatch) => self.end_watch(),
                Next::Due => drop(self.retry_failed().await),
                Next::Over => return,
            }
        }
    }

    async fn answer(&mut self, QueuedRequest { request, since, counted: _counted }: QueuedRequest) {
        // The caller has given up. Executing the command would only delay those behind it; but a release
        // must be made.
        let after = self.store.limit;
        if since.elapsed() > after && !matches!(request.command(), Command::Release { .. }) {
            self.store.record_unsent(request.command());
            return request.answer(Reply::failed(NodeError::Timeout { after }));
        }
        // It undoes what was never done, so it need not wait for failed releases.
        if let Command::Release { name, token, .. } = request.command()
            && self.store.was_refused(name, token)
        {
            return request.answer(Reply::Denied(Denied::Taken));
        }
        // What was released must be free before another client takes it again.
        let retried = if matches!(request.command(), Command::Inspect { .. }) {
            Ok(())
        } else {
            self.retry_failed().await
        };
        let start = Instant::now();
        let result = match retried {
            Ok(()) => self.store.execute(request.command()).await,
            Err(error) => {
                self.store.record_unsent(request.command());
                Err(error)
            }
        };
        match result {
            Ok(reply) => {
                self.health.record_success(start.elapsed());
                request.answer(reply);
            }
            Err(error) => {
                self.health.record_failure(&error);
                if matches!(request.command(), Command::Release { .. }) {
                    self.keep_failed(request.command());
                }
                request.answer(Reply::failed(error));
            }
        }
    }

    fn keep_failed(&mut self, release: &Command) {
        self.failed
            .extend(self.health.count_failed_release().map(|failed| FailedRelease::new(release, failed)));
    }

    /// Tries failed releases again, the oldest first, until their lock is over by its ttl.
    async fn retry_failed(&mut self) -> Result<(), NodeError> {
        while let Some(failed) = self.failed.front_mut() {
            let Err(error) = self.store.execute(&failed.release).await else {
                self.failed.pop_front();
                continue;
            };
            if failed.since.elapsed() >= LEAST.max(self.store.longest_ttl) {
                self.failed.pop_front();
            } else {
                failed.delay = (failed.delay * 2).min(DELAYS.1);
                failed.due = Instant::now() + failed.delay;
            }
            return Err(error);
        }
        Ok(())
    }

    async fn begin_watch(&mut self, wakeup: Wakeup, since: u64) {
        self.end_watch();
        // If the watch cannot begin now, it begins later, and the waiter polls in the meantime.
        let watch = Watch::begin(&self.store, &self.name, since, self.request_timeout).await.ok();
        let notify = notify(watch, self.store.clone(), self.name.clone(), wakeup, self.request_timeout);
        self.watch = Some(tokio::spawn(notify).abort_handle());
    }

    fn end_watch(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.abort();
        }
    }
}

struct Closing<'a>(&'a NameQueue);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for NameTask {
    fn drop(&mut self) {
        self.end_watch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::contract::{TTL, acquire, name, release};
    use crate::node::etcd::tests::store;
    use crate::node::{Done, Request};
    use quorlock_testkit::Etcd;
    use tokio::time::advance;

    #[tokio::test]
    async fn a_failed_release_is_made_before_the_next_acquire() {
        let etcd = Etcd::start(1);
        let store = store(&etcd.url());
        store.execute(&acquire("a", 1, 5, 30 * TTL, false)).await.unwrap();
        let mut task = NameTask::new(name("a"), store, SharedHealth::default(), TTL);
        task.keep_failed(&release("a", 1));
        let (request, reply) = Request::channel(acquire("a", 2, 6, TTL, false));
        let counted = task.health.count_queued();
        task.answer(QueuedRequest { request, since: Instant::now(), counted }).await;
        let reply = reply.await;
        assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
    }

    /// Goal: S8 holds for locks that live longer than an outage is remembered for.
    #[tokio::test(start_paused = true)]
    async fn a_failed_release_is_tried_until_the_longest_ttl_is_over_and_no_longer() {
        // Nothing listens there.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let minute = Duration::from_secs(60);
        let store = Store { longest_ttl: 60 * minute, ..store(&format!("etcd://127.0.0.1:{port}")) };
        let mut task = NameTask::new(name("a"), store, SharedHealth::default(), minute);
        task.keep_failed(&release("a", 1));
        for (passed, failed) in [(1, 1), (58, 1), (2, 0)] {
            advance(passed * minute).await;
            assert_eq!((task.retry_failed().await.is_err(), task.failed.len()), (true, failed), "{passed}");
        }
    }
}
