//! A histogram of durations: any number of them fits into a few kilobytes.

use std::time::Duration;

/// Buckets per power of two: a duration is known to within 3 %.
const PARTS: u64 = 32;
/// Enough for more than an hour.
const BUCKETS: usize = 1024;

/// Counts of durations.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    longest: Duration,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; BUCKETS], longest: Duration::ZERO }
    }
}

impl Histogram {
    pub(super) fn add(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.counts[bucket(micros)] += 1;
        self.longest = self.longest.max(time);
    }

    pub(super) fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.longest = self.longest.max(other.longest);
    }

    /// The duration that `percent` of all do not exceed; `None` if there are none.
    pub(super) fn percentile(&self, percent: u64) -> Option<Duration> {
        let total: u64 = self.counts.iter().sum();
        let rank = (total * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        bucket.map(|bucket| Duration::from_micros(upper(bucket)).min(self.longest))
    }

    pub(super) fn longest(&self) -> Duration {
        self.longest
    }
}

/// Durations below [`PARTS`] microseconds have a bucket each; above, each power of two has
/// [`PARTS`].
fn bucket(micros: u64) -> usize {
    if micros < PARTS {
        return usize::try_from(micros).unwrap_or(0);
    }
    let power = u64::from(micros.ilog2() - PARTS.ilog2());
    let part = (micros >> power) - PARTS;
    let number = (power + 1) * PARTS + part;
    usize::try_from(number).unwrap_or(usize::MAX).min(BUCKETS - 1)
}

/// The longest time in a bucket, in microseconds.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PARTS {
        return bucket;
    }
    let (power, part) = (bucket / PARTS - 1, bucket % PARTS);
    ((PARTS + part + 1) << power) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_known_to_within_three_percent() {
        for micros in (0..2_000).chain([12_345, 999_999, 1_000_000, 3_600_000_000]) {
            let upper = upper(bucket(micros));
            assert!(upper >= micros && upper - micros <= micros / PARTS, "{micros}: {upper}");
        }
    }

    #[test]
    fn percentiles_are_ranks() {
        let mut times = Histogram::default();
        assert_eq!(times.percentile(50), None);
        for millis in 1..=100 {
            let mut more = Histogram::default();
            more.add(Duration::from_millis(millis));
            times.merge(&more);
        }
        for (percent, millis) in [(1, 1), (50, 50), (99, 99), (100, 100)] {
            let (found, exact) = (times.percentile(percent).unwrap(), Duration::from_millis(millis));
            assert!(found >= exact && found <= exact + exact / 32, "{percent}: {found:?}");
        }
        assert_eq!(times.longest(), Duration::from_millis(100));
    }

    #[test]
    fn no_time_is_too_long() {
        let mut times = Histogram::default();
        times.add(Duration::MAX);
        assert!(times.percentile(50).is_some());
    }
}
