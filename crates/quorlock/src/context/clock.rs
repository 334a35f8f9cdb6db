//! The one place that reads clocks.

use quorlock_core::{Moment, Wall};
use std::fmt;
use std::time::{Duration, SystemTime};

/// Where time comes from. Replace it only to test: every lease is judged on it.
pub trait Clock: fmt::Debug + Send + Sync + 'static {
    /// The boot clock: it counts while the machine sleeps and never jumps.
    fn now(&self) -> Moment;

    /// The wall clock, for labels and fence proposals.
    fn wall_time(&self) -> SystemTime;
}

impl dyn Clock {
    /// The wall clock in the unit of labels and fences.
    pub(crate) fn wall(&self) -> Wall {
        self.wall_time().into()
    }
}

/// The machine's own clocks: `CLOCK_BOOTTIME` and the wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        let time = rustix::time::clock_gettime(BOOT_CLOCK);
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
        Moment::from_boot(Duration::new(seconds, nanos))
    }

    fn wall_time(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// `std::time::Instant` stops while a Linux machine sleeps; this one does not.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;

/// Here the monotonic clock counts sleep (macOS), or the platform has nothing better to offer.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT_CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_never_goes_back() {
        let first = SystemClock.now();
        assert!(SystemClock.now() >= first);
        assert!(Wall::from(SystemClock.wall_time()) > Wall::from_micros(1_700_000_000_000_000));
    }
}
