//! A token bucket: bounds how often something may happen.

use std::time::{Duration, Instant};

/// Allows `burst` events at once, and `rate` per second in the long run.
#[derive(Debug)]
pub(crate) struct RateLimit {
    rate: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl RateLimit {
    /// A full bucket. `rate` must be above 0.
    pub(crate) fn new(rate: f64, burst: f64, now: Instant) -> Self {
        Self { rate, burst, tokens: burst, at: now }
    }

    /// Takes one token.
    ///
    /// # Errors
    /// How long until there is one.
    pub(crate) fn try_acquire(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.at);
        self.tokens = (self.tokens + passed.as_secs_f64() * self.rate).min(self.burst);
        self.at = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::try_from_secs_f64((1.0 - self.tokens) / self.rate).unwrap_or(Duration::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_allowed_and_then_the_rate() {
        let start = Instant::now();
        let mut limit = RateLimit::new(2.0, 3.0, start);
        assert!((0..3).all(|_| limit.try_acquire(start).is_ok()));
        assert_eq!(limit.try_acquire(start), Err(Duration::from_millis(500)));
        assert_eq!(limit.try_acquire(start + Duration::from_millis(500)), Ok(()));
        assert!(limit.try_acquire(start + Duration::from_millis(600)).is_err());
        let later = start + Duration::from_secs(3600);
        assert_eq!((0..10).filter(|_| limit.try_acquire(later).is_ok()).count(), 3, "no more than the burst");
    }
}
