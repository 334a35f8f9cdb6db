//! Whether the sidecar lives, and whether it can lock.

use crate::app::App;
use crate::nodes::{Node, nodes};
use crate::reply::{json, json_with};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use utoipa::ToSchema;

/// Whether locks can be taken.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    ready: bool,
    /// How many nodes can vote.
    up: usize,
    /// How many must.
    quorum: usize,
    nodes: Vec<Node>,
}

/// Says that the process lives
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200)))]
pub(crate) async fn alive() -> Response {
    json(&json!({ "status": "ok" }))
}

/// Says whether locks can be taken
#[utoipa::path(get, path = "/readyz", tag = "health", responses((status = 200, body = Ready), (status = 503, body = Ready)))]
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Response {
    let nodes = nodes(&app);
    let up = nodes.iter().filter(|node| node.can_vote).count();
    let quorum = app.locker.quorum().needed();
    let ready = up >= quorum && !app.closing.is_cancelled();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json_with(status, &Ready { ready, up, quorum, nodes })
}
