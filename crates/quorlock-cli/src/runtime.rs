//! The threads that a command does all its waiting on: one, for most.

use crate::exit::Exit;
use crate::failure::Failure;
use std::ops::Deref;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime as Threads};

/// How long the end of a command waits for threads that look at a disk or for the address of a name. They may be stuck.
const PATIENCE: Duration = Duration::from_millis(100);

/// Threads that do not keep the program from ending.
#[derive(Debug)]
pub(crate) struct Runtime(Option<Threads>);

impl Deref for Runtime {
    type Target = Threads;

    fn deref(&self) -> &Threads {
        // Taken only when this is dropped.
        self.0.as_ref().unwrap_or_else(|| unreachable!())
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(threads) = self.0.take() {
            threads.shutdown_timeout(PATIENCE);
        }
    }
}

/// Starts it. One thread: a process that `run` starts dies with the thread that started it, so that must be the main
/// one; and no other command has work for a second.
///
/// # Errors
/// The system has no room for it.
pub(crate) fn start() -> Result<Runtime, Failure> {
    build(&mut Builder::new_current_thread())
}

/// Starts one with a thread per core, for commands that answer many callers.
///
/// # Errors
/// The system has no room for it.
pub(crate) fn start_many() -> Result<Runtime, Failure> {
    build(&mut Builder::new_multi_thread())
}

fn build(builder: &mut Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built
        .map(|threads| Runtime(Some(threads)))
        .map_err(|error| Failure::new(Exit::CannotRun, "system", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;

    /// Goal: a disk that does not answer keeps no command from ending.
    #[test]
    fn a_thread_that_is_stuck_is_not_waited_for() {
        for start in [start, start_many] {
            let (done, ended) = mpsc::channel();
            let (free, stuck) = mpsc::channel::<()>();
            thread::spawn(move || {
                let runtime = start().unwrap();
                let (begun, is_stuck) = mpsc::channel();
                runtime.block_on(async {
                    tokio::task::spawn_blocking(move || {
                        begun.send(()).unwrap();
                        let _ = stuck.recv();
                    });
                });
                is_stuck.recv().unwrap();
                drop(runtime);
                done.send(()).unwrap();
            });
            ended.recv_timeout(Duration::from_secs(60)).expect("the end does not wait for the thread");
            drop(free);
        }
    }
}
