//! Elections: who leads, and what candidates and followers are told.

use crate::kit::{Lab, event};
use axum::body::Body;
use axum::http::Request;
use quorlock_serve::Scope;
use quorlock_testkit::until;
use serde_json::json;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

/// Goal: the next candidate leads when the leader's connection ends, and followers see rising terms.
#[tokio::test]
async fn leadership_is_handed_over_and_followers_see_it() {
    let lab = Lab::of(Lab::builder(&["memory:el1", "memory:el2", "memory:el3"]));
    assert_eq!(lab.get("/v1/elections/s").await.ok(), json!({ "name": "s", "leader": null }));
    let (status, mut followed) = lab.open("/v1/elections/s/observe").await;
    assert_eq!(status, 200);
    let (_, mut first) = lab.open("/v1/elections/s/campaign?value=10.0.0.1%3A80&owner=ann").await;
    let leading = event(&mut first, "leading").await;
    assert_eq!((&leading["value"], &leading["term"]), (&json!("10.0.0.1:80"), &leading["fence"]));
    assert_eq!(leading["name"], "s");
    let seen = event(&mut followed, "leader").await;
    assert_eq!((&seen["value"], &seen["term"]), (&json!("10.0.0.1:80"), &leading["term"]));
    let found = lab.get("/v1/elections/s").await.ok();
    assert_eq!((&found["leader"]["owner"], &found["leader"]["term"]), (&json!("ann"), &leading["term"]));
    let campaigning = {
        let lab = lab.clone();
        tokio::spawn(async move { lab.open("/v1/elections/s/campaign?value=b").await })
    };
    until("a candidate waits", SOON, async || lab.get("/v1/locks/s").await.ok()["waiters"] == json!(1)).await;
    drop(first);
    let (_, mut second) = campaigning.await.unwrap();
    let next = event(&mut second, "leading").await;
    assert!(next["term"].as_u64() > leading["term"].as_u64());
    assert_eq!(event(&mut followed, "leader").await["term"], next["term"]);
    // A follower that was away continues after the last term that it knows.
    let last = leading["term"].to_string();
    let (_, mut late) = lab.open_with("/v1/elections/s/observe", &[("last-event-id", &last)]).await;
    assert_eq!(event(&mut late, "leader").await["value"], "b");
    let (_, mut late) = lab.open(&format!("/v1/elections/s/observe?after={last}")).await;
    assert_eq!(event(&mut late, "leader").await["value"], "b");
}

/// Goal: followers see that no candidate leads any more, also one that was away when the leader resigned.
#[tokio::test]
async fn followers_see_that_no_candidate_leads_any_more() {
    let lab = Lab::new();
    let (_, mut followed) = lab.open("/v1/elections/s/observe").await;
    let (_, mut leader) = lab.open("/v1/elections/s/campaign?value=a").await;
    let term = event(&mut leader, "leading").await["term"].clone();
    assert_eq!(event(&mut followed, "leader").await["term"], term);
    drop(leader);
    assert_eq!(event(&mut followed, "vacant").await, json!({ "last_term": term }));
    let last = term.to_string();
    let (_, mut late) = lab.open_with("/v1/elections/s/observe", &[("last-event-id", &last)]).await;
    assert_eq!(event(&mut late, "vacant").await["last_term"], term);
    let (_, mut next) = lab.open("/v1/elections/s/campaign?value=b").await;
    let next = event(&mut next, "leading").await["term"].clone();
    assert!(next.as_u64() > term.as_u64());
    for stream in [&mut followed, &mut late] {
        assert_eq!(event(stream, "leader").await["term"], next);
    }
}

#[tokio::test]
async fn a_candidate_that_does_not_wait_learns_who_leads() {
    let lab = Lab::new();
    let (_, mut leader) = lab.open("/v1/elections/s/campaign?value=a&wait_ms=0&ttl_ms=600").await;
    event(&mut leader, "leading").await;
    event(&mut leader, "extended").await;
    let refused = lab.get("/v1/elections/s/campaign?value=b&wait_ms=0").await.problem(409, "held");
    assert_eq!(refused["holder"]["reason"], "a");
    lab.get("/v1/elections/s/campaign?value=b&wait_ms=30").await.problem(408, "wait_over");
    assert_eq!(lab.get("/v1/overview").await.ok()["holds"], 1);
}

#[tokio::test]
async fn a_shutdown_resigns_and_ends_the_streams() {
    use http_body_util::BodyExt;
    let lab = Lab::new();
    let (_, mut leader) = lab.open("/v1/elections/s/campaign?value=a").await;
    event(&mut leader, "leading").await;
    let (_, mut follower) = lab.open("/v1/elections/s/observe").await;
    event(&mut follower, "leader").await;
    let shutdown = quorlock_serve::CancellationToken::new();
    shutdown.cancel();
    lab.sidecar.bind(&[], None).await.unwrap().serve(shutdown).await;
    assert_eq!(event(&mut leader, "shutdown").await["outcome"], "released");
    assert!(follower.frame().await.is_none(), "the stream ends");
}

#[tokio::test]
async fn a_follower_learns_that_too_few_nodes_answer() {
    let port = quorlock_testkit::Port::claim();
    let lab = Lab::of(Lab::builder(&[&format!("redis://127.0.0.1:{}", port.number())]));
    lab.get("/v1/elections/s").await.problem(503, "no_quorum");
    let (_, mut follower) = lab.open("/v1/elections/s/observe").await;
    assert!(event(&mut follower, "no_quorum").await["text"].is_string());
}

#[tokio::test]
async fn elections_have_the_scopes_of_locks() {
    let reader = Lab::open_to(Scope::Read);
    reader.get("/v1/elections/s").await.ok();
    assert_eq!(reader.open("/v1/elections/s/observe").await.0, 200);
    reader.get("/v1/elections/s/campaign?value=a").await.problem(403, "forbidden");
    let stranger = Lab::from(reader.sidecar.clone(), quorlock_serve::Peer::Loopback);
    let wrong = [("authorization", "Bearer 0123456789abcdef0123")];
    for path in ["/v1/elections/s", "/v1/elections/s/observe", "/v1/elections/s/campaign?value=a"] {
        stranger.get_with(path, &wrong).await.problem(401, "unauthorized");
    }
}

#[tokio::test]
async fn wrong_campaigns_are_refused() {
    let lab = Lab::new();
    let long = format!("value={}", "x".repeat(201));
    for query in
        ["", "value=", "value=%0A", "value=a&x=1", "value=a&wait_ms=3600001", "value=a&reason=b", &long]
    {
        let refused = lab.get(&format!("/v1/elections/s/campaign?{query}")).await.problem(400, "bad_request");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("1 to 200 bytes") || detail.contains("3600000"), "{query}: {detail}");
    }
    lab.get("/v1/elections/s/campaign?value=a&ttl_ms=1").await.problem(400, "bad_ttl");
    lab.get("/v1/elections/quorlock%3Ax/campaign?value=a").await.problem(400, "bad_name");
    lab.get("/v1/elections/quorlock%3Ax").await.problem(400, "bad_name");
    lab.get("/v1/elections/s/observe?after=x").await.problem(400, "bad_request");
    lab.post("/v1/elections/s/campaign?value=a", &json!({})).await.problem(405, "method_not_allowed");
    let head = Request::builder().method("HEAD").uri("/v1/elections/s/campaign?value=a");
    let refused = lab.send(head.header("host", "localhost").body(Body::empty()).unwrap()).await;
    assert_eq!(refused.status, 405);
    assert_eq!(lab.get("/v1/elections/s").await.ok()["leader"], json!(null));
}

#[tokio::test]
async fn candidates_count_as_waiters() {
    let lab = Lab::within(|limits| limits.waiters = 1);
    let (_, mut leader) = lab.open("/v1/elections/s/campaign?value=a").await;
    event(&mut leader, "leading").await;
    let campaigning = {
        let lab = lab.clone();
        tokio::spawn(async move { lab.open("/v1/elections/s/campaign?value=b").await })
    };
    until("a candidate waits", SOON, async || lab.get("/v1/locks/s").await.ok()["waiters"] == json!(1)).await;
    lab.get("/v1/elections/s/campaign?value=c").await.problem(429, "too_many_waiters");
    campaigning.abort();
}
