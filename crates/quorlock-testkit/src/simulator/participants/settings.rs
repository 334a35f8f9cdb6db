//! How a client process is configured.

use crate::rng::Rng;
use crate::simulator::{LONGEST_USED_TTL, NODE_TIMEOUT, TTL, WAIT};
use quorlock::Builder;
use std::time::Duration;

/// The settings of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) ttl: Duration,
    pub(crate) longest_ttl: Duration,
    pub(crate) drift: f64,
    pub(crate) node_timeout: Duration,
    pub(crate) wait: Duration,
    pub(crate) watchdog: bool,
    pub(crate) max_hold: Option<Duration>,
}

impl Settings {
    /// What all processes of a plain world have.
    pub(crate) const PLAIN: Settings = Settings {
        ttl: TTL,
        longest_ttl: LONGEST_USED_TTL,
        drift: 0.01,
        node_timeout: NODE_TIMEOUT,
        wait: WAIT,
        watchdog: true,
        max_hold: None,
    };

    /// Draws settings that the design allows together: each `longest_ttl` covers every ttl in use,
    /// each drift the clocks.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let ms = Duration::from_millis;
        let ttl = ms(*rng.pick(&[1_000, 1_500, 2_000, 3_000]));
        let longest_ttl = *rng.pick(&[LONGEST_USED_TTL, LONGEST_USED_TTL + TTL, 2 * LONGEST_USED_TTL]);
        // The larger ones leave more room than the clocks need, so they are rare.
        let drift = *rng.pick(&[0.01, 0.01, 0.01, 0.01, 0.02, 0.05]);
        let node_timeout = *rng.pick(&[NODE_TIMEOUT / 2, NODE_TIMEOUT, ms(200)]);
        let wait = *rng.pick(&[WAIT / 4, WAIT]);
        let watchdog = rng.chance(80);
        let limit = rng.span(ms(500), 2 * TTL);
        let max_hold = rng.chance(15).then_some(limit);
        Self { ttl, longest_ttl, drift, node_timeout, wait, watchdog, max_hold }
    }

    pub(crate) fn apply(self, builder: Builder) -> Builder {
        let builder = builder
            .ttl(self.ttl)
            .longest_ttl(self.longest_ttl)
            .drift_factor(self.drift)
            .node_timeout(self.node_timeout)
            .wait_timeout(self.wait)
            .watchdog(self.watchdog);
        match self.max_hold {
            Some(hold) => builder.max_hold(hold),
            None => builder,
        }
    }
}

/// Some ttl that every client allows.
pub(crate) fn any_ttl(rng: &mut Rng) -> Duration {
    Duration::from_millis(1_000 + rng.below(2_001)).min(LONGEST_USED_TTL)
}
