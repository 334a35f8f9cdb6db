//! The thread that talks to one store, with a runtime of its own: those of its users may end at any time.

use crate::context::mutex::Mutex;
use crate::node::engine::attempts::Attempts;
use crate::node::engine::health::SharedHealth;
use crate::node::engine::name_queue::{NameQueue, QueuedRequest, Work};
use crate::node::engine::name_task::NameTask;
use crate::node::engine::{Engine, Limits};
use crate::node::limits::RELEASE_HEADROOM;
use crate::node::{BoxFuture, Command, NodeError, Reply, Request, Wakeup};
use quorlock_core::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// The most commands that may wait.
pub(crate) const MAX_WAITING: usize = 4096;
/// The most names that are watched at a time; waiters for further ones only poll.
const MAX_WATCHES: usize = 256;
/// How long the thread goes on with what was sent before the node was dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

enum Job {
    /// For one name, in the order of its queue.
    Work(Name, Work),
    /// Independent of all names.
    Task(BoxFuture<'static, ()>),
}

/// The handle of the thread, which starts with the first job.
pub(crate) struct Worker<E> {
    shared: Shared<E>,
    thread: Mutex<Option<Thread>>,
    watched: Mutex<BTreeSet<Name>>,
}

/// What all tasks of the thread share.
#[derive(Debug)]
pub(crate) struct Shared<E> {
    pub(crate) engine: Arc<E>,
    pub(crate) health: SharedHealth,
    pub(crate) attempts: Arc<Attempts>,
    pub(crate) limits: Limits,
}

impl<E> Shared<E> {
    pub(crate) fn new(engine: E, limits: Limits) -> Self {
        let (health, attempts) = Default::default();
        Self { engine: Arc::new(engine), health, attempts, limits }
    }
}

impl<E> Clone for Shared<E> {
    fn clone(&self) -> Self {
        let Self { engine, health, attempts, limits } = self;
        let (engine, health, attempts) = (engine.clone(), health.clone(), attempts.clone());
        Self { engine, health, attempts, limits: *limits }
    }
}

struct Thread {
    jobs: UnboundedSender<Job>,
    /// Receives a message when it has ended.
    over: mpsc::Receiver<()>,
}

impl<E: Engine> Worker<E> {
    pub(crate) fn new(engine: E, limits: Limits) -> Self {
        Self { shared: Shared::new(engine, limits), thread: Mutex::default(), watched: Mutex::default() }
    }

    /// Enqueues `request` behind those that wait for the same name.
    pub(crate) fn enqueue(&self, request: Request) {
        let limit = match request.command() {
            Command::Release { .. } => MAX_WAITING + RELEASE_HEADROOM,
            _ => MAX_WAITING,
        };
        if self.health().queued() >= limit {
            return request.answer(Reply::failed(NodeError::QueueFull { limit }));
        }
        let name = request.command().name().clone();
        let queued = QueuedRequest { request, since: Instant::now(), counted: self.health().count_queued() };
        if let Err((error, Job::Work(_, Work::Request(unsent)))) =
            self.send(Job::Work(name, Work::Request(queued)))
        {
            unsent.request.answer(Reply::failed(error));
        }
    }

    /// Notifies `wakeup` when `name` may have become free. Without a thread the waiter only polls.
    pub(crate) fn watch(&self, name: &Name, wakeup: &Wakeup) {
        let mut watched = self.watched.lock();
        if watched.len() < MAX_WATCHES || watched.contains(name) {
            watched.insert(name.clone());
            // A slot of the semaphore `name` has a queue of its own, and may be released before the watch
            // begins.
            let since = self.shared.engine.position();
            let _ = self.send(Job::Work(name.clone(), Work::Watch { wakeup: wakeup.clone(), since }));
        }
    }

    pub(crate) fn unwatch(&self, name: &Name) {
        let mut watched = self.watched.lock();
        if watched.remove(name) {
            let _ = self.send(Job::Work(name.clone(), Work::Unwatch));
        }
    }

    /// Runs `task` and returns its result, independent of all that waits.
    pub(crate) async fn run<T, F>(&self, task: impl FnOnce(Arc<E>) -> F) -> Result<T, NodeError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, NodeError>> + Send + 'static,
    {
        let (found, finding) = tokio::sync::oneshot::channel();
        let task = task(self.shared.engine.clone());
        let task = Box::pin(async move { drop(found.send(task.await)) });
        self.send(Job::Task(task)).map_err(|(error, _)| error)?;
        let found = finding.await.unwrap_or(Err(NodeError::Abandoned));
        if let Err(error) = &found {
            self.health().record_failure(error);
        }
        found
    }

    pub(crate) fn health(&self) -> &SharedHealth {
        &self.shared.health
    }

    fn send(&self, job: Job) -> Result<(), (NodeError, Job)> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            match self.start() {
                Ok(started) => *thread = Some(started),
                Err(error) => return Err((cannot_start(error), job)),
            }
        }
        match thread.as_ref() {
            Some(thread) => thread.jobs.send(job).map_err(|unsent| (NodeError::Abandoned, unsent.0)),
            None => Err((NodeError::Abandoned, job)),
        }
    }

    fn start(&self) -> io::Result<Thread> {
        let (jobs, incoming) = unbounded_channel();
        let (is_over, over) = mpsc::sync_channel(1);
        let dispatcher =
            Dispatcher { shared: self.shared.clone(), queues: BTreeMap::new(), tasks: JoinSet::new() };
        std::thread::Builder::new().name(format!("quorlock-{}", E::KIND)).spawn(move || {
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                // Connections and watches end with their runtime. A task is woken by others of its thread without
                // a system call, which the future of `block_on` is not.
                Ok(runtime) => {
                    let dispatching = runtime.spawn(dispatcher.run(incoming));
                    let _ = runtime.block_on(dispatching);
                }
                Err(error) => dispatcher.shared.health.record_failure(&cannot_start(error)),
            }
            let _ = is_over.send(());
        })?;
        Ok(Thread { jobs, over })
    }
}

impl<E> Drop for Worker<E> {
    /// Lets the thread finish what was sent. A program may end right after its guard: drop waits for what
    /// is under way as long as an answer may take, so that the lock does not stay until its ttl is over.
    fn drop(&mut self) {
        self.shared.health.close();
        let thread = self.thread.lock().take();
        let Some(Thread { jobs, over }) = thread else { return };
        drop(jobs);
        if self.shared.health.queued() > 0 {
            let _ = over.recv_timeout(self.shared.limits.request);
        }
    }
}

fn cannot_start(error: io::Error) -> NodeError {
    NodeError::File { action: "cannot start a thread".into(), source: Arc::new(error) }
}

/// The main loop of the thread.
struct Dispatcher<E> {
    shared: Shared<E>,
    queues: BTreeMap<Name, Arc<NameQueue>>,
    tasks: JoinSet<Option<Name>>,
}

impl<E: Engine> Dispatcher<E> {
    async fn run(mut self, mut jobs: UnboundedReceiver<Job>) {
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => self.tidy(ended.ok().flatten()),
                job = jobs.recv() => match job {
                    Some(Job::Work(name, work)) => self.put(name, work),
                    Some(Job::Task(task)) => {
                        self.tasks.spawn(async move {
                            task.await;
                            None
                        });
                    }
                    None => break,
                },
            }
        }
        // Watches do not end by themselves.
        for queue in self.queues.values() {
            let _ = queue.push(Work::Unwatch);
        }
        let rest = async {
            while self.tasks.join_next().await.is_some() {}
            self.shared.engine.finish().await;
        };
        let _ = timeout(DROP_TIMEOUT.max(self.shared.limits.request), rest).await;
    }

    fn put(&mut self, name: Name, work: Work) {
        let work = match self.queues.get(&name) {
            Some(queue) => match queue.push(work) {
                Ok(()) => return,
                Err(work) => work,
            },
            None => work,
        };
        let queue = Arc::new(NameQueue::with(work));
        self.queues.insert(name.clone(), queue.clone());
        let task = NameTask::new(name.clone(), self.shared.clone());
        self.tasks.spawn(async move {
            task.run(&queue).await;
            Some(name)
        });
    }

    /// Drops the queue of `name`, unless a new one took its place.
    fn tidy(&mut self, name: Option<Name>) {
        if let Some(name) = name
            && self.queues.get(&name).is_some_and(|queue| queue.is_over())
        {
            self.queues.remove(&name);
        }
    }
}
