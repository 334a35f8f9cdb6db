//! The background threads of this process: one runs the library, one delivers results.
//!
//! A forked process has none of its parent's threads, so it gets an engine of its own, and what belongs to
//! the parent's is left alone there: the two share sockets.

use crate::delivery::{self, Delivery};
use crate::errors::raise;
use pyo3::prelude::*;
use quorlock::Guard;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

/// How long the end of the interpreter waits for releases that are under way.
const LAST_RELEASES: Duration = Duration::from_secs(1);

/// The engine of this process. Locked only while the GIL is held: a process that forks holds it, too, so
/// that no child finds this locked for ever.
static ENGINE: Mutex<Option<&'static Engine>> = Mutex::new(None);

/// The background threads. Never shut down: held locks of any part of the program may depend on them.
pub(crate) struct Engine {
    process: u32,
    /// Runs the library, on one thread.
    pub(crate) runtime: Runtime,
    deliveries: Sender<Delivery>,
    /// Releases of locks that were dropped.
    releases: TaskTracker,
    /// Whether the interpreter ends.
    ends: AtomicBool,
}

impl Engine {
    /// The engine of this process, started if there is none.
    pub(crate) fn of_process(py: Python<'_>) -> PyResult<&'static Self> {
        let mut current = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = current.filter(|engine| engine.is_ours()) {
            return Ok(engine);
        }
        let engine: &'static Self = Box::leak(Box::new(Self::start().map_err(|error| {
            let message = format!("the background threads of quorlock cannot be started: {error}");
            raise(py, "QuorlockError", &message, |_| Ok(()))
        })?));
        *current = Some(engine);
        Ok(engine)
    }

    fn start() -> std::io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        Ok(Self {
            process: std::process::id(),
            runtime: builder.worker_threads(1).thread_name("quorlock").enable_all().build()?,
            deliveries: delivery::start()?,
            releases: TaskTracker::new(),
            ends: AtomicBool::new(false),
        })
    }

    /// Whether it is that of this process, not of one that it was forked from.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Hands `delivery` to the thread that waits for the GIL.
    pub(crate) fn deliver(&self, delivery: Delivery) {
        // It fails when the interpreter has ended.
        let _ = self.deliveries.send(delivery);
    }

    /// Releases the lock of a guard that was dropped, in the background. While the interpreter ends, waits
    /// for it.
    pub(crate) fn release_later(&self, guard: Guard) {
        let (done, released) = channel();
        self.releases.spawn_on(
            async move {
                let _ = done.send(guard.release().await);
            },
            self.runtime.handle(),
        );
        if self.ends.load(Ordering::Relaxed) {
            let _ = released.recv_timeout(LAST_RELEASES);
        }
    }

    /// Stops deliveries, and waits for releases that are under way.
    fn end(&self) {
        self.ends.store(true, Ordering::Relaxed);
        let (stopping, stopped) = channel();
        self.deliver(Delivery::Stop(stopping));
        let _ = stopped.recv();
        self.releases.close();
        let _ = self.runtime.block_on(async { timeout(LAST_RELEASES, self.releases.wait()).await });
    }
}

/// Called when the interpreter ends.
#[pyfunction]
pub(crate) fn shut_down(py: Python<'_>) {
    let engine = *ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(engine) = engine.filter(|engine| engine.is_ours()) {
        py.detach(|| engine.end());
    }
}

/// A value that belongs to the engine of one process. A child process that drops its copy must not touch
/// what it shares with the parent, so it leaves the value as it is.
pub(crate) struct Owned<T> {
    engine: &'static Engine,
    value: Option<T>,
}

impl<T> Owned<T> {
    /// `value`, which belongs to `engine`.
    pub(crate) fn new(engine: &'static Engine, value: T) -> Self {
        Self { engine, value: Some(value) }
    }

    /// The engine, unless it is that of a parent process.
    pub(crate) fn engine(&self) -> Option<&'static Engine> {
        self.engine.is_ours().then_some(self.engine)
    }

    /// The value, unless it belongs to a parent process or was taken.
    pub(crate) fn get(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.engine.is_ours())
    }

    /// Takes the value, unless it belongs to a parent process or was taken before.
    pub(crate) fn take(&mut self) -> Option<T> {
        if self.engine.is_ours() { self.value.take() } else { None }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        if !self.engine.is_ours() {
            std::mem::forget(self.value.take());
        }
    }
}
