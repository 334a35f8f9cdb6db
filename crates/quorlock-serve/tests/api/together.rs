//! Several names that are held together, or none of them.

use crate::kit::{Lab, event};
use quorlock_testkit::until;
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

fn with(names: &[&str]) -> Value {
    json!({ "names": names, "owner": "ann" })
}

#[tokio::test]
async fn several_names_are_one_lease_with_one_fence() {
    let lab = Lab::of(Lab::builder(&["memory:to1", "memory:to2", "memory:to3"]));
    let lease = lab.post("/v1/locks/b/acquire", &with(&["c", "a"])).await.ok();
    assert_eq!((&lease["name"], &lease["names"]), (&json!("b"), &json!(["a", "b", "c"])));
    for name in ["a", "b", "c"] {
        let seen = lab.get(&format!("/v1/locks/{name}")).await.ok();
        assert_eq!((&seen["fence"], &seen["here"]), (&lease["fence"], &json!(true)));
        lab.post(&format!("/v1/locks/{name}/acquire"), &json!({})).await.problem(409, "held");
    }
    assert_eq!(lab.get("/v1/overview").await.ok()["sessions"], 1);
    // Any of the names will do, because the token is that of all.
    let token = json!({ "token": lease["token"] });
    let longer = lab.post("/v1/locks/c/extend", &token).await.ok();
    assert_eq!((&longer["names"], &longer["fence"]), (&lease["names"], &lease["fence"]));
    lab.post("/v1/locks/d/release", &token).await.problem(410, "lost");
    lab.post("/v1/locks/a/release", &token).await.ok();
    for name in ["a", "b", "c"] {
        assert!(!lab.is_held(name).await, "{name}");
    }
}

#[tokio::test]
async fn a_refusal_names_each_holder_and_leaves_nothing() {
    let lab = Lab::new();
    lab.post("/v1/locks/a/acquire", &json!({ "owner": "ann" })).await.ok();
    lab.post("/v1/locks/c/acquire", &json!({ "owner": "bob", "mode": "shared" })).await.ok();
    let answer = lab.post("/v1/locks/b/acquire", &with(&["a", "c"])).await;
    assert!(answer.headers.contains_key("retry-after"));
    let refused = answer.problem(409, "names_held");
    let held = refused["held"].as_array().unwrap();
    assert_eq!(held.len(), 2, "{refused}");
    assert_eq!((&held[0]["name"], &held[0]["holder"]["owner"]), (&json!("a"), &json!("ann")));
    assert_eq!((&held[1]["name"], &held[1]["readers"][0]["owner"]), (&json!("c"), &json!("bob")));
    let waited = json!({ "names": ["a", "c"], "wait_ms": 50 });
    let over = lab.post("/v1/locks/b/acquire", &waited).await.problem(408, "wait_over");
    assert_eq!(over["held"][0]["name"], "a");
    assert!(!lab.is_held("b").await);
    lab.post("/v1/locks/b/acquire", &json!({ "names": ["c"], "mode": "shared" })).await.ok();
}

/// Goal: callers that want the same names in any order do not wait for each other for ever.
#[tokio::test]
async fn a_hold_of_several_names_is_handed_over_whole() {
    let lab = Lab::new();
    let (_, mut first) = lab.open("/v1/locks/a/hold?names=b%2Fc&names=d").await;
    assert_eq!(event(&mut first, "held").await["names"], json!(["a", "b/c", "d"]));
    let waiting = {
        let lab = lab.clone();
        let body = json!({ "names": ["a", "b/c"], "wait_ms": 60_000 });
        tokio::spawn(async move { lab.post("/v1/locks/d/acquire", &body).await })
    };
    until("a call waits for each name", SOON, async || {
        let waits = async |name| lab.get(&format!("/v1/locks/{name}")).await.ok()["waiters"] == json!(1);
        waits("a").await && waits("b%2Fc").await && waits("d").await
    })
    .await;
    drop(first);
    assert_eq!(waiting.await.unwrap().ok()["names"], json!(["a", "b/c", "d"]));
}

#[tokio::test]
async fn another_sidecar_needs_the_names() {
    let nodes = ["memory:names-elsewhere"];
    let (one, other) = (Lab::of(Lab::builder(&nodes)), Lab::of(Lab::builder(&nodes)));
    let lease = one.post("/v1/locks/a/acquire", &with(&["b"])).await.ok();
    let body = json!({ "token": lease["token"], "names": ["b"] });
    let extended = other.post("/v1/locks/a/extend", &body).await.ok();
    assert_eq!((&extended["names"], &extended["fence"]), (&lease["names"], &lease["fence"]));
    other.post("/v1/locks/a/release", &body).await.ok();
    assert!(!one.is_held("a").await && !one.is_held("b").await);
}

#[tokio::test]
async fn sets_of_names_have_bounds() {
    let lab = Lab::new();
    let names = |count: usize| (0..count).map(|n| format!("n{n}")).collect::<Vec<_>>();
    for (names, code, allowed) in [
        (json!([]), "bad_request", "1 to 15"),
        (json!(names(16)), "bad_request", "16"),
        (json!(["a"]), "bad_request", "`a`"),
        (json!(["b", "b"]), "bad_request", "`b`"),
        (json!(["quorlock:epoch"]), "bad_name", "reserved"),
        (json!(["quorlock:slot:gpu:1"]), "bad_name", "reserved"),
        (json!([""]), "bad_name", "1 to 512"),
        (json!([7]), "bad_request", "names (1 to 15"),
        (json!("b"), "bad_request", "names (1 to 15"),
    ] {
        let refused = lab.post("/v1/locks/a/acquire", &json!({ "names": names })).await.problem(400, code);
        assert!(refused["detail"].as_str().unwrap().contains(allowed), "{refused}");
    }
    for query in ["names=", "names=a", "names=b&names=b", "names", "n%61mes=b"] {
        let answer = lab.get(&format!("/v1/locks/a/hold?{query}")).await;
        assert_eq!(answer.status, 400, "{query}: {answer:?}");
    }
    assert!(!lab.is_held("a").await);
    let most = lab.post("/v1/locks/a/acquire", &json!({ "names": names(15) })).await.ok();
    assert_eq!(most["names"].as_array().unwrap().len(), 16);
}

/// Goal: each name of a set counts as a new name.
#[tokio::test]
async fn each_new_name_is_charged() {
    let lab = Lab::within(|limits| limits.new_names = 1);
    for set in 0..6 {
        let names: Vec<String> = (0..15).map(|n| format!("n{set}-{n}")).collect();
        lab.post(&format!("/v1/locks/s{set}/acquire"), &json!({ "names": names })).await.ok();
    }
    let names: Vec<String> = (0..15).map(|n| format!("more{n}")).collect();
    lab.post("/v1/locks/more/acquire", &json!({ "names": names })).await.problem(429, "too_many_names");
}
