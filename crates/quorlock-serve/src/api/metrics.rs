//! The metrics, for Prometheus to scrape.

use crate::api::callers::CanRead;
use crate::api::state::AppState;
use crate::metrics::{Gauges, touch};
use crate::sessions::SessionCounts;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use quorlock::metrics::record_health;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Returns the metrics for Prometheus
#[utoipa::path(get, path = "/metrics", operation_id = "show", tag = "health",
    responses((status = 200, content_type = "text/plain", body = String)))]
pub(crate) async fn metrics(State(app): State<Arc<AppState>>, _: CanRead) -> Response {
    touch();
    record_health(&app.locker.health());
    let SessionCounts { leases, holds } = app.sessions.counts();
    let connections = app.connections.load(Ordering::Relaxed);
    Gauges { leases, holds, connections, waiters: app.waiters.total() }.record();
    app.prometheus.run_upkeep();
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"))];
    (kind, app.prometheus.render()).into_response()
}
