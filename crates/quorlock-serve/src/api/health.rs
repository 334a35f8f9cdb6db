//! Liveness and readiness.

use crate::api::callers::MayRead;
use crate::api::response::{json, json_with};
use crate::api::state::AppState;
use crate::dashboard::nodes::{Node, nodes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use quorlock::NodeOutcome;
use quorlock::node::NodeError;
use serde::Serialize;
use serde_json::json;
use std::sync::Arc;
use utoipa::ToSchema;

/// Whether locks can be acquired.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Ready {
    ready: bool,
    #[serde(flatten)]
    details: Option<Details>,
}

/// Why, for callers with scope `read`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Details {
    /// How many nodes can vote, and replied just now.
    up: usize,
    /// How many must.
    quorum: usize,
    nodes: Vec<Node>,
}

/// Says that the process is alive
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200)))]
pub(crate) async fn alive() -> Response {
    json(&json!({ "status": "ok" }))
}

/// Says whether locks can be acquired
///
/// Callers with scope `read` also get `up`, `quorum` and `nodes`.
#[utoipa::path(get, path = "/readyz", tag = "health", responses((status = 200, body = Ready), (status = 503, body = Ready)))]
pub(crate) async fn ready(State(app): State<Arc<AppState>>, MayRead(may_read): MayRead) -> Response {
    // A node that fell silent while it had no requests looks healthy until it is asked.
    let silent = silent(&app).await;
    let nodes = nodes(&app.locker, &app.node_facts);
    let up = nodes.iter().filter(|node| node.can_vote && !silent.contains(&node.node)).count();
    let quorum = app.locker.quorum().needed();
    let ready = up >= quorum && !app.closing.is_cancelled();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let details = may_read.then_some(Details { up, quorum, nodes });
    json_with(status, &Ready { ready, details })
}

/// The nodes that do not reply to the inspection of a lock within their timeout.
async fn silent(app: &AppState) -> Vec<String> {
    let Ok(lock) = app.locker.named("ready") else { return Vec::new() };
    match lock.inspect().await {
        Ok(seen) => {
            let silent = seen.nodes.into_iter().filter(|node| node.view.as_ref().is_err_and(is_silence));
            silent.map(|node| node.node.to_string()).collect()
        }
        Err(error) => {
            let silent = error
                .nodes
                .into_iter()
                .filter(|report| matches!(&report.outcome, NodeOutcome::Failed(cause) if is_silence(cause)));
            silent.map(|report| report.node.to_string()).collect()
        }
    }
}

/// Whether a node did not reply at all. That the sidecar may not read a name is a reply.
fn is_silence(cause: &NodeError) -> bool {
    matches!(
        cause,
        NodeError::Timeout { .. } | NodeError::Unreachable { .. } | NodeError::Disconnected { .. }
    )
}
