//! The native half of the Python package `quorlock`: the library's calls without Python's ways to wait for them.
//!
//! The package in `quorlock/` gives each [`Call`](call::Call) to a thread that blocks or to an event loop.
//! No task of the runtime ever waits for the global interpreter lock (GIL): a watchdog extends its lock while
//! Python computes.
//!
//! # Layout
//! A file uses only the files listed above it.
//!
//! - `errors.rs`: the library's errors as the exceptions of `quorlock/errors.py`
//! - `views.rs`: what nodes store, as the data classes of `quorlock/views.py`
//! - `settings.rs`: settings that come from Python
//! - `delivery.rs`: the thread that hands results to event loops and callbacks
//! - `engine.rs`: the background threads of this process
//! - `call.rs`: a call that is not started yet
//! - `held.rs`: a held lock
//! - `target.rs`: what can be acquired: a lock, a permit, a leadership
//! - `locker.rs`: nodes and configuration

mod call;
mod delivery;
mod engine;
mod errors;
mod held;
mod locker;
mod settings;
mod target;
mod views;

use pyo3::prelude::*;

/// The native half of quorlock. Use the package `quorlock`, not this.
#[pymodule(gil_used = true)]
mod _native {
    #[pymodule_export]
    use crate::call::Call;
    #[pymodule_export]
    use crate::engine::shut_down;
    #[pymodule_export]
    use crate::held::Held;
    #[pymodule_export]
    use crate::locker::Locker;
    #[pymodule_export]
    use crate::target::{Observation, Target};
}
