//! How long a lock lives, and how much of that a holder may count on.

use crate::time::{Moment, Rounded};
use std::time::Duration;

/// What a ttl loses to clock granularity on the nodes, whatever its length.
const GRANULARITY: Duration = Duration::from_millis(2);

/// The vote window of every ttl that is long enough for it. All clients must have the same.
const VOTE_WINDOW: Duration = Duration::from_millis(50);

/// How much faster a node's clock may run than ours, as a share of the ttl.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Drift {
    per_million: u32,
}

impl Drift {
    /// 1 %, right for machines without good time synchronisation.
    pub const DEFAULT: Drift = Drift { per_million: 10_000 };

    /// A drift factor such as `0.01` (1 %) or `0.001` (good NTP).
    ///
    /// # Errors
    /// [`DriftError`] unless it is between 0 and 0.5.
    pub fn new(factor: f64) -> Result<Self, DriftError> {
        if !(0.0..=0.5).contains(&factor) {
            return Err(DriftError { factor });
        }
        // In range, so the product is at most 500 000 and never negative.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(Self { per_million: (factor * 1e6).ceil() as u32 })
    }

    /// What `span` loses to drift and clock granularity: `span * factor + 2 ms`.
    pub fn allowance(self, span: Duration) -> Duration {
        let nanos = span.as_nanos() * u128::from(self.per_million);
        let share = u64::try_from(nanos.div_ceil(1_000_000)).unwrap_or(u64::MAX);
        Duration::from_nanos(share).saturating_add(GRANULARITY)
    }
}

impl Default for Drift {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The drift factor is not a share that leaves a lease.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("a drift factor of {factor} makes no sense; give 0 to 0.5, such as 0.01, or 0.001 with good NTP")]
pub struct DriftError {
    /// The factor that was refused.
    pub factor: f64,
}

/// How long a node keeps a lock without hearing from its holder, in whole milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ttl {
    span: Duration,
    validity: Duration,
    vote_window: Duration,
}

impl Ttl {
    /// Checks that a lock of `span` leaves a useful validity when each node may take `node_timeout` to
    /// answer.
    ///
    /// The rule: after drift, at least four node timeouts must be left, so that one slow round to get the
    /// lock and one to extend it fit with as much again to work in.
    ///
    /// # Errors
    /// [`TtlError`] if it is zero, not whole milliseconds, over `longest`, or too short to be useful.
    pub fn new(
        span: Duration,
        drift: Drift,
        node_timeout: Duration,
        longest: Duration,
    ) -> Result<Self, TtlError> {
        if span.is_zero() || !span.subsec_nanos().is_multiple_of(1_000_000) {
            return Err(TtlError::NotMillis { ttl: span });
        }
        if span > longest {
            return Err(TtlError::TooLong { ttl: span, longest });
        }
        let validity = span.saturating_sub(drift.allowance(span));
        let needed = node_timeout.saturating_mul(4).max(Duration::from_millis(4));
        if validity < needed {
            return Err(TtlError::TooShort { ttl: span, validity, node_timeout, needed });
        }
        Ok(Self { span, validity, vote_window: VOTE_WINDOW.min(validity / 3) })
    }

    /// The same for a lock on a single node, which needs no vote window.
    #[must_use]
    pub fn on_one_node(self) -> Self {
        Self { vote_window: Duration::ZERO, ..self }
    }

    /// The whole span, as the nodes count it.
    pub fn span(self) -> Duration {
        self.span
    }

    /// What the holder may count on: the span less the drift allowance.
    pub fn validity(self) -> Duration {
        self.validity
    }

    /// How far apart the votes of an attempt may be to count together, and how long before its deadline a
    /// lock must be extended: 50 ms, or a third of a validity below 150 ms.
    ///
    /// A node may lose its memory after it voted, and the holder of before may repair it and extend there.
    /// The attempt would then count this vote, and that of a node on which the holder's lock expired. But
    /// the holder extends one vote window before any of its locks expires, so those two votes are further
    /// apart. See DESIGN.md, section 3.
    pub fn vote_window(self) -> Duration {
        self.vote_window
    }

    /// The span in milliseconds, as the nodes get it.
    pub fn millis(self) -> u64 {
        u64::try_from(self.span.as_millis()).unwrap_or(u64::MAX)
    }

    /// Until when a lock counts whose round *started* at `start`, before its first byte was sent.
    ///
    /// The one place where a deadline is computed.
    pub fn deadline(self, start: Moment) -> Moment {
        start + self.validity
    }
}

/// Why a ttl cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TtlError {
    /// Nodes count whole milliseconds.
    #[error("a ttl of {ttl:?} is not a positive number of whole milliseconds")]
    NotMillis {
        /// The ttl that was refused.
        ttl: Duration,
    },
    /// Nodes that restart wait for the longest ttl, so none may be longer.
    #[error(
        "a ttl of {ttl:?} is over the longest ttl of {longest:?}; raise `longest_ttl` for all clients, or shorten it"
    )]
    TooLong {
        /// The ttl that was refused.
        ttl: Duration,
        /// The longest that is allowed.
        longest: Duration,
    },
    /// Too little would be left after drift and slow answers for the lock to be useful.
    #[error(
        "a ttl of {ttl:?} leaves {} to work in, but with a node timeout of {node_timeout:?} at least {} are needed",
        Rounded(*.validity), Rounded(*.needed)
    )]
    TooShort {
        /// The ttl that was refused.
        ttl: Duration,
        /// What it would leave.
        validity: Duration,
        /// The configured limit of one node's answer.
        node_timeout: Duration,
        /// What must be left.
        needed: Duration,
    },
}

/// The ttl to choose for work that takes `work` on `nodes` nodes that answer in `latency`:
/// `work * 2 + latency * nodes + 1 s`, rounded up to whole milliseconds.
pub fn advised_ttl(work: Duration, latency: Duration, nodes: usize) -> Duration {
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    let exact = work
        .saturating_mul(2)
        .saturating_add(latency.saturating_mul(nodes))
        .saturating_add(Duration::from_secs(1));
    let millis = exact.as_nanos().div_ceil(1_000_000);
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LONGEST: Duration = Duration::from_secs(30);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn validity_is_ttl_less_drift_less_two_milliseconds() {
        let table = "
            ttl_ms  drift   validity_us
            10000   0.01    9898000
            10000   0.001   9988000
            1000    0.01    988000
            1000    0       998000
            30000   0.02    29398000";
        for row in table.lines().skip(2) {
            let cells: Vec<&str> = row.split_whitespace().collect();
            let drift = Drift::new(cells[1].parse().unwrap()).unwrap();
            let ttl = Ttl::new(ms(cells[0].parse().unwrap()), drift, ms(5), LONGEST).unwrap();
            assert_eq!(ttl.validity().as_micros().to_string(), cells[2], "{row}");
            assert_eq!(ttl.millis().to_string(), cells[0], "{row}");
            assert_eq!(ttl.span(), ms(ttl.millis()), "{row}");
        }
    }

    #[test]
    fn a_short_ttl_is_refused_instead_of_underflowing() {
        for span in [ms(1), ms(2), ms(3), ms(50), ms(204)] {
            let refused = Ttl::new(span, Drift::DEFAULT, ms(50), LONGEST);
            assert!(matches!(refused, Err(TtlError::TooShort { .. })), "{span:?}: {refused:?}");
        }
    }

    #[test]
    fn zero_fractional_and_too_long_ttls_are_refused() {
        let make = |span| Ttl::new(span, Drift::DEFAULT, ms(5), LONGEST);
        assert!(matches!(make(Duration::ZERO), Err(TtlError::NotMillis { .. })));
        assert!(matches!(make(Duration::from_micros(10_500)), Err(TtlError::NotMillis { .. })));
        assert!(matches!(make(LONGEST + ms(1)), Err(TtlError::TooLong { .. })));
        assert!(matches!(make(Duration::MAX), Err(TtlError::NotMillis { .. } | TtlError::TooLong { .. })));
    }

    #[test]
    fn a_drift_that_is_no_share_is_refused() {
        for factor in [-0.1, 0.51, f64::NAN, f64::INFINITY] {
            assert!(Drift::new(factor).is_err(), "{factor}");
        }
    }

    #[test]
    fn the_vote_window_is_the_same_for_all_but_the_shortest_ttls() {
        for (span, window) in [(30_000, 50), (1_000, 50), (154, 50), (100, 32), (8, 1)] {
            let ttl = Ttl::new(ms(span), Drift::DEFAULT, ms(1), LONGEST).unwrap();
            assert_eq!(ttl.vote_window().as_millis(), window, "{span}");
            assert_eq!(ttl.on_one_node().vote_window(), Duration::ZERO);
            assert_eq!(ttl.on_one_node().validity(), ttl.validity());
        }
    }

    #[test]
    fn advice_follows_the_formula() {
        assert_eq!(advised_ttl(ms(4_000), ms(10), 5), ms(9_050));
        assert_eq!(advised_ttl(Duration::from_micros(1), Duration::ZERO, 1), ms(1_001));
    }

    proptest! {
        #[test]
        fn the_deadline_always_comes_before_the_node_forgets(
            span in 10u64..30_000, per_mille in 0u32..=500, boot in 0u64..u64::MAX / 2
        ) {
            let drift = Drift::new(f64::from(per_mille) / 1000.0).unwrap();
            let start = Moment::from_boot(Duration::from_nanos(boot));
            if let Ok(ttl) = Ttl::new(ms(span), drift, ms(1), LONGEST) {
                let deadline = ttl.deadline(start);
                prop_assert!(deadline > start);
                // Even if the node's clock is fast by the whole drift factor.
                let node_keeps = ms(span).mul_f64(1.0 - f64::from(per_mille) / 1000.0);
                prop_assert!(deadline + ms(1) < start + node_keeps);
            }
        }

        #[test]
        fn allowance_never_panics(nanos in any::<u64>(), factor in 0.0f64..=0.5) {
            let span = Duration::from_nanos(nanos);
            prop_assert!(Drift::new(factor).unwrap().allowance(span) >= GRANULARITY);
        }
    }
}
