//! The dashboard's files, which are part of the program.

use crate::problem::Problem;
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// Nothing but the page's own files, and calls to the sidecar that it came from.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The dashboard.
pub(crate) async fn index() -> Response {
    file(HTML, include_bytes!("../assets/index.html"))
}

/// A file of the dashboard.
pub(crate) async fn asset(
    name: Result<Path<String>, axum::extract::rejection::PathRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|_| Problem::not_found())?;
    Ok(match name.as_str() {
        "app.js" => file(SCRIPT, include_bytes!("../assets/app.js")),
        "style.css" => file(STYLE, include_bytes!("../assets/style.css")),
        "uplot.js" => file(SCRIPT, include_bytes!("../assets/uplot.js")),
        "uplot.css" => file(STYLE, include_bytes!("../assets/uplot.css")),
        _ => return Err(Problem::not_found()),
    })
}

fn file(kind: &'static str, bytes: &'static [u8]) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
        (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, bytes).into_response()
}
