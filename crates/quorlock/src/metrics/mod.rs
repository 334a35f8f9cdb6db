//! Numbers about locks and nodes, for Prometheus and others, through the `metrics` crate (feature `metrics`).
//!
//! ```
//! use quorlock::{Locker, metrics::Metrics};
//!
//! # fn main() -> Result<(), quorlock::ConfigError> {
//! let locker = Locker::builder().nodes(["memory:"]).metrics(Metrics::new()).build()?;
//! # Ok(()) }
//! ```
//!
//! Install a recorder of your choice first: what happens before is not counted. Most exporters make
//! summaries of histograms unless they are given buckets; [`BUCKETS`] has fitting ones. `docs/metrics.md`
//! in the repository lists every metric; their names and labels are stable.

mod catalog;
mod label_limit;
mod nodes;
mod series;

pub use catalog::BUCKETS;
pub(crate) use nodes::NodeWatch;
pub use nodes::record_health;

use crate::context::event::{Event, Observer};
use catalog as w;
use label_limit::Names;
use series::Series;
use std::sync::{Arc, Once};
use std::time::Duration;

/// Counts what happens to locks and nodes. Clones share the bound on names, so that several lockers can.
///
/// [`Builder::metrics`](crate::Builder::metrics) takes it and updates the gauges of nodes, too. As a
/// plain [`Observer`] it counts events only; call [`record_health`] yourself, for example before each
/// scrape.
#[derive(Clone, Debug)]
pub struct Metrics {
    names: Arc<Names>,
    every: Duration,
    described: Arc<Once>,
}

impl Metrics {
    /// Gives up to 100 names of locks a label of their own, and reads the health of nodes every 5 s.
    pub fn new() -> Self {
        Self {
            names: Arc::new(Names::up_to(100)),
            every: Duration::from_secs(5),
            described: Arc::new(Once::new()),
        }
    }

    /// How many names of locks get a label `resource` of their own: those that are held, or were used
    /// within 10 minutes. All others share `other`, as does a lock of that very name. A name of over 100
    /// characters is cut, and ends with its hash.
    ///
    /// Series of names that are not used any more are no longer updated. An exporter that drops idle
    /// series, such as one with an `idle_timeout` of 20 minutes, keeps their number bounded.
    #[must_use]
    pub fn with_names(self, most: usize) -> Self {
        Self { names: Arc::new(Names::up_to(most)), ..self }
    }

    /// How often the gauges of nodes are brought up to date, at least 100 ms.
    #[must_use]
    pub fn every(self, span: Duration) -> Self {
        Self { every: span.max(Duration::from_millis(100)), ..self }
    }

    pub(crate) fn node_watch(&self) -> NodeWatch {
        NodeWatch::new(self.every, self.names.clone())
    }

    fn record_acquiring(&self, event: &Event) {
        match event {
            Event::Acquired { name, waited, took, attempts, votes, .. } => {
                let series = self.names.hold(name);
                series.record(w::ACQUIRE_DURATION, *waited);
                series.record(w::WAIT, waited.saturating_sub(*took));
                series.record(w::ATTEMPTS, *attempts);
                quorum_size(&series, *votes);
            }
            Event::Refused { name, .. } => self.names.series(name).count(w::REFUSED, None),
            Event::Waiting { name, .. } => self.names.series(name).count(w::WAITS, None),
            Event::GaveUp { name, reason, waited, .. } => {
                let series = self.names.series(name);
                series.record(w::WAIT, *waited);
                series.count(w::GAVE_UP, Some(("reason", reason.kind())));
            }
            Event::Adopted { name, .. } => self.names.hold(name).count(w::ADOPTIONS, None),
            _ => {}
        }
    }

    fn record_holding(&self, event: &Event) {
        match event {
            Event::Extended { name, left, votes } => {
                let series = self.names.series(name);
                quorum_size(&series, *votes);
                series.record(w::VALIDITY_LEFT, *left);
                series.count(w::EXTENSIONS, None);
            }
            Event::ExtendFailed { name, .. } => self.names.series(name).count(w::EXTENSION_FAILURES, None),
            Event::Lost { name, reason, held, .. } => {
                let series = self.names.release(name);
                series.count(w::LOSSES, Some(("reason", reason.kind())));
                series.record(w::HOLD, *held);
            }
            Event::Released { name, outcome, held, lost, .. } => {
                // A lost lock was counted when it was lost.
                let series = if lost.is_none() { self.names.release(name) } else { self.names.series(name) };
                series.count(w::RELEASES, Some(("outcome", outcome.kind())));
                if lost.is_none() {
                    series.record(w::HOLD, *held);
                }
            }
            Event::GivenAway { name, held, .. } => {
                let series = self.names.release(name);
                series.count(w::HANDOFFS, None);
                series.record(w::HOLD, *held);
            }
            Event::ForceReleased { name, outcome } => {
                self.names.series(name).count(w::FORCE_RELEASES, Some(("outcome", outcome.kind())));
            }
            _ => {}
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Metrics {
    fn on_event(&self, event: &Event) {
        // Not earlier: descriptions are lost while no recorder is installed.
        self.described.call_once(w::describe);
        self.record_acquiring(event);
        self.record_holding(event);
        nodes::count(event);
    }
}

fn quorum_size(series: &Series, votes: usize) {
    series.gauge(w::QUORUM_SIZE, |gauge| gauge.set(nodes::float(votes)));
}
