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
//! Install a recorder of your choice first: what happens before is not counted. Most exporters make summaries of
//! histograms unless they are told buckets; [`BUCKETS`] has fitting ones. `docs/metrics.md` in the repository lists
//! every metric; their names and labels are stable.

mod names;
mod nodes;
mod words;

pub(crate) use nodes::NodeWatch;
pub use nodes::record_health;
pub use words::BUCKETS;

use crate::event::{Event, Observer};
use ::metrics::{SharedString, counter, gauge, histogram};
use names::Names;
use std::sync::{Arc, Once};
use std::time::Duration;
use words as w;

/// Counts what happens to locks and nodes. Clones share the bound on names, so that several lockers can.
///
/// [`Builder::metrics`](crate::Builder::metrics) takes it and sees to the gauges of nodes, too. As a plain
/// [`Observer`] it counts events only; call [`record_health`] yourself, for example before each scrape.
#[derive(Clone, Debug)]
pub struct Metrics {
    names: Arc<Names>,
    every: Duration,
    described: Arc<Once>,
}

impl Metrics {
    /// Tells up to 100 names of locks apart, and looks at nodes every 5 s.
    pub fn new() -> Self {
        Self {
            names: Arc::new(Names::up_to(100)),
            every: Duration::from_secs(5),
            described: Arc::new(Once::new()),
        }
    }

    /// How many names of locks get a label `resource` of their own. The first that come have it for ever; all others
    /// share `other`, as does a lock of that very name.
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
        NodeWatch::new(self.every)
    }

    fn taking(&self, event: &Event) {
        match event {
            Event::Acquired { name, waited, took, attempts, votes, .. } => {
                let resource = self.names.label(name);
                histogram!(w::ACQUIRE_DURATION, "resource" => resource.clone()).record(*waited);
                histogram!(w::WAIT, "resource" => resource.clone()).record(waited.saturating_sub(*took));
                histogram!(w::ATTEMPTS, "resource" => resource.clone()).record(*attempts);
                quorum_size(&resource, *votes);
                gauge!(w::HELD, "resource" => resource).increment(1);
            }
            Event::Refused { name, .. } => {
                counter!(w::REFUSED, "resource" => self.names.label(name)).increment(1);
            }
            Event::Waiting { name, .. } => {
                counter!(w::WAITS, "resource" => self.names.label(name)).increment(1);
            }
            Event::GaveUp { name, why, waited, .. } => {
                let resource = self.names.label(name);
                histogram!(w::WAIT, "resource" => resource.clone()).record(*waited);
                counter!(w::GAVE_UP, "resource" => resource, "reason" => *why).increment(1);
            }
            Event::Adopted { name, .. } => {
                let resource = self.names.label(name);
                counter!(w::ADOPTIONS, "resource" => resource.clone()).increment(1);
                gauge!(w::HELD, "resource" => resource).increment(1);
            }
            _ => {}
        }
    }

    fn holding(&self, event: &Event) {
        match event {
            Event::Extended { name, left, votes } => {
                let resource = self.names.label(name);
                quorum_size(&resource, *votes);
                histogram!(w::VALIDITY_LEFT, "resource" => resource.clone()).record(*left);
                counter!(w::EXTENSIONS, "resource" => resource).increment(1);
            }
            Event::ExtendFailed { name, .. } => {
                counter!(w::EXTENSION_FAILURES, "resource" => self.names.label(name)).increment(1);
            }
            Event::Lost { name, loss, held, .. } => {
                let resource = self.names.label(name);
                counter!(w::LOSSES, "resource" => resource.clone(), "reason" => loss.kind()).increment(1);
                held_for(resource, *held);
            }
            Event::Released { name, outcome, held, lost, .. } => {
                let resource = self.names.label(name);
                counter!(w::RELEASES, "resource" => resource.clone(), "outcome" => *outcome).increment(1);
                // A lost lock was counted when it was lost.
                if lost.is_none() {
                    held_for(resource, *held);
                }
            }
            Event::GivenAway { name, held, .. } => {
                let resource = self.names.label(name);
                counter!(w::HANDOFFS, "resource" => resource.clone()).increment(1);
                held_for(resource, *held);
            }
            Event::ForceReleased { name, outcome } => {
                let resource = self.names.label(name);
                counter!(w::FORCE_RELEASES, "resource" => resource, "outcome" => *outcome).increment(1);
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
        // Not earlier: descriptions that no recorder hears are lost.
        self.described.call_once(w::describe);
        self.taking(event);
        self.holding(event);
        nodes::note(event);
    }
}

fn quorum_size(resource: &SharedString, votes: usize) {
    gauge!(w::QUORUM_SIZE, "resource" => resource.clone()).set(nodes::float(votes));
}

fn held_for(resource: SharedString, held: Duration) {
    histogram!(w::HOLD, "resource" => resource.clone()).record(held);
    gauge!(w::HELD, "resource" => resource).decrement(1);
}
