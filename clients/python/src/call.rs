//! A call of the library that is not started yet: a thread or an event loop waits for its result.

use crate::delivery::{Answer, Delivery};
use crate::engine::Engine;
use crate::errors::Raise;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::task::AbortHandle;

/// How often a main thread that waits runs Python's signal handlers, so that Ctrl-C ends a wait.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// A call of the library that is not started yet. Call `wait` or `start`, once.
#[pyclass(frozen)]
pub(crate) struct Call {
    engine: &'static Engine,
    progress: Mutex<Progress>,
}

enum Progress {
    Ready(Pin<Box<dyn Future<Output = Answer> + Send>>),
    Started(AbortHandle),
}

impl Call {
    /// A call whose result `convert` makes a Python value of.
    pub(crate) fn new<T: Send + 'static>(
        engine: &'static Engine,
        work: impl Future<Output = T> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let answer = async move {
            let result = work.await;
            let answer: Answer = Box::new(move |py| convert(py, result));
            answer
        };
        Self { engine, progress: Mutex::new(Progress::Ready(Box::pin(answer))) }
    }

    /// The same for work that can fail.
    pub(crate) fn fallible<T: Send + 'static, E: Raise + Send + 'static>(
        engine: &'static Engine,
        work: impl Future<Output = Result<T, E>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        Self::new(engine, work, |py, result| match result {
            Ok(value) => convert(py, value),
            Err(error) => Err(error.raise(py)),
        })
    }

    /// Starts it on the background thread; `done` gets what it returned.
    ///
    /// Not on the caller's thread: what the library keeps for each thread, such as random bytes, would be copied
    /// when that thread forks.
    fn spawn(&self, done: impl FnOnce(Answer) + Send + 'static) -> PyResult<AbortHandle> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let Progress::Ready(work) = &mut *progress else {
            return Err(PyRuntimeError::new_err("this call was started already"));
        };
        let work = std::mem::replace(work, Box::pin(std::future::pending()));
        let task = self.engine.runtime.spawn(async move { done(work.await) }).abort_handle();
        *progress = Progress::Started(task.clone());
        Ok(task)
    }
}

#[pymethods]
impl Call {
    /// Waits for the result without the GIL. Ctrl-C gives the call up.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (done, result) = sync_channel(1);
        let task = self.spawn(move |answer| {
            let _ = done.send(answer);
        })?;
        receive(py, result).inspect_err(|_| task.abort())?(py)
    }

    /// Starts it; the `future` of `event_loop` gets the result.
    fn start(&self, event_loop: Py<PyAny>, future: Py<PyAny>) -> PyResult<()> {
        let engine = self.engine;
        let deliver = move |answer| engine.deliver(Delivery::Result { event_loop, future, answer });
        self.spawn(deliver).map(|_| ())
    }

    /// Gives it up. A lock that it was granted is released.
    fn cancel(&self) {
        if let Progress::Started(task) = &*self.progress.lock().unwrap_or_else(PoisonError::into_inner) {
            task.abort();
        }
    }
}

/// Waits for `result`, and runs signal handlers if this is the main thread.
fn receive(py: Python<'_>, result: Receiver<Answer>) -> PyResult<Answer> {
    let mut result = result;
    loop {
        let received;
        (result, received) = py.detach(move || {
            let received = result.recv_timeout(SIGNAL_INTERVAL);
            (result, received)
        });
        match received {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) if is_main_thread(py)? => py.check_signals()?,
            // Only the main thread runs signal handlers.
            Err(RecvTimeoutError::Timeout) => {
                return py.detach(move || result.recv()).map_err(|_| panicked());
            }
            Err(RecvTimeoutError::Disconnected) => return Err(panicked()),
        }
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    Ok(threading.call_method0("main_thread")?.is(threading.call_method0("current_thread")?))
}

fn panicked() -> PyErr {
    PyRuntimeError::new_err("a call of quorlock panicked on its background thread")
}
