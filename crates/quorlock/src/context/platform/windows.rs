//! The boot clock and the names on Windows.

use std::env;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// The first reading of the clock in this process.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The time since the first call, sleep included: `Instant` is `QueryPerformanceCounter` here, which counts
/// sleep. Each process has its own beginning, so no moment may leave the process.
pub(crate) fn boot_time() -> Duration {
    let start = *START;
    start.elapsed()
}

/// What the machine is called.
pub(crate) fn host_name() -> String {
    env::var("COMPUTERNAME").unwrap_or_else(|_| "localhost".to_owned())
}

/// What the user is called where `USER` and `LOGNAME` do not say it.
pub(crate) fn user_name() -> String {
    env::var("USERNAME").unwrap_or_else(|_| "unknown".to_owned())
}
