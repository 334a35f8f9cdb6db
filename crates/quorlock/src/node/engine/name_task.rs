//! The task that executes the commands for one name, one after another.

use crate::node::engine::attempts::Fate;
use crate::node::engine::health::FailedReleaseCount;
use crate::node::engine::name_queue::{NameQueue, Next, QueuedRequest, Work};
use crate::node::engine::worker::Shared;
use crate::node::engine::{Engine, Failure, hints};
use crate::node::limits::RELEASE_RETRY as DELAYS;
use crate::node::{AcquireKind, Command, Denied, NodeError, Reply};
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
pub(crate) struct NameTask<E> {
    name: Name,
    shared: Shared<E>,
    /// The task that reports when the name may have become free.
    watch: Option<AbortHandle>,
    failed: VecDeque<FailedRelease>,
}

impl<E: Engine> NameTask<E> {
    pub(crate) fn new(name: Name, shared: Shared<E>) -> Self {
        Self { name, shared, watch: None, failed: VecDeque::new() }
    }

    /// Executes what waits in `queue`, until nothing does.
    pub(crate) async fn run(mut self, queue: &NameQueue) {
        let _closing = Closing(queue);
        loop {
            let stays = !self.failed.is_empty() && self.shared.health.is_open();
            let due = self.failed.front().map(|failed| failed.due);
            match queue.next(stays || self.watch.is_some(), due).await {
                Next::Work(Work::Request(queued)) => self.answer(queued).await,
                Next::Work(Work::Watch { wakeup, since }) => {
                    self.end_watch();
                    let (engine, limit) = (self.shared.engine.clone(), self.shared.limits.request);
                    let watch = hints::spawn(engine, self.name.clone(), since, wakeup, limit).await;
                    self.watch = Some(watch);
                }
                Next::Work(Work::Unwatch) => self.end_watch(),
                Next::Due => drop(self.retry_failed().await),
                Next::Over => return,
            }
        }
    }

    async fn answer(&mut self, QueuedRequest { request, since, counted: _counted }: QueuedRequest) {
        let command = request.command();
        // The caller has given up. Executing the command would only delay those behind it; but a release
        // must be made.
        let after = self.shared.limits.caller;
        if since.elapsed() > after && !matches!(command, Command::Release { .. }) {
            self.remember(command, Fate::Nothing);
            return request.answer(Reply::failed(NodeError::Timeout { after }));
        }
        // It undoes what was never done, so it need not wait for failed releases.
        if self.fate(command) == Some(Fate::Nothing) {
            self.forget(command);
            return request.answer(Reply::Denied(Denied::Taken));
        }
        let start = Instant::now();
        // What was released must be free before another client takes it again.
        let retried = match command {
            Command::Inspect { .. } => Ok(()),
            _ => self.retry_failed().await.map_err(Failure::Unsent),
        };
        let result = match retried {
            Ok(()) => self.execute(command).await,
            Err(failure) => Err(failure),
        };
        match &result {
            Ok(Reply::Denied(Denied::Taken)) | Err(Failure::Unsent(_)) => {
                self.remember(command, Fate::Nothing)
            }
            Err(Failure::Unknown(_)) => self.remember(command, Fate::Unknown),
            Ok(_) => {}
        }
        match result {
            Ok(reply) => {
                self.shared.health.record_success(start.elapsed());
                request.answer(reply);
            }
            Err(failure) => {
                self.shared.health.record_failure(failure.error());
                if matches!(command, Command::Release { .. }) {
                    self.keep_failed(command);
                }
                request.answer(Reply::failed(failure.into_error()));
            }
        }
    }

    /// Executes `command`; the release of an attempt that may still take effect undoes it for good.
    async fn execute(&self, command: &Command) -> Result<Reply, Failure> {
        match command {
            Command::Release { .. } => {
                let released = match self.fate(command) {
                    Some(Fate::Unknown) => self.shared.engine.undo(command).await,
                    _ => self.shared.engine.execute(command).await,
                };
                if released.is_ok() {
                    self.forget(command);
                }
                released
            }
            Command::Acquire(_) => {
                self.forget(command);
                self.shared.engine.execute(command).await
            }
            _ => self.shared.engine.execute(command).await,
        }
    }

    /// Remembers for its release what became of an acquire that was not granted.
    fn remember(&self, command: &Command, fate: Fate) {
        if let Command::Acquire(acquire) = command
            // The token of a repair or an upgrade is that of a lock which is held.
            && acquire.kind == AcquireKind::Vote
        {
            self.shared.attempts.remember(&acquire.name, acquire.token, fate);
        }
    }

    fn forget(&self, command: &Command) {
        match command {
            Command::Release { name, token, .. } => self.shared.attempts.forget(name, token),
            Command::Acquire(acquire) => self.shared.attempts.forget(&acquire.name, &acquire.token),
            _ => {}
        }
    }

    /// What became of the acquire that `command` releases, if it is a release.
    fn fate(&self, command: &Command) -> Option<Fate> {
        match command {
            Command::Release { name, token, .. } => self.shared.attempts.fate(name, token),
            _ => None,
        }
    }

    fn keep_failed(&mut self, release: &Command) {
        let count = self.shared.health.count_failed_release();
        self.failed.extend(count.map(|count| FailedRelease::new(release, count)));
    }

    /// Tries failed releases again, the oldest first, until their lock is over by its ttl.
    async fn retry_failed(&mut self) -> Result<(), NodeError> {
        while let Some(release) = self.failed.front().map(|failed| failed.release.clone()) {
            let result = self.execute(&release).await;
            let Some(failed) = self.failed.front_mut() else { break };
            let Err(failure) = result else {
                self.failed.pop_front();
                continue;
            };
            if failed.since.elapsed() >= LEAST.max(self.shared.limits.longest_ttl) {
                self.failed.pop_front();
            } else {
                failed.delay = (failed.delay * 2).min(DELAYS.1);
                failed.due = Instant::now() + failed.delay;
            }
            return Err(failure.into_error());
        }
        Ok(())
    }
}

impl<E> NameTask<E> {
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

impl<E> Drop for NameTask<E> {
    fn drop(&mut self) {
        self.end_watch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::contract::{Losers, TTL, Unraised, acquire, contract_without_time, name, release};
    use crate::node::engine::test_engine::TestEngine;
    use crate::node::engine::{EngineNode, Limits};
    use crate::node::{Done, Node, Request};
    use std::sync::Arc;
    use tokio::time::advance;

    const MINUTE: Duration = Duration::from_secs(60);

    fn limits() -> Limits {
        Limits { caller: MINUTE, request: MINUTE, longest_ttl: 60 * MINUTE }
    }

    fn task() -> NameTask<TestEngine> {
        NameTask::new(name("a"), Shared::new(TestEngine::default(), limits()))
    }

    async fn answer(task: &mut NameTask<TestEngine>, command: Command) -> Reply {
        let (request, reply) = Request::channel(command);
        let counted = task.shared.health.count_queued();
        task.answer(QueuedRequest { request, since: Instant::now(), counted }).await;
        reply.await
    }

    fn fail(task: &NameTask<TestEngine>, failure: Option<fn() -> Failure>) {
        *task.shared.engine.failure.lock() = failure;
    }

    #[tokio::test]
    async fn an_engine_keeps_the_contract_with_the_order_of_the_core() {
        let node: Arc<dyn Node> =
            Arc::new(EngineNode::new("test:".to_owned(), TestEngine::default(), limits()));
        contract_without_time(&node, Losers::Raise, Unraised::WithCounter).await;
        node.wait_connected().await;
        assert_eq!(node.health().version.as_deref(), Some("test 1"));
    }

    #[tokio::test]
    async fn a_failed_release_is_made_before_the_next_acquire() {
        let mut task = task();
        answer(&mut task, acquire("a", 1, 5, TTL, false)).await;
        fail(&task, Some(|| Failure::Unknown(NodeError::Abandoned)));
        assert!(matches!(answer(&mut task, release("a", 1)).await, Reply::Failed(_)));
        assert!(matches!(answer(&mut task, acquire("a", 2, 6, TTL, false)).await, Reply::Failed(_)));
        fail(&task, None);
        let reply = answer(&mut task, acquire("a", 3, 7, TTL, false)).await;
        assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
    }

    /// Goal: S8 holds for locks that live longer than an outage is remembered for.
    #[tokio::test(start_paused = true)]
    async fn a_failed_release_is_tried_until_the_longest_ttl_is_over_and_no_longer() {
        let mut task = task();
        fail(&task, Some(|| Failure::Unknown(NodeError::Abandoned)));
        task.keep_failed(&release("a", 1));
        for (passed, failed) in [(1, 1), (58, 1), (2, 0)] {
            advance(passed * MINUTE).await;
            assert_eq!((task.retry_failed().await.is_err(), task.failed.len()), (true, failed), "{passed}");
        }
    }

    /// Goal: a release asks the store for nothing where the acquire left nothing, and undoes for good what
    /// may still take effect.
    #[tokio::test]
    async fn a_release_depends_on_what_became_of_its_acquire() {
        let mut task = task();
        let counts = |task: &NameTask<TestEngine>| {
            let engine = &task.shared.engine;
            (engine.released.lock().len(), engine.undone.lock().len())
        };
        answer(&mut task, acquire("a", 1, 5, TTL, false)).await;
        answer(&mut task, acquire("a", 2, 6, TTL, false)).await;
        assert!(matches!(answer(&mut task, release("a", 2)).await, Reply::Denied(Denied::Taken)));
        assert_eq!(counts(&task), (0, 0), "it was refused");
        answer(&mut task, release("a", 1)).await;
        assert_eq!(counts(&task), (1, 0), "it was granted");

        fail(&task, Some(|| Failure::Unsent(NodeError::Abandoned)));
        answer(&mut task, acquire("a", 3, 7, TTL, false)).await;
        answer(&mut task, release("a", 3)).await;
        assert_eq!(counts(&task), (1, 0), "it was not sent");
        fail(&task, Some(|| Failure::Unknown(NodeError::Abandoned)));
        answer(&mut task, acquire("a", 4, 8, TTL, false)).await;
        assert!(matches!(answer(&mut task, release("a", 4)).await, Reply::Failed(_)));
        fail(&task, None);
        task.retry_failed().await.unwrap();
        assert_eq!(counts(&task), (1, 2), "it is undone until that is known to have happened");
        answer(&mut task, release("a", 4)).await;
        assert_eq!(counts(&task), (2, 2), "it was undone");
    }
}
