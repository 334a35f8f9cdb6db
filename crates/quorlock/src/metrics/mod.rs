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

pub use catalog::BUCKETS;
pub(crate) use nodes::NodeWatch;
pub use nodes::record_health;

use crate::context::event::{Event, Observer};
use ::metrics::{SharedString, gauge, histogram};
use catalog as w;
use label_limit::Names;
use quorlock_core::Name;
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
                let resource = self.names.hold(name);
                histogram!(w::ACQUIRE_DURATION, "resource" => resource.clone()).record(*waited);
                histogram!(w::WAIT, "resource" => resource.clone()).record(waited.saturating_sub(*took));
                histogram!(w::ATTEMPTS, "resource" => resource.clone()).record(*attempts);
                quorum_size(&resource, *votes);
            }
            Event::Refused { name, .. } => self.names.count(name, w::REFUSED, None),
            Event::Waiting { name, .. } => self.names.count(name, w::WAITS, None),
            Event::GaveUp { name, reason, waited, .. } => {
                histogram!(w::WAIT, "resource" => self.names.label(name)).record(*waited);
                self.names.count(name, w::GAVE_UP, Some(("reason", reason.kind())));
            }
            Event::Adopted { name, .. } => {
                self.names.hold(name);
                self.names.count(name, w::ADOPTIONS, None);
            }
            _ => {}
        }
    }

    fn record_holding(&self, event: &Event) {
        match event {
            Event::Extended { name, left, votes } => {
                let resource = self.names.label(name);
                quorum_size(&resource, *votes);
                histogram!(w::VALIDITY_LEFT, "resource" => resource).record(*left);
                self.names.count(name, w::EXTENSIONS, None);
            }
            Event::ExtendFailed { name, .. } => self.names.count(name, w::EXTENSION_FAILURES, None),
            Event::Lost { name, reason, held, .. } => {
                self.names.count(name, w::LOSSES, Some(("reason", reason.kind())));
                self.record_hold_end(name, *held);
            }
            Event::Released { name, outcome, held, lost, .. } => {
                self.names.count(name, w::RELEASES, Some(("outcome", outcome.kind())));
                // A lost lock was counted when it was lost.
                if lost.is_none() {
                    self.record_hold_end(name, *held);
                }
            }
            Event::GivenAway { name, held, .. } => {
                self.names.count(name, w::HANDOFFS, None);
                self.record_hold_end(name, *held);
            }
            Event::ForceReleased { name, outcome } => {
                self.names.count(name, w::FORCE_RELEASES, Some(("outcome", outcome.kind())));
            }
            _ => {}
        }
    }

    fn record_hold_end(&self, name: &Name, held: Duration) {
        let resource = self.names.release(name);
        histogram!(w::HOLD, "resource" => resource).record(held);
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

fn quorum_size(resource: &SharedString, votes: usize) {
    gauge!(w::QUORUM_SIZE, "resource" => resource.clone()).set(nodes::float(votes));
}
