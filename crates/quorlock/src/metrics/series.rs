//! The series of one value of the label `resource`, and their handles, which are used for a second.

use crate::context::mutex::Mutex;
use ::metrics::{Counter, Gauge, Histogram, IntoF64, SharedString, counter, gauge, histogram};
use std::time::{Duration, Instant};

/// How long a handle is used before the recorder is asked for it again. A recorder that drops idle series
/// counts nothing that an older handle reports.
const FRESH: Duration = Duration::from_secs(1);

/// The series of one value of the label `resource`. Asking the recorder for a handle is most of the cost of
/// counting, so those in use are kept.
#[derive(Debug)]
pub(crate) struct Series {
    resource: SharedString,
    counters: Handles<Counted, Counter>,
    gauges: Handles<&'static str, Gauge>,
    histograms: Handles<&'static str, Histogram>,
}

/// A counter: the metric, and a label next to `resource`.
type Counted = (&'static str, Option<(&'static str, &'static str)>);

/// The handles that were used, and when the recorder gave them out. There are few of each kind.
#[derive(Debug)]
struct Handles<K, H>(Mutex<Vec<(K, H, Instant)>>);

impl Series {
    pub(crate) fn new(resource: SharedString) -> Self {
        Self {
            resource,
            counters: Handles::default(),
            gauges: Handles::default(),
            histograms: Handles::default(),
        }
    }

    /// The value of the label.
    #[cfg(test)]
    pub(crate) fn resource(&self) -> &str {
        &self.resource
    }

    /// Adds one to a counter, which may have a label next to `resource`.
    pub(crate) fn count(&self, metric: &'static str, label: Option<(&'static str, &'static str)>) {
        let counted = (metric, label);
        self.counters.with(counted, || self.counter(counted), |counter| counter.increment(1));
    }

    /// Records a value in a histogram.
    pub(crate) fn record(&self, metric: &'static str, value: impl IntoF64) {
        let register = || histogram!(metric, "resource" => self.resource.clone());
        self.histograms.with(metric, register, |histogram| histogram.record(value));
    }

    /// Changes a gauge.
    pub(crate) fn gauge(&self, metric: &'static str, change: impl FnOnce(&Gauge)) {
        let register = || gauge!(metric, "resource" => self.resource.clone());
        self.gauges.with(metric, register, change);
    }

    /// Updates all counters that were used, so that recorders that drop idle series keep them.
    pub(crate) fn touch(&self) {
        let used: Vec<Counted> = self.counters.0.lock().iter().map(|(counted, ..)| *counted).collect();
        for counted in used {
            let counter = self.counter(counted);
            counter.increment(0);
            self.counters.keep(counted, counter, Instant::now());
        }
    }

    fn counter(&self, (metric, label): Counted) -> Counter {
        let resource = self.resource.clone();
        match label {
            None => counter!(metric, "resource" => resource),
            Some((key, value)) => counter!(metric, "resource" => resource, key => value),
        }
    }
}

impl<K, H> Default for Handles<K, H> {
    fn default() -> Self {
        Self(Mutex::new(Vec::new()))
    }
}

impl<K: PartialEq, H: Clone> Handles<K, H> {
    /// Calls `use_handle` with the handle for `key`, which `register` gets from the recorder. Both may call code of
    /// the user, so no handle is locked then.
    fn with(&self, key: K, register: impl FnOnce() -> H, use_handle: impl FnOnce(&H)) {
        let now = Instant::now();
        let handle = self.fresh(&key, now).unwrap_or_else(|| {
            let handle = register();
            self.keep(key, handle.clone(), now);
            handle
        });
        use_handle(&handle);
    }

    fn fresh(&self, key: &K, now: Instant) -> Option<H> {
        let handles = self.0.lock();
        let (_, handle, since) = handles.iter().find(|(used, ..)| used == key)?;
        (now.saturating_duration_since(*since) < FRESH).then(|| handle.clone())
    }

    fn keep(&self, key: K, handle: H, since: Instant) {
        let mut handles = self.0.lock();
        match handles.iter_mut().find(|(used, ..)| *used == key) {
            Some(kept) => *kept = (key, handle, since),
            None => handles.push((key, handle, since)),
        }
    }
}
