//! Numbers for Prometheus.

use crate::access::CanRead;
use crate::app::App;
use crate::code::Code;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use metrics::{counter, describe_counter, describe_gauge, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use metrics_util::MetricKindMask;
use quorlock::metrics::{BUCKETS, record_health};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

const SESSIONS: &str = "redlock_sidecar_sessions";
const CONNECTIONS: &str = "redlock_sidecar_connections";
const WAITERS: &str = "redlock_sidecar_waiters";
const REQUESTS: &str = "redlock_sidecar_requests_total";
const PROBLEMS: &str = "redlock_sidecar_problems_total";
const EVICTED: &str = "redlock_sidecar_connections_evicted_total";
const WRONG_SECRETS: &str = "redlock_sidecar_wrong_secrets_total";

/// Series that were not updated for so long are dropped, so that names of locks that are not used any more take no room.
/// The library updates those of names in use.
const IDLE: Duration = Duration::from_secs(1200);

/// A process has one recorder; all sidecars in it share it.
static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);

/// Installs the recorder, unless that was done.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
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
    describe_counter!(EVICTED, "Idle connections that were closed to make room for others");
    describe_counter!(PROBLEMS, "Problems answered, by code");
    describe_counter!(WRONG_SECRETS, "Requests with a secret that is not in the token file");
    touch();
    *installed = Some(handle.clone());
    Ok(handle)
}

/// So that the first one is seen as a rise, and none is taken for idle.
fn touch() {
    counter!(WRONG_SECRETS).increment(0);
    counter!(EVICTED).increment(0);
}

/// Drops series that are idle, which otherwise happens when they are shown.
pub(crate) fn sweep(app: &App) {
    touch();
    drop(app.prometheus.render());
}

/// Counts an answer. `route` is a template, so there are few.
pub(crate) fn count(route: &'static str, status: u16) {
    counter!(REQUESTS, "route" => route, "status" => word(status)).increment(1);
}

/// Counts a problem that was answered.
pub(crate) fn count_problem(code: Code) {
    counter!(PROBLEMS, "code" => code.facts().0).increment(1);
}

/// Counts an idle connection that was closed to make room.
pub(crate) fn count_evicted() {
    counter!(EVICTED).increment(1);
}

/// Counts a request with a secret that is not in the token file.
pub(crate) fn count_wrong_secret() {
    counter!(WRONG_SECRETS).increment(1);
}

/// A status without a piece of memory of its own.
fn word(status: u16) -> &'static str {
    const WORDS: &[(u16, &str)] = &[
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
    WORDS.iter().find(|(number, _)| *number == status).map_or("other", |(_, word)| word)
}

/// Shows numbers for Prometheus
#[utoipa::path(get, path = "/metrics", tag = "health", responses((status = 200, content_type = "text/plain", body = String)))]
pub(crate) async fn show(State(app): State<Arc<App>>, _: CanRead) -> Response {
    touch();
    record_health(&app.locker.health());
    let (leases, holds) = app.sessions.counts();
    gauge!(SESSIONS, "kind" => "lease").set(float(leases));
    gauge!(SESSIONS, "kind" => "hold").set(float(holds));
    gauge!(CONNECTIONS).set(float(app.connections.load(Ordering::Relaxed)));
    gauge!(WAITERS).set(float(app.waiters.total()));
    app.prometheus.run_upkeep();
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))];
    (kind, app.prometheus.render()).into_response()
}

#[allow(clippy::cast_precision_loss)] // Bounded far below 2^53 by the limits.
fn float(count: usize) -> f64 {
    count as f64
}
