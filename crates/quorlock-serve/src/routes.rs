//! Which path leads where, and what holds for all of them.

use crate::access::Peer;
use crate::admission::Admitted;
use crate::app::App;
use crate::code::Code;
use crate::problem::Problem;
use crate::{ask, browser, events, exporter, health, hold, locks, look, openapi, overview, page};
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

/// Every route, with the template under which its requests are counted.
const TEMPLATES: &[&str] = &[
    "/",
    "/assets/{file}",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/v1/locks",
    "/v1/locks/{name}",
    "/v1/locks/{name}/acquire",
    "/v1/locks/{name}/extend",
    "/v1/locks/{name}/release",
    "/v1/locks/{name}/force-release",
    "/v1/locks/{name}/hold",
    "/v1/events",
    "/v1/overview",
];

/// What orchestrators ask, which is answered when there is no room for other callers.
const PROBES: &[&str] = &["/healthz", "/readyz"];

/// All routes, for callers that come from `peer`.
pub(crate) fn router(app: Arc<App>, peer: Peer) -> Router {
    Router::new()
        .route("/", get(page::index))
        .route("/assets/{file}", get(page::asset))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(exporter::show))
        .route("/openapi.json", get(openapi::show))
        .route("/v1/locks", get(look::all))
        .route("/v1/locks/{name}", get(look::one))
        .route("/v1/locks/{name}/acquire", post(locks::acquire))
        .route("/v1/locks/{name}/extend", post(locks::extend))
        .route("/v1/locks/{name}/release", post(locks::release))
        .route("/v1/locks/{name}/force-release", post(locks::force_release))
        .route("/v1/locks/{name}/hold", get(hold::hold))
        .route("/v1/events", get(events::events))
        .route("/v1/overview", get(overview::overview))
        .method_not_allowed_fallback(wrong_method)
        .fallback(nothing)
        .layer(from_fn_with_state(app.clone(), around))
        .layer(Extension(peer))
        .with_state(app)
}

async fn nothing() -> Problem {
    Problem::not_found()
}

pub(crate) async fn wrong_method() -> Problem {
    Problem::new(
        Code::MethodNotAllowed,
        "see /openapi.json for the methods of each path, and the header `allow`",
    )
}

pub(crate) fn broken() -> Problem {
    Problem::new(
        Code::Internal,
        "this should not have happened; look at the sidecar's own output, and report it",
    )
}

/// What happens around every request: browsers are checked, answers are counted and not kept by anybody.
async fn around(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let route = TEMPLATES.iter().find(|template| Some(**template) == matched).copied().unwrap_or("other");
    let mut response = match ask::read_ahead(request, app.limits.body).await {
        Ok(request) => answer(&app, request, next).await,
        Err(refusal) => refusal.into_response(),
    };
    exporter::count(route, response.status().as_u16());
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

async fn answer(app: &App, request: Request, next: Next) -> Response {
    let Some(admitted) = request.extensions().get::<Arc<Admitted>>().cloned() else {
        return checked(app, request, next).await;
    };
    // Not before its body was read: a caller that is slow with it has no claim to its connection yet.
    let under_way = admitted.begin();
    let response = if admitted.is_probe() && !PROBES.contains(&request.uri().path()) {
        let detail = "too many connections are open; close some, or raise --max-connections";
        Problem::new(Code::Full, detail).retry_after(None).into_response()
    } else {
        checked(app, request, next).await
    };
    // The request is under way until its answer has been written, or the stream of events ends.
    let keep = move |error| {
        let _ = &under_way;
        error
    };
    response.map(|body| Body::new(body.map_err(keep)))
}

async fn checked(app: &App, request: Request, next: Next) -> Response {
    if let Err(problem) = browser::check(app, &request) {
        return problem.into_response();
    }
    let answering = AssertUnwindSafe(next.run(request)).catch_unwind();
    answering.await.unwrap_or_else(|_| broken().into_response())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Sidecar;
    use quorlock::Locker;
    use tower::ServiceExt;

    #[tokio::test]
    async fn a_panic_ends_one_request_and_not_its_connection() {
        let sidecar = Sidecar::builder(Locker::builder().nodes(["memory:"])).build().unwrap();
        #[allow(unreachable_code)]
        let panics = get(|| async { panic!("as it should") as &'static str });
        let router: Router =
            Router::new().route("/", panics).layer(from_fn_with_state(sidecar.app(), around));
        let request = Request::get("/").header("host", "localhost").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), 500);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
}
