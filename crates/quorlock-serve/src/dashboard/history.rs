//! What happened in each of the last 300 seconds, for the plots.

use crate::json::now_ms;
use quorlock::{Event, LossReason, Observer};
use serde::Serialize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use utoipa::ToSchema;

/// How many seconds are shown.
const SHOWN: usize = 300;
/// Upper bounds of durations: from 0.05 ms to over a minute, each 1.33 times the one before.
const BOUNDS: usize = 50;
const FIRST_BOUND_MS: f64 = 0.05;
const GROWTH: f64 = 1.33;

/// Counts of the last seconds, updated by events.
#[derive(Debug)]
pub(crate) struct History(Mutex<Box<[Second]>>);

/// One second.
#[derive(Clone, Copy, Debug)]
struct Second {
    /// Seconds since 1970. A newer second overwrites the one 301 s before it.
    at: u64,
    acquires: u32,
    releases: u32,
    refused: u32,
    losses: u32,
    times: [u32; BOUNDS],
}

const EMPTY: Second = Second { at: 0, acquires: 0, releases: 0, refused: 0, losses: 0, times: [0; BOUNDS] };

/// One point per second, the last being the second before this one.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct Points {
    /// Milliseconds since 1970.
    at: Vec<u64>,
    /// Locks acquired.
    acquires: Vec<u32>,
    /// Locks released.
    releases: Vec<u32>,
    /// Attempts that were refused.
    refused: Vec<u32>,
    /// Locks lost.
    losses: Vec<u32>,
    /// The median duration of the acquires of that second.
    p50_ms: Vec<Option<f64>>,
    /// The 99th percentile.
    p99_ms: Vec<Option<f64>>,
}

impl History {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(vec![EMPTY; SHOWN + 1].into()))
    }

    /// The last 300 whole seconds.
    pub(crate) fn points(&self) -> Points {
        let now = now_ms() / 1000;
        let mut points = Points::default();
        let seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for at in now.saturating_sub(SHOWN as u64)..now {
            let second = &seconds[index(at)];
            let second = if second.at == at { second } else { &EMPTY };
            points.at.push(at * 1000);
            points.acquires.push(second.acquires);
            points.releases.push(second.releases);
            points.refused.push(second.refused);
            points.losses.push(second.losses);
            points.p50_ms.push(second.quantile(0.5));
            points.p99_ms.push(second.quantile(0.99));
        }
        points
    }

    fn update(&self, at: u64, change: impl FnOnce(&mut Second)) {
        let mut seconds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let second = &mut seconds[index(at)];
        if second.at != at {
            *second = Second { at, ..EMPTY };
        }
        change(second);
    }
}

impl Observer for History {
    fn on_event(&self, event: &Event) {
        let at = || now_ms() / 1000;
        match event {
            Event::Acquired { waited, .. } => self.update(at(), |second| {
                second.acquires += 1;
                second.times[bound(*waited)] += 1;
            }),
            Event::Released { .. } => self.update(at(), |second| second.releases += 1),
            Event::Refused { .. } => self.update(at(), |second| second.refused += 1),
            // A lease that its caller did not extend is no loss.
            Event::Lost { reason: LossReason::LeaseExpired, .. } => {}
            Event::Lost { .. } => self.update(at(), |second| second.losses += 1),
            _ => {}
        }
    }
}

impl Second {
    /// The duration that a `share` of the acquires did not exceed, rounded up to a bound; `None` without
    /// acquires.
    fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = (f64::from(self.times.iter().sum::<u32>()) * share).ceil();
        if wanted == 0.0 {
            return None;
        }
        let mut seen = 0;
        let at = self.times.iter().position(|count| {
            seen += count;
            f64::from(seen) >= wanted
        });
        let power = i32::try_from(at.unwrap_or(BOUNDS)).unwrap_or(i32::MAX);
        Some((FIRST_BOUND_MS * GROWTH.powi(power) * 1000.0).round() / 1000.0)
    }
}

fn index(at: u64) -> usize {
    usize::try_from(at % (SHOWN as u64 + 1)).unwrap_or_default()
}

/// The number of the first bound that `span` does not exceed.
fn bound(span: Duration) -> usize {
    let over = (span.as_secs_f64() * 1000.0 / FIRST_BOUND_MS).max(1.0);
    let number = over.log(GROWTH).ceil();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A small positive number.
    (number as usize).min(BOUNDS - 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_at_most_a_third_too_high() {
        let mut second = EMPTY;
        for millis in 1..=100 {
            second.times[bound(Duration::from_millis(millis))] += 1;
        }
        let (half, most) = (second.quantile(0.5).unwrap(), second.quantile(0.99).unwrap());
        assert!((50.0..67.0).contains(&half), "{half}");
        assert!((99.0..133.0).contains(&most), "{most}");
        assert_eq!(EMPTY.quantile(0.5), None);
    }

    #[test]
    fn times_beyond_all_bounds_count_as_the_longest() {
        assert_eq!(bound(Duration::ZERO), 0);
        assert_eq!(bound(Duration::from_secs(100_000)), BOUNDS - 1);
    }

    #[test]
    fn a_slot_is_reused_for_a_later_second() {
        let history = History::new();
        let now = now_ms() / 1000;
        history.update(now - 301, |second| second.acquires += 7);
        history.update(now - 1, |second| second.acquires += 1);
        let points = history.points();
        assert_eq!(points.at.len(), SHOWN);
        assert_eq!(points.acquires.iter().sum::<u32>(), 1);
    }
}
