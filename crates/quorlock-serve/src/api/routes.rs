//! The routes, and the middleware around all of them.

use crate::api::locks::{self, hold, inspect};
use crate::api::state::AppState;
use crate::api::{elections, events, health, metrics, openapi, overview, request};
use crate::auth::caller::{Ingress, Peer};
use crate::auth::cross_site;
use crate::dashboard::assets;
use crate::http::connection::{self, RequestConnection};
use crate::metrics::count_request;
use crate::problem::Problem;
use crate::problem::code::ProblemCode;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::handler::Handler;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use tower::ServiceExt;

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

/// Answers the requests of connections.
///
/// It calls the handlers that most requests want itself. The router answers all requests alike, but
/// takes a sixth of the instructions of such a call.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    app: Arc<AppState>,
    router: Router,
}

impl Api {
    pub(crate) fn new(app: Arc<AppState>) -> Self {
        Self { router: routes(app.clone()), app }
    }
}

impl connection::Handler for Api {
    fn handle(&self, request: Request) -> impl Future<Output = Response> + Send + 'static {
        let (frequent, app, router) = (Frequent::of(&request), self.app.clone(), self.router.clone());
        async move {
            match frequent {
                Some(frequent) => {
                    let run = |request| frequent.run(request, app.clone());
                    respond(&app, frequent.template(), request, run).await
                }
                None => {
                    let Ok(response) = router.oneshot(request).await;
                    response
                }
            }
        }
    }
}

/// The requests that do not need the router.
#[derive(Clone, Copy, Debug)]
enum Frequent {
    Acquire,
    Extend,
    Release,
}

impl Frequent {
    fn of(request: &Request) -> Option<Self> {
        if request.method() != Method::POST {
            return None;
        }
        match request.uri().path().strip_prefix("/v1/locks/")?.split_once('/')? {
            (_, "acquire") => Some(Self::Acquire),
            (_, "extend") => Some(Self::Extend),
            (_, "release") => Some(Self::Release),
            _ => None,
        }
    }

    fn template(self) -> &'static str {
        match self {
            Self::Acquire => "/v1/locks/{name}/acquire",
            Self::Extend => "/v1/locks/{name}/extend",
            Self::Release => "/v1/locks/{name}/release",
        }
    }

    fn run(self, request: Request, app: Arc<AppState>) -> Pin<Box<dyn Future<Output = Response> + Send>> {
        match self {
            Self::Acquire => locks::acquire.call(request, app),
            Self::Extend => locks::extend.call(request, app),
            Self::Release => locks::release.call(request, app),
        }
    }
}

/// All routes, for callers that come from `peer`.
pub(crate) fn router(app: Arc<AppState>, peer: Peer) -> Router {
    routes(app).layer(Extension(Ingress::from(peer)))
}

fn routes(app: Arc<AppState>) -> Router {
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
        .with_state(app)
}

/// Handles a request that the router has matched.
async fn handle(State(app): State<Arc<AppState>>, request: Request, next: Next) -> Response {
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let template = TEMPLATES.iter().find(|template| Some(**template) == matched).copied();
    respond(&app, template.unwrap_or("other"), request, |request| next.run(request)).await
}

/// Handles a request with `run`: checks where it comes from, counts its response under `template`, and
/// forbids caches to store it.
async fn respond<R>(
    app: &AppState,
    template: &'static str,
    request: Request,
    run: impl FnOnce(Request) -> R,
) -> Response
where
    R: Future<Output = Response>,
{
    let mut response = match request::buffer_body(request, app.limits.body).await {
        Ok(request) => track(app, request, run).await,
        Err(error) => error.into_response(),
    };
    count_request(template, response.status().as_u16());
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(no_store);
    response
}

/// Marks the connection as busy while the request is running.
async fn track<R>(app: &AppState, request: Request, run: impl FnOnce(Request) -> R) -> Response
where
    R: Future<Output = Response>,
{
    let Some(RequestConnection { admitted, .. }) = request.extensions().get::<RequestConnection>() else {
        return check_and_run(app, request, run).await;
    };
    // Only after its body was read: until then a slow caller can be evicted.
    let (active, is_probe) = (admitted.begin_request(), admitted.is_probe());
    let response = if is_probe && !PROBES.contains(&request.uri().path()) {
        let detail = "too many connections are open; close some, or raise --max-connections";
        Problem::new(ProblemCode::Full, detail).retry_after(None).into_response()
    } else {
        check_and_run(app, request, run).await
    };
    // The request is running until its response has been written, or the stream of events ends.
    let keep = move |error| {
        let _ = &active;
        error
    };
    response.map(|body| Body::new(body.map_err(keep)))
}

async fn check_and_run<R>(app: &AppState, request: Request, run: impl FnOnce(Request) -> R) -> Response
where
    R: Future<Output = Response>,
{
    if let Err(problem) = cross_site::check(&app.access, &app.origins, &request) {
        return problem.into_response();
    }
    let running = AssertUnwindSafe(run(request)).catch_unwind();
    running.await.unwrap_or_else(|_| Problem::internal().into_response())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Sidecar;
    use quorlock::Locker;
    use tower::ServiceExt;

    /// Goal: requests that skip the router get the responses that it would give, whatever their paths.
    #[tokio::test]
    async fn a_request_without_the_router_is_answered_alike() {
        let state = || Sidecar::builder(Locker::builder().nodes(["memory:"])).build().unwrap().state();
        let (api, router) = (Api::new(state()), router(state(), Peer::Unix));
        let token = r#"{"token":"0123456789abcdef0123456789abcdef"}"#;
        for (method, path, body, status) in [
            ("POST", "/v1/locks/a%2Fb%20c/acquire", "{}", 200),
            ("POST", "/v1/locks/a%2Fb%20c/acquire", "{}", 409),
            ("POST", "/v1/locks/+/acquire?x=1", "{}", 200),
            ("POST", "/v1/locks/%ff/acquire", "{}", 400),
            ("POST", "/v1/locks//acquire", "{}", 400),
            ("POST", "/v1/locks/a/acquire/", "{}", 404),
            ("POST", "/v1/locks/a/b/acquire", "{}", 404),
            ("GET", "/v1/locks/a/acquire", "", 405),
            ("POST", "/v1/locks/a/acquire", "[]", 400),
            ("POST", "/v1/locks/a/extend", token, 410),
            ("POST", "/v1/locks/a/release", token, 410),
            ("POST", "/v1/locks/a/release", "{}", 400),
        ] {
            let request = || {
                let request = Request::builder().method(method).uri(path).header("host", "localhost");
                let request = request.header(header::CONTENT_TYPE, "application/json");
                request.extension(Ingress::from(Peer::Unix)).body(Body::from(body)).unwrap()
            };
            let mut answers = Vec::new();
            for response in [
                connection::Handler::handle(&api, request()).await,
                router.clone().oneshot(request()).await.unwrap(),
            ] {
                assert_eq!(response.status().as_u16(), status, "{method} {path}");
                assert_eq!(response.headers()[header::CACHE_CONTROL], "no-store");
                let bytes = response.into_body().collect().await.unwrap().to_bytes();
                let json: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
                answers.push([json["code"].clone(), json["name"].clone()]);
            }
            assert_eq!(answers[0], answers[1], "{method} {path}");
        }
    }

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
