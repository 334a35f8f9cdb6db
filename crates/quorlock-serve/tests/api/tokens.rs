//! Tokens of other sidecars, and tokens that must not be shown.

use crate::kit::Lab;
use quorlock_serve::{Peer, Scope};
use serde_json::json;
use std::time::Duration;

fn two(nodes: &'static str) -> (Lab, Lab) {
    (Lab::of(Lab::builder(&[nodes])), Lab::of(Lab::builder(&[nodes])))
}

#[tokio::test]
async fn another_sidecar_extends_and_releases() {
    let (one, other) = two("memory:two-sidecars");
    let lease = one.acquire("a").await;
    let body = json!({ "token": lease["token"], "ttl_ms": 8000 });
    let extended = other.post("/v1/locks/a/extend", &body).await.ok();
    assert_eq!((&extended["fence"], &extended["ttl_ms"]), (&lease["fence"], &json!(8000)));
    other.post("/v1/locks/a/release", &json!({ "token": lease["token"] })).await.ok();
    assert!(!one.is_held("a").await);
    one.post("/v1/locks/a/extend", &body).await.problem(410, "lost");
}

/// Goal: a sidecar by whose clock a lease is over must not release what another sidecar extended.
#[tokio::test]
async fn a_lease_that_another_sidecar_keeps_alive_survives_the_first_one() {
    let (one, other) = two("memory:kept-elsewhere");
    let bound = one.sidecar.bind(&[], None).await.unwrap();
    let serving = tokio::spawn(bound.serve(Default::default()));
    let lease = one.post("/v1/locks/a/acquire", &json!({ "ttl_ms": 400 })).await.ok();
    let body = json!({ "token": lease["token"], "ttl_ms": 20_000 });
    other.post("/v1/locks/a/extend", &body).await.ok();
    quorlock_testkit::until("the first forgot it", Duration::from_secs(30), async || {
        one.get("/v1/overview").await.ok()["sessions"] == json!(0)
    })
    .await;
    assert!(one.is_held("a").await);
    // And the first can extend and release it like any other.
    one.post("/v1/locks/a/extend", &body).await.ok();
    one.post("/v1/locks/a/release", &json!({ "token": lease["token"] })).await.ok();
    assert!(!other.is_held("a").await);
    serving.abort();
}

/// Goal: a waiter at one sidecar need not wait for the ttl of a lease that was released through another.
#[tokio::test]
async fn a_waiter_is_woken_by_a_release_through_another_sidecar() {
    let (one, other) = two("memory:released-elsewhere");
    let lease = other.post("/v1/locks/a/acquire", &json!({ "ttl_ms": 30_000 })).await.ok();
    let waiting = {
        let one = one.clone();
        tokio::spawn(async move { one.post("/v1/locks/a/acquire", &json!({ "wait_ms": 20_000 })).await })
    };
    quorlock_testkit::until("a call waits", Duration::from_secs(30), async || {
        one.get("/v1/locks/a").await.ok()["waiters"] == json!(1)
    })
    .await;
    other.post("/v1/locks/a/release", &json!({ "token": lease["token"] })).await.ok();
    waiting.await.unwrap().ok();
}

#[tokio::test]
async fn a_forced_release_needs_scope_write_and_the_right_token() {
    let lab = Lab::new();
    let lease = lab.acquire("a").await;
    let body = json!({ "token": lease["token"] });
    let problem = lab.post("/v1/locks/a/force-release", &body).await.problem(403, "forbidden");
    assert!(problem["detail"].as_str().unwrap().contains("`write`"));
    let admin = Lab::from(lab.sidecar.clone(), Peer::Unix);
    let wrong = json!({ "token": "0".repeat(32) });
    admin.post("/v1/locks/a/force-release", &wrong).await.problem(410, "lost");
    assert!(lab.is_held("a").await);
    assert_eq!(admin.get("/v1/locks/a").await.ok()["token"], lease["token"]);
    admin.post("/v1/locks/a/force-release", &body).await.ok();
    lab.post("/v1/locks/a/extend", &body).await.problem(410, "lost");
}

#[tokio::test]
async fn a_token_is_returned_only_to_the_caller_that_acquired_it() {
    let lab = Lab::open_to(Scope::Lock);
    let lease = lab.acquire("a").await;
    let token = lease["token"].as_str().unwrap();
    for path in ["/v1/locks", "/v1/locks/a", "/v1/overview", "/metrics", "/readyz", "/openapi.json"] {
        let answer = lab.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.text.contains(token), "{path}: {}", answer.text);
    }
}
