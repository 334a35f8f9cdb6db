//! The one place that reads clocks.

use crate::context::platform;
use quorlock_core::{Moment, Wall};
use std::fmt;
use std::time::SystemTime;

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

/// The machine's own clocks: one that counts sleep (`CLOCK_BOOTTIME` on Linux) and the wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment::from_boot(platform::boot_time())
    }

    fn wall_time(&self) -> SystemTime {
        SystemTime::now()
    }
}

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
