//! The thread that hands results to event loops and callbacks, so that no task of the runtime waits for the GIL.

use pyo3::prelude::*;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// The most results that are handed over at once.
const LARGEST_BATCH: usize = 1024;

/// Makes the Python value of a result, or raises its exception. Needs the GIL, unlike the call before it.
pub(crate) type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// What is to be handed over.
pub(crate) enum Delivery {
    /// A result for a future of an event loop.
    Result {
        /// The event loop.
        event_loop: Py<PyAny>,
        /// Its future.
        future: Py<PyAny>,
        /// What the future gets.
        answer: Answer,
    },
    /// A callback to call.
    Callback(Py<PyAny>),
    /// The interpreter ends: nothing may be delivered any more. Answered when that is so.
    Stop(Sender<()>),
}

/// Results for futures of one event loop.
type Batch = Vec<(Py<PyAny>, Answer)>;

/// Starts the thread. It ends with [`Delivery::Stop`], or when the interpreter ends.
pub(crate) fn start() -> std::io::Result<Sender<Delivery>> {
    let (sender, receiver) = channel();
    thread::Builder::new().name("quorlock-python".into()).spawn(move || deliver_all(&receiver))?;
    Ok(sender)
}

fn deliver_all(receiver: &Receiver<Delivery>) {
    while let Ok(first) = receiver.recv() {
        let rest = receiver.try_iter().take(LARGEST_BATCH - 1);
        let mut deliveries: Vec<Delivery> = std::iter::once(first).chain(rest).collect();
        let stop = deliveries.iter().position(|delivery| matches!(delivery, Delivery::Stop(_)));
        let undelivered = stop.map(|at| deliveries.split_off(at));
        let is_attached = Python::try_attach(|py| deliver(py, deliveries)).is_some();
        if let Some(Delivery::Stop(stopped)) = undelivered.and_then(|rest| rest.into_iter().next()) {
            let _ = stopped.send(());
            return;
        }
        if !is_attached {
            return;
        }
    }
}

/// Calls callbacks, and schedules one callback in each event loop for all results of that loop.
fn deliver(py: Python<'_>, deliveries: Vec<Delivery>) {
    let mut batches: Vec<(Py<PyAny>, Batch)> = Vec::new();
    for delivery in deliveries {
        match delivery {
            Delivery::Result { event_loop, future, answer } => {
                match batches.iter_mut().find(|(known, _)| known.is(&event_loop)) {
                    Some((_, results)) => results.push((future, answer)),
                    None => batches.push((event_loop, vec![(future, answer)])),
                }
            }
            Delivery::Callback(callback) => {
                if let Err(error) = callback.call0(py) {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            }
            Delivery::Stop(_) => {}
        }
    }
    for (event_loop, results) in batches {
        // An event loop that was closed takes nothing: no coroutine is left that could wait for a result.
        let _ = Bound::new(py, Results(Mutex::new(results)))
            .and_then(|results| event_loop.bind(py).call_method1("call_soon_threadsafe", (results,)));
    }
}

/// Results for futures of one event loop, which calls this.
#[pyclass(frozen)]
struct Results(Mutex<Batch>);

#[pymethods]
impl Results {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        let results = self.0.lock().map(|mut results| std::mem::take(&mut *results)).unwrap_or_default();
        for (future, answer) in results {
            let future = future.bind(py);
            // The answer to a cancelled call is dropped, and with it a lock that it may contain.
            if future.call_method0("done")?.is_truthy()? {
                continue;
            }
            match answer(py) {
                Ok(value) => future.call_method1("set_result", (value,))?,
                Err(error) => future.call_method1("set_exception", (error.into_value(py),))?,
            };
        }
        Ok(())
    }
}
