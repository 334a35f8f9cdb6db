//! The dashboard's files, which are compiled into the program.

use crate::problem::Problem;
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// Allows the page nothing but its own files, and calls to the sidecar that served it.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// The files that the page loads.
const FILES: &[(&str, &str, &[u8])] = &[
    ("access.js", SCRIPT, include_bytes!("../../assets/access.js")),
    ("api.js", SCRIPT, include_bytes!("../../assets/api.js")),
    ("app.js", SCRIPT, include_bytes!("../../assets/app.js")),
    ("banners.js", SCRIPT, include_bytes!("../../assets/banners.js")),
    ("countdown.js", SCRIPT, include_bytes!("../../assets/countdown.js")),
    ("dom.js", SCRIPT, include_bytes!("../../assets/dom.js")),
    ("events.js", SCRIPT, include_bytes!("../../assets/events.js")),
    ("format.js", SCRIPT, include_bytes!("../../assets/format.js")),
    ("free.js", SCRIPT, include_bytes!("../../assets/free.js")),
    ("headline.js", SCRIPT, include_bytes!("../../assets/headline.js")),
    ("layout.css", STYLE, include_bytes!("../../assets/layout.css")),
    ("lock.css", STYLE, include_bytes!("../../assets/lock.css")),
    ("lockpage.js", SCRIPT, include_bytes!("../../assets/lockpage.js")),
    ("lockrow.js", SCRIPT, include_bytes!("../../assets/lockrow.js")),
    ("locks.js", SCRIPT, include_bytes!("../../assets/locks.js")),
    ("nodes.js", SCRIPT, include_bytes!("../../assets/nodes.js")),
    ("plots.js", SCRIPT, include_bytes!("../../assets/plots.js")),
    ("route.js", SCRIPT, include_bytes!("../../assets/route.js")),
    ("style.css", STYLE, include_bytes!("../../assets/style.css")),
    ("theme.js", SCRIPT, include_bytes!("../../assets/theme.js")),
    ("uplot.LICENSE", TEXT, include_bytes!("../../assets/uplot.LICENSE")),
    ("uplot.css", STYLE, include_bytes!("../../assets/uplot.css")),
    ("uplot.js", SCRIPT, include_bytes!("../../assets/uplot.js")),
];

/// The dashboard.
pub(crate) async fn index() -> Response {
    file(HTML, include_bytes!("../../assets/index.html"))
}

/// A file of the dashboard.
pub(crate) async fn asset(
    name: Result<Path<String>, axum::extract::rejection::PathRejection>,
) -> Result<Response, Problem> {
    let Path(name) = name.map_err(|_| Problem::not_found())?;
    let found = FILES.iter().find(|(known, ..)| *known == name);
    found.map(|(_, kind, bytes)| file(kind, bytes)).ok_or_else(Problem::not_found)
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/assets")).unwrap();
        let mut files: Vec<String> =
            files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        files.retain(|name| name != "index.html");
        files.sort();
        let mut served: Vec<&str> = FILES.iter().map(|(name, ..)| *name).collect();
        served.sort_unstable();
        assert_eq!(files, served);
    }
}
