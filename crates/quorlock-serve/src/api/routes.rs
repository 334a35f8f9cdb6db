//! The routes, and the middleware around all of them.

use crate::api::locks::{self, hold, inspect};
use crate::api::state::AppState;
use crate::api::{elections, events, health, metrics, openapi, overview, request};
use crate::auth::caller::Peer;
use crate::auth::cross_site;
use crate::dashboard::assets;
use crate::http::admission::Admitted;
use crate::metrics::count_request;
use crate::problem::Problem;
use crate::problem::code::ProblemCode;
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
    "/v1/elections/{name}",
    "/v1/elections/{name}/observe",
    "/v1/elections/{name}/campaign",
    "/v1/events",
    "/v1/overview",
];

/// What orchestrators ask. It is answered even at the limit of connections.
const PROBES: &[&str] = &["/healthz", "/readyz"];

/// All routes, for callers that come from `peer`.
pub(crate) fn router(app: Arc<AppState>, peer: Peer) -> Router {
    Router::new()
        .route("/", get(assets::index))
        .route("/assets/{file}", get(assets::asset))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(metrics::metrics))
        .route("/openapi.json", get(openapi::openapi))
        .route("/v1/locks", get(inspect::list))
        .route("/v1/locks/{name}", get(inspect::show))
        .route("/v1/locks/{name}/acquire", post(locks::acquire))
        .route("/v1/locks/{name}/extend", post(locks::extend))
        .route("/v1/locks/{name}/release", post(locks::release))
        .route("/v1/locks/{name}/force-release", post(locks::force_release))
        .route("/v1/locks/{name}/hold", get(hold::hold))
        .route("/v1/elections/{name}", get(elections::leader))
        .route("/v1/elections/{name}/observe", get(elections::observe))
        .route("/v1/elections/{name}/campaign", get(elections::campaign))
        .route("/v1/events", get(events::events))
        .route("/v1/overview", get(overview::overview))
        .method_not_allowed_fallback(async || Problem::wrong_method())
        .fallback(async || Problem::not_found())
        .layer(from_fn_with_state(app.clone(), handle))
        .layer(Extension(peer))
        .with_state(app)
}

/// Handles a request: checks where it comes from, counts its response, and forbids caches to store it.
async fn handle(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let route = TEMPLATES.iter().find(|template| Some(**template) == matched).copied().unwrap_or("other");
    let mut response = match request::buffer_body(request, app.limits.body).await {
        Ok(request) => track(&app, request, next).await,
        Err(error) => error.into_response(),
    };
    count_request(route, response.status().as_u16());
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

/// Marks the connection as busy while the request is running.
async fn track(app: &AppState, request: Request, next: Next) -> Response {
    let Some(admitted) = request.extensions().get::<Arc<Admitted>>().cloned() else {
        return check_and_run(app, request, next).await;
    };
    // Only after its body was read: until then a slow caller can be evicted.
    let active = admitted.begin_request();
    let response = if admitted.is_probe() && !PROBES.contains(&request.uri().path()) {
        let detail = "too many connections are open; close some, or raise --max-connections";
        Problem::new(ProblemCode::Full, detail).retry_after(None).into_response()
    } else {
        check_and_run(app, request, next).await
    };
    // The request is running until its response has been written, or the stream of events ends.
    let keep = move |error| {
        let _ = &active;
        error
    };
    response.map(|body| Body::new(body.map_err(keep)))
}

async fn check_and_run(app: &AppState, request: Request, next: Next) -> Response {
    if let Err(problem) = cross_site::check(&app.access, &app.origins, &request) {
        return problem.into_response();
    }
    let running = AssertUnwindSafe(next.run(request)).catch_unwind();
    running.await.unwrap_or_else(|_| Problem::internal().into_response())
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
            Router::new().route("/", panics).layer(from_fn_with_state(sidecar.state(), handle));
        let request = Request::get("/").header("host", "localhost").body(Body::empty()).unwrap();
        let response = router.oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), 500);
        assert_eq!(response.headers()["content-type"], "application/problem+json");
    }
}
