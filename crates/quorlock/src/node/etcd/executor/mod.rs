//! The thread that talks to one cluster, with a runtime of its own: those of its users may end at any
//! time.

mod name_queue;
mod name_task;

use crate::context::mutex::Mutex;
use crate::node::etcd::executor::name_queue::{NameQueue, QueuedRequest, Work};
use crate::node::etcd::executor::name_task::NameTask;
use crate::node::etcd::health::SharedHealth;
use crate::node::etcd::lock_store::Store;
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
/// The most names that are watched at a time, each by a connection; waiters for further ones only poll.
const MAX_WATCHES: usize = 256;
/// How long the thread goes on with what was sent before the node was dropped.
const DROP_TIMEOUT: Duration = Duration::from_secs(2);

type Task = Box<dyn FnOnce(Store) -> BoxFuture<'static, ()> + Send>;

enum Job {
    /// For one name, in the order of its queue.
    Work(Name, Work),
    /// Independent of all names.
    Task(Task),
}

/// The handle of the thread, which starts with the first job.
pub(crate) struct Worker {
    store: Store,
    health: SharedHealth,
    /// How long one request to the cluster may take.
    request_timeout: Duration,
    thread: Mutex<Option<Thread>>,
    watched: Mutex<BTreeSet<Name>>,
}

struct Thread {
    jobs: UnboundedSender<Job>,
    /// Receives a message when it has ended.
    over: mpsc::Receiver<()>,
}

impl Worker {
    pub(crate) fn new(store: Store, request_timeout: Duration) -> Self {
        Self {
            store,
            health: SharedHealth::default(),
            request_timeout,
            thread: Mutex::default(),
            watched: Mutex::default(),
        }
    }

    /// Enqueues `request` behind those that wait for the same name.
    pub(crate) fn enqueue(&self, request: Request) {
        let limit = match request.command() {
            Command::Release { .. } => MAX_WAITING + RELEASE_HEADROOM,
            _ => MAX_WAITING,
        };
        if self.health.queued() >= limit {
            return request.answer(Reply::failed(NodeError::QueueFull { limit }));
        }
        let name = request.command().name().clone();
        let queued = QueuedRequest { request, since: Instant::now(), counted: self.health.count_queued() };
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
            let since = self.store.api.cluster.revision();
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
    pub(crate) async fn run_task<T, F>(
        &self,
        task: impl FnOnce(Store) -> F + Send + 'static,
    ) -> Result<T, NodeError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, NodeError>> + Send + 'static,
    {
        let (found, finding) = tokio::sync::oneshot::channel();
        let task: Task = Box::new(move |store| {
            let task = task(store);
            Box::pin(async move { drop(found.send(task.await)) })
        });
        self.send(Job::Task(task)).map_err(|(error, _)| error)?;
        let found = finding.await.unwrap_or(Err(NodeError::Abandoned));
        if let Err(error) = &found {
            self.health.record_failure(error);
        }
        found
    }

    pub(crate) fn health(&self) -> &SharedHealth {
        &self.health
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
        let dispatcher = Dispatcher {
            store: self.store.clone(),
            health: self.health.clone(),
            request_timeout: self.request_timeout,
            queues: BTreeMap::new(),
            tasks: JoinSet::new(),
        };
        std::thread::Builder::new().name("quorlock-etcd".to_owned()).spawn(move || {
            match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                // Connections and watches end with their runtime.
                Ok(runtime) => runtime.block_on(dispatcher.run(incoming)),
                Err(error) => dispatcher.health.record_failure(&cannot_start(error)),
            }
            let _ = is_over.send(());
        })?;
        Ok(Thread { jobs, over })
    }
}

impl Drop for Worker {
    /// Lets the thread finish what was sent. A program may end right after its guard: drop waits for what
    /// is under way as long as an answer may take, so that the lock does not stay until its ttl is over.
    fn drop(&mut self) {
        self.health.close();
        let thread = self.thread.lock().take();
        let Some(Thread { jobs, over }) = thread else { return };
        drop(jobs);
        if self.health.queued() > 0 {
            let _ = over.recv_timeout(self.request_timeout);
        }
    }
}

fn cannot_start(error: io::Error) -> NodeError {
    NodeError::File { action: "cannot start a thread".into(), source: Arc::new(error) }
}

/// The main loop of the thread.
struct Dispatcher {
    store: Store,
    health: SharedHealth,
    request_timeout: Duration,
    queues: BTreeMap<Name, Arc<NameQueue>>,
    tasks: JoinSet<Option<Name>>,
}

impl Dispatcher {
    async fn run(mut self, mut jobs: UnboundedReceiver<Job>) {
        loop {
            tokio::select! {
                biased;
                Some(ended) = self.tasks.join_next() => self.tidy(ended.ok().flatten()),
                job = jobs.recv() => match job {
                    Some(Job::Work(name, work)) => self.put(name, work),
                    Some(Job::Task(task)) => {
                        let task = task(self.store.clone());
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
            self.store.ending.close();
            self.store.ending.wait().await;
        };
        let _ = timeout(DROP_TIMEOUT.max(self.request_timeout), rest).await;
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
        let task = NameTask::new(name.clone(), self.store.clone(), self.health.clone(), self.request_timeout);
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
