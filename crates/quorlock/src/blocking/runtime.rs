//! The background thread on which every blocking call is carried out.

use std::cell::Cell;
use std::sync::{LazyLock, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder as RuntimeBuilder, Runtime};

/// The one background thread. Never shut down: held locks of any part of the program may depend on it.
static ENGINE: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = RuntimeBuilder::new_multi_thread();
    let builder = builder.worker_threads(1).thread_name("quorlock").on_thread_start(|| IS_ENGINE.set(true));
    let built = builder.enable_all().build();
    match built {
        Ok(runtime) => runtime,
        Err(error) => panic!("cannot start the background thread of quorlock::blocking: {error}"),
    }
});

thread_local! {
    /// Whether this is the background thread.
    static IS_ENGINE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `future` on the background thread and waits for what it returns.
///
/// # Panics
/// On the background thread itself, where an observer may run: it would wait for itself for ever.
pub(crate) fn wait<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> T {
    assert!(!is_engine(), "quorlock::blocking cannot be called from an observer");
    let (done, result) = mpsc::sync_channel(1);
    ENGINE.spawn(async move {
        let _ = done.send(future.await);
    });
    match result.recv() {
        Ok(value) => value,
        Err(_) => panic!("a call of quorlock::blocking panicked on its background thread"),
    }
}

/// Runs `future` on the background thread and waits for its end, at most for `limit`, whatever that
/// thread does: a process that was forked has none.
pub(crate) fn wait_briefly(future: impl Future + Send + 'static, limit: Duration) {
    let (done, result) = mpsc::sync_channel(1);
    ENGINE.spawn(async move {
        future.await;
        let _ = done.send(());
    });
    let _ = result.recv_timeout(limit);
}

/// Whether this is the background thread, which cannot wait for itself.
pub(crate) fn is_engine() -> bool {
    IS_ENGINE.get()
}
