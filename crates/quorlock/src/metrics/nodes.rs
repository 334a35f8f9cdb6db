//! The gauges and counters of nodes, and the task that keeps the gauges up to date.

use crate::context::event::{Event, Observer};
use crate::metrics::catalog as w;
use crate::metrics::label_limit::Names;
use crate::node::{Health, Node, NodeError, NodeHealth};
use ::metrics::{SharedString, counter, gauge};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::time::sleep;

/// Brings the gauges of nodes up to date from what [`Locker::health`](crate::Locker::health) returns.
///
/// [`Builder::metrics`](crate::Builder::metrics) does so every few seconds. A node of which nothing is
/// known yet gets no gauges; those of a node that is down are 0.
pub fn record_health(nodes: &[NodeHealth]) {
    for node in nodes {
        record(&node.node, &node.health);
    }
}

fn record(node: &str, health: &Health) {
    let node = SharedString::from(node.to_owned());
    // So that the first failure is seen as a rise, and no recorder takes the counters for idle.
    for metric in [w::NODE_FAILURES, w::NODE_DOWNS, w::REPAIRS] {
        counter!(metric, "node" => node.clone()).increment(0);
    }
    counter!(w::CLOCK_JUMPS).increment(0);
    if health.trouble.is_none() && health.version.is_none() && health.round_trip.is_none() {
        return;
    }
    match &health.trouble {
        None => Gauges::of(health, Duration::ZERO).set(&node),
        Some(NodeError::Quarantined { left }) => Gauges::of(health, *left).set(&node),
        Some(_) => Gauges::default().set(&node),
    }
}

/// Counts what happened to a node.
pub(crate) fn count(event: &Event) {
    match event {
        Event::NodeUp { node, .. } => gauge!(w::NODE_UP, "node" => label(node)).set(1),
        Event::NodeDown { node, .. } => {
            Gauges::default().set(&label(node));
            counter!(w::NODE_DOWNS, "node" => label(node)).increment(1);
        }
        Event::NodeQuarantined { node, left } => {
            gauge!(w::NODE_CAN_VOTE, "node" => label(node)).set(0);
            gauge!(w::NODE_QUARANTINE, "node" => label(node)).set(left.as_secs_f64());
        }
        Event::ClockSkew { node, ahead_micros } => {
            gauge!(w::NODE_CLOCK_OFFSET, "node" => label(node)).set(seconds(*ahead_micros));
        }
        Event::NodeFailed { node, cause } => {
            counter!(w::NODE_FAILURES, "node" => label(node)).increment(1);
            counter!(w::NODE_FAILURES_BY_CAUSE, "node" => label(node), "cause" => cause.kind()).increment(1);
        }
        Event::Repaired { node, .. } => counter!(w::REPAIRS, "node" => label(node)).increment(1),
        Event::ClockJumped { .. } => counter!(w::CLOCK_JUMPS).increment(1),
        _ => {}
    }
}

/// The gauges of one node; all 0 while it is down.
#[derive(Default)]
struct Gauges {
    up: f64,
    can_vote: f64,
    round_trip: f64,
    clock_offset: f64,
    quarantine: f64,
    queue: f64,
}

impl Gauges {
    fn of(health: &Health, quarantine: Duration) -> Self {
        Self {
            up: 1.0,
            can_vote: if quarantine.is_zero() { 1.0 } else { 0.0 },
            round_trip: health.round_trip.unwrap_or_default().as_secs_f64(),
            clock_offset: seconds(health.clock_ahead_micros.unwrap_or_default()),
            quarantine: quarantine.as_secs_f64(),
            queue: float(health.queued),
        }
    }

    fn set(&self, node: &SharedString) {
        gauge!(w::NODE_UP, "node" => node.clone()).set(self.up);
        gauge!(w::NODE_CAN_VOTE, "node" => node.clone()).set(self.can_vote);
        gauge!(w::NODE_ROUND_TRIP, "node" => node.clone()).set(self.round_trip);
        gauge!(w::NODE_CLOCK_OFFSET, "node" => node.clone()).set(self.clock_offset);
        gauge!(w::NODE_QUARANTINE, "node" => node.clone()).set(self.quarantine);
        gauge!(w::NODE_QUEUE, "node" => node.clone()).set(self.queue);
    }
}

/// Reads the health of one locker's nodes every now and then, on the runtime of the first event, until
/// the locker is dropped.
#[derive(Clone, Debug)]
pub(crate) struct NodeWatch(Arc<Watch>);

#[derive(Debug)]
struct Watch {
    every: Duration,
    names: Arc<Names>,
    /// Weak, because the nodes keep their observers alive.
    nodes: OnceLock<Weak<[Arc<dyn Node>]>>,
    running: AtomicBool,
}

impl NodeWatch {
    pub(crate) fn new(every: Duration, names: Arc<Names>) -> Self {
        Self(Arc::new(Watch { every, names, nodes: OnceLock::new(), running: AtomicBool::new(false) }))
    }

    /// Sets the nodes, once they exist.
    pub(crate) fn set_nodes(&self, nodes: &Arc<[Arc<dyn Node>]>) {
        let _ = self.0.nodes.set(Arc::downgrade(nodes));
    }
}

impl Observer for NodeWatch {
    fn on_event(&self, _: &Event) {
        let Ok(runtime) = Handle::try_current() else { return };
        let Some(nodes) = self.0.nodes.get() else { return };
        if !self.0.running.swap(true, Ordering::SeqCst) {
            runtime.spawn(watch(Running(self.0.clone()), nodes.clone()));
        }
    }
}

/// Exists while the task runs. Dropped with its runtime, so that the next event starts another.
struct Running(Arc<Watch>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.store(false, Ordering::SeqCst);
    }
}

async fn watch(running: Running, nodes: Weak<[Arc<dyn Node>]>) {
    while let Some(nodes) = nodes.upgrade() {
        for node in nodes.iter() {
            record(node.id(), &node.health());
        }
        drop(nodes);
        running.0.names.touch();
        sleep(running.0.every).await;
    }
}

fn label(node: &Arc<str>) -> SharedString {
    node.clone().into()
}

/// Gauges are floats: exact up to 2^53, which no count or offset here comes near.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn float(count: usize) -> f64 {
    count as f64
}

#[allow(clippy::cast_precision_loss)]
fn seconds(micros: i64) -> f64 {
    micros as f64 / 1e6
}
