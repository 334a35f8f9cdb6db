//! The threads that a command does all its waiting on: one, for most.

use crate::exit::Exit;
use crate::failure::Failure;
use tokio::runtime::{Builder, Runtime};

/// Starts it. One thread: a process that `run` starts dies with the thread that started it, so that must be the main
/// one; and no other command has work for a second.
///
/// # Errors
/// The system has no room for it.
pub(crate) fn start() -> Result<Runtime, Failure> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Failure::new(Exit::CannotRun, "system", error.to_string()))
}

/// Starts one with a thread per core, for commands that answer many callers.
///
/// # Errors
/// The system has no room for it.
pub(crate) fn start_many() -> Result<Runtime, Failure> {
    let built = Builder::new_multi_thread().enable_all().build();
    built.map_err(|error| Failure::new(Exit::CannotRun, "system", error.to_string()))
}
