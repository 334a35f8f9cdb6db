//! A sidecar in this process, called without a network.

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use quorlock::Locker;
use quorlock_serve::{Limits, Peer, Scope, Sidecar, SidecarBuilder};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The JSON of a response with status 200.
    #[track_caller]
    pub(crate) fn ok(self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{self:?}");
        self.json()
    }

    /// The problem, which must be this one. Every problem must have the same form.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Value {
        let problem = self.json();
        assert_eq!((self.status.as_u16(), problem["code"].as_str()), (status, Some(code)), "{self:?}");
        assert_eq!(problem["type"], format!("urn:quorlock:{code}"), "{self:?}");
        assert_eq!(problem["status"], status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self:?}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(!detail.is_empty() && !detail.contains('\n'), "{self:?}");
        problem
    }
}

/// A sidecar, called from one kind of peer.
#[derive(Clone, Debug)]
pub(crate) struct Lab {
    pub(crate) sidecar: Sidecar,
    router: Router,
}

impl Lab {
    /// With a node of its own.
    pub(crate) fn new() -> Self {
        Self::of(Self::builder(&["memory:"]))
    }

    pub(crate) fn builder(nodes: &[&str]) -> SidecarBuilder {
        Sidecar::builder(Locker::builder().nodes(nodes.iter().copied())).ttl(Duration::from_secs(10))
    }

    /// Called from this machine.
    pub(crate) fn of(builder: SidecarBuilder) -> Self {
        Self::from(builder.build().unwrap(), Peer::Loopback)
    }

    pub(crate) fn from(sidecar: Sidecar, peer: Peer) -> Self {
        let router = sidecar.router(peer);
        Self { sidecar, router }
    }

    /// With these limits.
    pub(crate) fn within(change: impl FnOnce(&mut Limits)) -> Self {
        let mut limits = Limits::default();
        change(&mut limits);
        Self::of(Self::builder(&["memory:"]).limits(limits))
    }

    /// With this scope for callers without a secret.
    pub(crate) fn open_to(scope: Scope) -> Self {
        Self::of(Self::builder(&["memory:"]).anonymous(Some(scope)))
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(body.to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    /// A request with an endless response.
    pub(crate) async fn open(&self, path: &str) -> (StatusCode, Body) {
        self.open_with(path, &[]).await
    }

    pub(crate) async fn open_with(&self, path: &str, headers: &[(&str, &str)]) -> (StatusCode, Body) {
        let request = with(Request::get(path), headers, Body::empty());
        let response = self.router.clone().oneshot(request).await.unwrap();
        (response.status(), response.into_body())
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.get_with(path, &[]).await
    }

    pub(crate) async fn get_with(&self, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send(with(Request::get(path), headers, Body::empty())).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_with(path, &[], body).await
    }

    pub(crate) async fn post_with(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(with(request, headers, Body::from(body.to_string()))).await
    }

    /// Acquires `name` and returns its lease.
    pub(crate) async fn acquire(&self, name: &str) -> Value {
        self.post(&format!("/v1/locks/{name}/acquire"), &json!({})).await.ok()
    }

    /// Whether a client holds `name`, by the nodes.
    pub(crate) async fn is_held(&self, name: &str) -> bool {
        self.get(&format!("/v1/locks/{name}")).await.ok()["held"] == json!(true)
    }
}

fn with(request: axum::http::request::Builder, headers: &[(&str, &str)], body: Body) -> Request<Body> {
    let has_host = headers.iter().any(|(name, _)| *name == "host");
    let request = if has_host { request } else { request.header("host", "localhost:7420") };
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(body).unwrap()
}

/// Reads events until one of this kind comes, and returns its data.
pub(crate) async fn event(body: &mut Body, kind: &str) -> Value {
    let wanted = format!("event: {kind}\n");
    let text = text(body, &wanted).await;
    let found = text.split("\n\n").find(|event| event.contains(&wanted)).unwrap();
    let data = found.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    serde_json::from_str(data).unwrap()
}

/// Reads until `wanted` comes. Each event comes whole.
pub(crate) async fn text(body: &mut Body, wanted: &str) -> String {
    let reading = async {
        let mut text = String::new();
        while !text.contains(wanted) {
            let frame =
                body.frame().await.unwrap_or_else(|| panic!("no `{wanted}` but the end after: {text}"));
            text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
        text
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.unwrap()
}
