//! The one clock on which all processes of a run agree.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The monotonic clock. It is the same in all processes of a machine, and the clock shim leaves it
/// alone, so a client whose other clocks are wrong reads the true time here.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}
