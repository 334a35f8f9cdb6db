//! Waits in buckets of equal ratio: 32 per doubling of microseconds, so a percentile is right to about 1 %.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How many buckets there are; the last one also takes all that is longer (an hour and more).
pub const BUCKETS: usize = 1024;

const PER_DOUBLING: f64 = 32.0;

/// Which bucket counts `wait`.
pub fn bucket_of(wait: Duration) -> usize {
    let us = (wait.as_nanos() as f64 / 1000.0).max(1.0);
    ((us.log2() * PER_DOUBLING) as usize).min(BUCKETS - 1)
}

/// Counted waits, as they stand in an outcome: bucket and count.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Histogram(Vec<(usize, u64)>);

impl Histogram {
    /// Takes the counts of all buckets.
    pub fn of(counts: impl IntoIterator<Item = u64>) -> Self {
        Self(counts.into_iter().enumerate().filter(|(_, count)| *count > 0).collect())
    }

    /// Adds what another process counted.
    pub fn merge(&mut self, other: &Self) {
        self.0.extend(&other.0);
        self.0.sort_unstable();
    }

    /// The wait that `share` of all waits do not exceed, in milliseconds; `None` if nothing was counted.
    pub fn percentile_ms(&self, share: f64) -> Option<f64> {
        let total: u64 = self.0.iter().map(|(_, count)| count).sum();
        let rank = ((total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        self.0.iter().find_map(|(bucket, count)| {
            seen += count;
            (seen >= rank).then(|| middle_us(*bucket) / 1000.0)
        })
    }
}

fn middle_us(bucket: usize) -> f64 {
    ((bucket as f64 + 0.5) / PER_DOUBLING).exp2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_right_to_about_one_percent() {
        let mut counts = vec![0; BUCKETS];
        for us in 1..=100_000 {
            counts[bucket_of(Duration::from_micros(us))] += 1;
        }
        let waits = Histogram::of(counts);
        for (share, expected) in [(0.5, 50.0), (0.99, 99.0)] {
            let found = waits.percentile_ms(share).unwrap();
            assert!((found / expected - 1.0).abs() < 0.012, "{found} for {expected}");
        }
    }

    #[test]
    fn processes_are_counted_together() {
        let mut waits = Histogram::of([0, 5]);
        waits.merge(&Histogram::of([6, 1]));
        assert_eq!(waits.percentile_ms(0.5), Histogram::of([1]).percentile_ms(0.5));
        assert_eq!(Histogram::default().percentile_ms(0.5), None);
    }
}
