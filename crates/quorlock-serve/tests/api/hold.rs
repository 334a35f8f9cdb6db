//! Locks that are held as long as a connection is open.

use crate::kit::{Lab, event};
use axum::body::Body;
use axum::http::{HeaderValue, Request};
use quorlock_serve::Peer;
use serde_json::json;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_hold_lasts_as_long_as_its_connection() {
    let lab = Lab::new();
    let (status, mut body) = lab.open("/v1/locks/a/hold?ttl_ms=600&owner=ann&reason=why").await;
    assert_eq!(status, 200);
    let lease = event(&mut body, "held").await;
    assert_eq!((&lease["name"], &lease["ttl_ms"]), (&json!("a"), &json!(600)));
    let extended = event(&mut body, "extended").await;
    assert!((1..=600).contains(&extended["remaining_ms"].as_u64().unwrap()), "{extended}");
    let seen = lab.get("/v1/locks/a").await.ok();
    assert_eq!((&seen["here"], &seen["holder"]["owner"]), (&json!(true), &json!("ann")));
    assert_eq!(lab.get("/v1/overview").await.ok()["holds"], 1);
    drop(body);
    quorlock_testkit::until("it is free", SOON, async || !lab.is_held("a").await).await;
    assert_eq!(lab.get("/v1/overview").await.ok()["holds"], 0);
}

#[tokio::test]
async fn a_hold_learns_of_a_forced_release() {
    let lab = Lab::new();
    let (_, mut body) = lab.open("/v1/locks/a/hold?ttl_ms=30000").await;
    let lease = event(&mut body, "held").await;
    let admin = Lab::from(lab.sidecar.clone(), Peer::Unix);
    admin.post("/v1/locks/a/force-release", &json!({ "token": lease["token"] })).await.ok();
    // At once: the next extension would come after 10 s.
    let lost = tokio::time::timeout(Duration::from_secs(8), event(&mut body, "lost")).await.unwrap();
    assert_eq!(lost["reason"], "taken");
    use http_body_util::BodyExt;
    assert!(body.frame().await.is_none(), "the stream ends");
}

/// Goal: a client that ends its hold by its token has lost nothing: no banner, and no alert.
#[tokio::test]
async fn a_hold_that_is_released_by_its_token_is_no_loss() {
    let lab = Lab::new();
    let (_, mut body) = lab.open("/v1/locks/a/hold?ttl_ms=30000").await;
    let token = json!({ "token": event(&mut body, "held").await["token"] });
    let (released, ended) = tokio::join!(lab.post("/v1/locks/a/release", &token), event(&mut body, "lost"));
    assert_eq!((&released.ok()["outcome"], &ended["reason"]), (&json!("released"), &json!("released")));
    use http_body_util::BodyExt;
    assert!(body.frame().await.is_none(), "the stream ends");
    assert!(!lab.is_held("a").await);
    let banners = lab.get("/v1/overview").await.ok()["banners"].to_string();
    assert!(!banners.contains("lock_lost"), "{banners}");
    lab.post("/v1/locks/a/acquire", &json!({})).await.ok();
}

/// Goal: a hold that its client does not read cannot keep a release waiting.
#[tokio::test]
async fn a_hold_that_is_not_read_is_released_all_the_same() {
    let lab = Lab::new();
    let (_, mut body) = lab.open("/v1/locks/a/hold?ttl_ms=30000").await;
    let token = json!({ "token": event(&mut body, "held").await["token"] });
    lab.post("/v1/locks/a/release", &token).await.ok();
    assert!(!lab.is_held("a").await);
    assert_eq!(event(&mut body, "lost").await["reason"], "released");
}

#[tokio::test]
async fn a_hold_is_refused_as_an_acquire_is() {
    let lab = Lab::new();
    lab.acquire("a").await;
    lab.get("/v1/locks/a/hold?wait_ms=0").await.problem(409, "held");
    lab.get("/v1/locks/a/hold?wait_ms=20").await.problem(408, "wait_over");
    lab.get("/v1/locks/quorlock%3Ax/hold").await.problem(400, "bad_name");
    lab.get("/v1/locks/b/hold?ttl_ms=1").await.problem(400, "bad_ttl");
}

#[tokio::test]
async fn a_shutdown_releases_holds_keeps_leases_and_refuses_the_others() {
    let lab = Lab::of(Lab::builder(&["memory:shutdown"]));
    let other = Lab::of(Lab::builder(&["memory:shutdown"]));
    let (_, mut body) = lab.open("/v1/locks/held/hold").await;
    event(&mut body, "held").await;
    let lease = lab.acquire("leased").await;
    let waiting = {
        let lab = lab.clone();
        tokio::spawn(async move { lab.post("/v1/locks/leased/acquire", &json!({ "wait_ms": 60_000 })).await })
    };
    quorlock_testkit::until("a call waits", SOON, async || {
        lab.get("/v1/locks/leased").await.ok()["waiters"] == json!(1)
    })
    .await;
    let shutdown = quorlock_serve::CancellationToken::new();
    shutdown.cancel();
    let bound = lab.sidecar.bind(&[], None).await.unwrap();
    bound.serve(shutdown).await;

    assert_eq!(event(&mut body, "shutdown").await["outcome"], "released");
    waiting.await.unwrap().problem(503, "shutting_down");
    lab.post("/v1/locks/new/acquire", &json!({})).await.problem(503, "shutting_down");
    lab.get("/v1/locks/new/hold").await.problem(503, "shutting_down");
    assert_eq!(lab.get("/readyz").await.status, 503);
    assert!(!other.is_held("held").await);
    let token = json!({ "token": lease["token"] });
    assert_eq!(other.post("/v1/locks/leased/extend", &token).await.ok()["fence"], lease["fence"]);
    other.post("/v1/locks/leased/release", &token).await.ok();
}

#[tokio::test]
async fn a_head_request_acquires_no_lock() {
    let lab = Lab::new();
    let head = Request::builder().method("HEAD").uri("/v1/locks/a/hold").header("host", "localhost");
    let refused = lab.send(head.body(Body::empty()).unwrap()).await;
    assert_eq!((refused.status.as_u16(), &refused.headers["allow"]), (405, &HeaderValue::from_static("GET")));
    let events = lab.get("/v1/overview").await.ok();
    assert_eq!(events["holds"], 0);
    assert!(!lab.is_held("a").await);
}
