//! The tokio runtimes of the commands.

use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use std::num::NonZero;
use std::ops::Deref;
use std::thread::available_parallelism;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime as TokioRuntime};

/// How long the end of a command waits for threads that read a disk or resolve a host name. They
/// may be stuck.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(100);

/// A runtime whose stuck threads do not keep the program from ending.
#[derive(Debug)]
pub(crate) struct Runtime(Option<TokioRuntime>);

impl Deref for Runtime {
    type Target = TokioRuntime;

    fn deref(&self) -> &TokioRuntime {
        // Taken only when this is dropped.
        self.0.as_ref().unwrap_or_else(|| unreachable!())
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        }
    }
}

/// Starts a runtime on the main thread alone. The kernel kills a process that `run` starts when the
/// thread that started it ends, so that must be the main thread.
///
/// # Errors
/// The system lacks the resources.
pub(crate) fn start() -> Result<Runtime, Failure> {
    build(&mut Builder::new_current_thread())
}

/// Starts a runtime with a thread for every second core, for a server next to the programs that it serves.
/// `TOKIO_WORKER_THREADS` sets another number.
///
/// # Errors
/// The system lacks the resources.
pub(crate) fn start_server() -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        let cores = available_parallelism().map_or(1, NonZero::get);
        builder.worker_threads(cores.div_ceil(2));
    }
    build(&mut builder)
}

/// Starts a runtime with a thread per core, for commands with many clients.
///
/// # Errors
/// The system lacks the resources.
pub(crate) fn start_multi_thread() -> Result<Runtime, Failure> {
    build(&mut Builder::new_multi_thread())
}

fn build(builder: &mut Builder) -> Result<Runtime, Failure> {
    let built = builder.enable_all().build();
    built
        .map(|runtime| Runtime(Some(runtime)))
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
        for start in [start, start_server, start_multi_thread] {
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
