//! The settings of one client process.

use crate::nemesis::{LONGEST_TTL, NODE_TIMEOUT, TTL};
use crate::rng::Rng;
use quorlock::Builder;
use std::time::Duration;

/// Draws settings that the design allows together: each `longest_ttl` covers every ttl in use.
pub(crate) fn vary(builder: Builder, rng: &mut Rng) -> Builder {
    let ms = Duration::from_millis;
    let builder = builder
        .ttl(*rng.pick(&[ms(600), ms(800), TTL, TTL]))
        .longest_ttl(*rng.pick(&[TTL, LONGEST_TTL]))
        .drift_factor(*rng.pick(&[0.01, 0.01, 0.02, 0.05]))
        .node_timeout(*rng.pick(&[NODE_TIMEOUT / 2, NODE_TIMEOUT]))
        .watchdog(rng.chance(80));
    let limit = ms(300 + rng.below(1_700));
    if rng.chance(15) { builder.max_hold(limit) } else { builder }
}
