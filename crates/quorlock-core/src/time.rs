//! The two kinds of time: the boot clock that leases are judged on, and the wall clock that labels and
//! fences use.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point on one machine's boot clock. It goes on counting while the machine sleeps and never jumps.
///
/// Only differences between two moments of the same machine mean anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment `since_boot` after the machine started.
    pub fn from_boot(since_boot: Duration) -> Self {
        Self(nanos(since_boot))
    }

    /// How long after the machine's start this moment is.
    pub fn since_boot(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Time from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Time from here to `later`; zero if that has passed.
    pub fn until(self, later: Moment) -> Duration {
        later.since(self)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    /// Saturates at the end of time instead of wrapping.
    fn add(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Moment;

    /// Saturates at the machine's start instead of wrapping.
    fn sub(self, span: Duration) -> Moment {
        Moment(self.0.saturating_sub(nanos(span)))
    }
}

/// A point on the wall clock, in microseconds since 1970. It may jump in either direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Wall(u64);

impl Wall {
    /// The wall time `micros` microseconds after 1970.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to here; zero if `earlier` is later.
    pub fn since(self, earlier: Wall) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Wall {
    type Output = Wall;

    /// Saturates at the end of time instead of wrapping.
    fn add(self, span: Duration) -> Wall {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        Wall(self.0.saturating_add(micros))
    }
}

impl From<Wall> for SystemTime {
    fn from(wall: Wall) -> Self {
        UNIX_EPOCH + Duration::from_micros(wall.0)
    }
}

impl From<SystemTime> for Wall {
    /// Times before 1970 count as 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Wall {
    /// Seconds since 1970, with milliseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1_000_000, self.0 / 1_000 % 1_000)
    }
}

/// A measured duration as messages show it: `250ms`, `1.2s`, `1m30s`, `2h5m`. What is left out is cut off.
///
/// Not for settings, which must be shown as they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounded(pub Duration);

impl fmt::Display for Rounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0.as_secs(), self.0.subsec_millis());
        match seconds {
            0 => return write!(f, "{millis}ms"),
            1..60 if millis < 100 => return write!(f, "{seconds}s"),
            1..60 => return write!(f, "{seconds}.{}s", millis / 100),
            _ => {}
        }
        let parts = [
            ("d", seconds / 86_400),
            ("h", seconds / 3600 % 24),
            ("m", seconds / 60 % 60),
            ("s", seconds % 60),
        ];
        parts.iter().filter(|(_, count)| *count > 0).try_for_each(|(unit, count)| write!(f, "{count}{unit}"))
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_saturate_instead_of_wrapping() {
        let start = Moment::from_boot(Duration::from_secs(1));
        assert_eq!(start.since_boot(), Duration::from_secs(1));
        assert_eq!((start - Duration::from_millis(300)).since_boot(), Duration::from_millis(700));
        assert_eq!(start - Duration::from_secs(5), Moment::default());
        assert!(start + Duration::MAX > start);
        assert_eq!(start.since(start + Duration::from_secs(1)), Duration::ZERO);
    }

    #[test]
    fn a_duration_is_shown_without_noise() {
        for (micros, text) in [
            (0, "0ms"),
            (400, "0ms"),
            (250_999, "250ms"),
            (1_000_000, "1s"),
            (1_234_567, "1.2s"),
            (59_999_999, "59.9s"),
            (88_262_619, "1m28s"),
            (3_600_000_000, "1h"),
            (93_784_000_000, "1d2h3m4s"),
        ] {
            assert_eq!(Rounded(Duration::from_micros(micros)).to_string(), text);
        }
        assert!(Rounded(Duration::MAX).to_string().ends_with('s'));
    }

    #[test]
    fn a_wall_time_before_another_is_zero_after_it() {
        let early = Wall::from_micros(5);
        assert_eq!(early.since(early + Duration::from_micros(1)), Duration::ZERO);
        assert_eq!(Wall::from_micros(1_500_000).to_string(), "1.500");
    }
}
