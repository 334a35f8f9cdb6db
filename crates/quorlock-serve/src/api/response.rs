//! Successful responses: JSON, and streams of events.

use crate::problem::Problem;
use crate::problem::code::ProblemCode;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::Stream;
use serde::Serialize;
use std::convert::Infallible;

/// 200 with `object` as JSON.
pub(crate) fn json(object: &impl Serialize) -> Response {
    json_with(StatusCode::OK, object)
}

/// `status` with `object` as JSON.
pub(crate) fn json_with(status: StatusCode, object: &impl Serialize) -> Response {
    match serde_json::to_vec(object) {
        Ok(body) => {
            let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
            (status, json, body).into_response()
        }
        Err(_) => {
            Problem::new(ProblemCode::Internal, "the response could not be written as JSON").into_response()
        }
    }
}

/// 200 with server-sent events. The header `x-accel-buffering` keeps proxies from buffering them.
pub(crate) fn event_stream(
    events: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ];
    (headers, Body::from_stream(events)).into_response()
}

/// One server-sent event.
pub(crate) fn event(id: Option<u64>, kind: &str, object: &impl Serialize) -> Bytes {
    // JSON has no bare line feed, so it is one line of data.
    let data = serde_json::to_string(object).unwrap_or_default();
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}event: {kind}\ndata: {data}\n\n").into()
}

/// A comment, which readers skip, to keep the connection alive.
pub(crate) const KEEP_ALIVE: Bytes = Bytes::from_static(b": alive\n\n");
