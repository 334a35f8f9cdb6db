//! The OpenAPI description.

use crate::api::callers::CanRead;
use crate::api::locks::{self, hold, inspect};
use crate::api::{elections, events, health, metrics, overview, request};
use crate::auth::scope::Scope;
use crate::dashboard::{banners, history, nodes};
use crate::json::{holder, leader, lease, lock, mode, node_vote, reader};
use crate::problem::code::problem_codes;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::LazyLock;
use utoipa::OpenApi;

/// Locks for programs in any language, over HTTP. Names in paths are percent-encoded, including `/` as
/// `%2F`. Errors are `application/problem+json` with a stable `code`.
#[derive(OpenApi)]
#[openapi(
    info(title = "quorlock sidecar"),
    paths(
        locks::acquire,
        locks::extend,
        locks::release,
        locks::force_release,
        inspect::list,
        inspect::show,
        hold::hold,
        elections::leader,
        elections::observe,
        elections::campaign,
        events::events,
        overview::overview,
        health::alive,
        health::ready,
        metrics::metrics
    ),
    components(schemas(
        request::Acquire,
        request::Extend,
        request::Release,
        banners::Banner,
        banners::Severity,
        health::Details,
        health::Ready,
        locks::Released,
        inspect::Locks,
        nodes::Node,
        overview::Overview,
        history::Points,
        lease::LeaseJson,
        lock::LockJson,
        lock::NodeLockJson,
        node_vote::NodeVoteJson,
        holder::HolderJson,
        leader::ElectionJson,
        leader::LeaderJson,
        leader::VacancyJson,
        mode::ModeJson,
        reader::ReaderJson,
        Scope
    ))
)]
struct Api;

static TEXT: LazyLock<String> =
    LazyLock::new(|| complete(serde_json::to_value(Api::openapi()).unwrap_or_default()).to_string());

/// Adds what holds for all routes: descriptions of good responses, the schema of problems, and the use
/// of secrets.
fn complete(mut api: Value) -> Value {
    let content =
        json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
    let paths = api["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    for operations in paths {
        for operation in operations.as_object_mut().into_iter().flat_map(|operations| operations.values_mut())
        {
            let responses = &mut operation["responses"];
            for (status, response) in responses.as_object_mut().into_iter().flatten() {
                if response["description"].as_str().is_none_or(str::is_empty) {
                    response["description"] = json!(if status == "200" { "as asked" } else { "not now" });
                }
                if status != "200" && response["content"].is_null() {
                    response["content"] = content.clone();
                }
            }
            responses["default"] = json!({ "description": "any other problem", "content": content });
        }
    }
    let codes: Vec<&str> = problem_codes().into_iter().map(|(code, _)| code).collect();
    api["components"]["schemas"]["Problem"] = json!({
        "type": "object",
        "description": "What went wrong. Some have more: who holds the lock, how each node voted.",
        "required": ["type", "code", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string" },
            "code": { "type": "string", "enum": codes },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "One line that says what to do" }
        }
    });
    for body in ["Extend", "Release"] {
        api["components"]["schemas"][body]["properties"]["token"]["pattern"] = json!("^[0-9a-f]{32}$");
    }
    api["components"]["securitySchemes"] = json!({ "secret": { "type": "http", "scheme": "bearer" } });
    api["security"] = json!([{}, { "secret": [] }]);
    api
}

/// Returns the description.
pub(crate) async fn openapi(_: CanRead) -> Response {
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (json, TEXT.as_str()).into_response()
}
