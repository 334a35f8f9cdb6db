//! The delay before the next try: growing, jittered, capped.

use std::time::Duration;

/// Decorrelated jitter: each delay is random between `floor` and three times the one before, at most `cap`.
///
/// Randomness is an argument, so the same numbers give the same delays.
#[derive(Clone, Debug)]
pub struct Backoff {
    floor: Duration,
    cap: Duration,
    previous: Duration,
}

impl Backoff {
    /// Delays from `floor` up to `cap`; a cap below the floor counts as the floor.
    pub fn new(floor: Duration, cap: Duration) -> Self {
        Self { floor, cap: cap.max(floor), previous: floor }
    }

    /// The next delay, chosen by `random`.
    pub fn next(&mut self, random: u64) -> Duration {
        let ceiling = self.previous.saturating_mul(3).min(self.cap);
        self.previous = between(self.floor, ceiling, random);
        self.previous
    }

    /// Makes every following delay at least `floor`, for example as long as an attempt takes. The cap
    /// rises to three times that, if it is below.
    pub fn raise_floor(&mut self, floor: Duration) {
        if floor <= self.floor {
            return;
        }
        self.floor = floor;
        // Without room above the floor there is no jitter, and contenders stay in step.
        self.previous = self.previous.max(floor);
        self.cap = self.cap.max(floor.saturating_mul(3));
    }

    /// Starts again from the floor.
    pub fn reset(&mut self) {
        self.previous = self.floor;
    }
}

/// A span between `low` and `high`, chosen by `random`; `low` if `high` is not above it.
pub fn between(low: Duration, high: Duration, random: u64) -> Duration {
    let width = u64::try_from(high.saturating_sub(low).as_nanos()).unwrap_or(u64::MAX);
    let share = (u128::from(random) * (u128::from(width) + 1)) >> 64;
    low + Duration::from_nanos(u64::try_from(share).unwrap_or(width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn delays_grow_threefold_at_most_and_stop_at_the_cap() {
        let mut backoff = Backoff::new(ms(10), ms(100));
        let longest: Vec<_> = (0..5).map(|_| backoff.next(u64::MAX)).collect();
        assert_eq!(longest, [ms(30), ms(90), ms(100), ms(100), ms(100)]);
        backoff.reset();
        assert_eq!(backoff.next(u64::MAX), ms(30), "from the floor again");
    }

    #[test]
    fn random_numbers_are_spread_over_the_whole_span() {
        for (random, chosen) in [(0, 10), (1 << 62, 20), (1 << 63, 30), (u64::MAX, 50)] {
            let delay = between(ms(10), ms(50), random);
            assert_eq!((delay + Duration::from_nanos(2)).as_millis(), chosen, "{random}");
        }
        assert_eq!(between(ms(50), ms(10), 7), ms(50));
    }

    #[test]
    fn delays_stay_jittered_and_longer_than_a_slow_attempt() {
        for (random, delays) in [(0, [ms(600), ms(600)]), (u64::MAX, [ms(1_800), ms(1_800)])] {
            let mut backoff = Backoff::new(ms(2), ms(500));
            backoff.raise_floor(ms(600));
            assert_eq!([backoff.next(random), backoff.next(random)], delays);
        }
    }

    #[test]
    fn a_zero_delay_does_not_panic() {
        let mut backoff = Backoff::new(Duration::ZERO, Duration::ZERO);
        assert_eq!(backoff.next(u64::MAX), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn every_delay_is_between_floor_and_cap(
            floor in 0u64..1_000, cap in 0u64..10_000, raised in 0u64..500, randoms in prop::collection::vec(any::<u64>(), 1..50)
        ) {
            let mut backoff = Backoff::new(ms(floor), ms(cap));
            backoff.raise_floor(ms(raised));
            let cap = if raised > floor { ms(cap).max(3 * ms(raised)) } else { ms(cap).max(ms(floor)) };
            for random in randoms {
                let delay = backoff.next(random);
                prop_assert!(delay >= ms(floor) && delay >= ms(raised) && delay <= cap);
            }
        }
    }
}
