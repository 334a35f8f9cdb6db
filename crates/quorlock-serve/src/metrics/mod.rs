//! The Prometheus recorder of this process, and the counters of the sidecar.

use metrics::{counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_util::MetricKindMask;
use quorlock::metrics::BUCKETS;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

const SESSIONS: &str = "redlock_sidecar_sessions";
const CONNECTIONS: &str = "redlock_sidecar_connections";
const WAITERS: &str = "redlock_sidecar_waiters";
const REQUESTS: &str = "redlock_sidecar_requests_total";
const PROBLEMS: &str = "redlock_sidecar_problems_total";
const EVICTED: &str = "redlock_sidecar_connections_evicted_total";
const WRONG_SECRETS: &str = "redlock_sidecar_wrong_secrets_total";

/// A series without an update for this long is dropped, so that names of locks that are no longer used
/// take no memory. The library updates the series of names in use.
const IDLE: Duration = Duration::from_secs(1200);

/// A process has one recorder, which all sidecars in it share.
static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Installs the recorder, or returns the one that is installed already.
pub(crate) fn install_recorder() -> Result<PrometheusHandle, BuildError> {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = &*installed {
        return Ok(handle.clone());
    }
    let mut exporter = PrometheusBuilder::new().idle_timeout(MetricKindMask::ALL, Some(IDLE));
    for (name, buckets) in BUCKETS {
        exporter = exporter.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets)?;
    }
    let handle = exporter.install_recorder()?;
    describe_gauge!(SESSIONS, "Locks held through this sidecar, by token (lease) or by connection (hold)");
    describe_gauge!(CONNECTIONS, "Open connections");
    describe_gauge!(WAITERS, "Calls that wait for a lock");
    describe_counter!(REQUESTS, "Requests answered, by route and status");
    describe_counter!(EVICTED, "Idle connections closed to admit others");
    describe_counter!(PROBLEMS, "Responses that report a problem, by code");
    describe_counter!(WRONG_SECRETS, "Requests with a secret that is not in the token file");
    touch();
    *installed = Some(handle.clone());
    Ok(handle)
}

/// Creates the counters that may stay at 0, so that Prometheus sees the first increment, and keeps them
/// from being idle.
pub(crate) fn touch() {
    counter!(WRONG_SECRETS).increment(0);
    counter!(EVICTED).increment(0);
}

/// Drops idle series, which otherwise happens at each scrape.
pub(crate) fn sweep(prometheus: &PrometheusHandle) {
    touch();
    drop(prometheus.render());
}

/// Counts a response. `route` is a template, so there are few.
pub(crate) fn count_request(route: &'static str, status: u16) {
    counter!(REQUESTS, "route" => route, "status" => status_label(status)).increment(1);
}

/// Counts a response that reports a problem.
pub(crate) fn count_problem(code: &'static str) {
    counter!(PROBLEMS, "code" => code).increment(1);
}

/// Counts an idle connection that was closed to admit another.
pub(crate) fn count_evicted() {
    counter!(EVICTED).increment(1);
}

/// Counts a request with a secret that is not in the token file.
pub(crate) fn count_wrong_secret() {
    counter!(WRONG_SECRETS).increment(1);
}

/// A status as a label, without an allocation.
fn status_label(status: u16) -> &'static str {
    const LABELS: &[(u16, &str)] = &[
        (200, "200"),
        (400, "400"),
        (401, "401"),
        (403, "403"),
        (404, "404"),
        (405, "405"),
        (408, "408"),
        (409, "409"),
        (410, "410"),
        (413, "413"),
        (415, "415"),
        (421, "421"),
        (429, "429"),
        (500, "500"),
        (503, "503"),
    ];
    LABELS.iter().find(|(number, _)| *number == status).map_or("other", |(_, label)| label)
}

/// What the gauges of the sidecar show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gauges {
    pub(crate) leases: usize,
    pub(crate) holds: usize,
    pub(crate) connections: usize,
    pub(crate) waiters: usize,
}

impl Gauges {
    pub(crate) fn record(self) {
        gauge!(SESSIONS, "kind" => "lease").set(float(self.leases));
        gauge!(SESSIONS, "kind" => "hold").set(float(self.holds));
        gauge!(CONNECTIONS).set(float(self.connections));
        gauge!(WAITERS).set(float(self.waiters));
    }
}

#[allow(clippy::cast_precision_loss)] // Bounded far below 2^53 by the limits.
fn float(count: usize) -> f64 {
    count as f64
}
