//! The description of the API for tools.

use crate::access::{CanRead, Scope};
use crate::{ask, banners, dapr, events, exporter, health, hold, locks, look, nodes, overview, series, view};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
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
        exporter::show,
        dapr::lock,
        dapr::unlock
    ),
    components(schemas(
        ask::Acquire,
        ask::Extend,
        ask::Release,
        banners::Banner,
        banners::Severity,
        dapr::Lock,
        dapr::Unlock,
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

static TEXT: LazyLock<String> = LazyLock::new(|| Api::openapi().to_json().unwrap_or_default());

/// The description.
pub(crate) async fn show(_: CanRead) -> Response {
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    (json, TEXT.as_str()).into_response()
}
