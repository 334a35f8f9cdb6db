//! The description of the API for tools.

use crate::access::{CanRead, Scope};
use crate::code::problem_codes;
use crate::{ask, banners, events, exporter, health, hold, locks, look, nodes, overview, series, view};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::sync::LazyLock;
use utoipa::OpenApi;

/// Locks for programs in any language, over HTTP. Names in paths are percent-encoded, also `/` as `%2F`. What goes wrong
/// is told as `application/problem+json` with a stable `code`.
#[derive(OpenApi)]
#[openapi(
    info(title = "quorlock sidecar"),
    paths(
        locks::acquire,
        locks::extend,
        locks::release,
        locks::force_release,
        look::all,
        look::one,
        hold::hold,
        events::events,
        overview::overview,
        health::alive,
        health::ready,
        exporter::show
    ),
    components(schemas(
        ask::Acquire,
        ask::Extend,
        ask::Release,
        banners::Banner,
        banners::Severity,
        health::Details,
        health::Ready,
        locks::Released,
        look::Locks,
        nodes::Node,
        overview::Overview,
        series::Points,
        view::Lease,
        view::LockView,
        view::NodeSaid,
        view::NodeStores,
        view::Who,
        Scope
    ))
)]
struct Api;

static TEXT: LazyLock<String> =
    LazyLock::new(|| complete(serde_json::to_value(Api::openapi()).unwrap_or_default()).to_string());

/// Adds what the routes do not say each for itself: words for good answers, the shape of bad ones, and secrets.
fn complete(mut api: Value) -> Value {
    let content =
        json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
    let paths = api["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    for operations in paths {
        for operation in operations.as_object_mut().into_iter().flat_map(|operations| operations.values_mut())
        {
            let answers = &mut operation["responses"];
            for (status, answer) in answers.as_object_mut().into_iter().flatten() {
                if answer["description"].as_str().is_none_or(str::is_empty) {
                    answer["description"] = json!(if status == "200" { "as asked" } else { "not now" });
                }
                if status != "200" && answer["content"].is_null() {
                    answer["content"] = content.clone();
                }
            }
            answers["default"] = json!({ "description": "what else went wrong", "content": content });
        }
    }
    let codes: Vec<&str> = problem_codes().into_iter().map(|(code, _)| code).collect();
    api["components"]["schemas"]["Problem"] = json!({
        "type": "object",
        "description": "What went wrong. Some have more: who holds the lock, what each node said.",
        "required": ["type", "code", "title", "status", "detail"],
        "properties": {
            "type": { "type": "string" },
            "code": { "type": "string", "enum": codes },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string", "description": "One line that says what to do" }
        }
    });
    for asked in ["Extend", "Release"] {
        api["components"]["schemas"][asked]["properties"]["token"]["pattern"] = json!("^[0-9a-f]{32}$");
    }
    api["components"]["securitySchemes"] = json!({ "secret": { "type": "http", "scheme": "bearer" } });
    api["security"] = json!([{}, { "secret": [] }]);
    api
}

/// The description.
pub(crate) async fn show(_: CanRead) -> Response {
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (json, TEXT.as_str()).into_response()
}
