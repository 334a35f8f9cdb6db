//! Readers and writers of one lock.

use crate::kit::{Lab, event};
use quorlock::{Locker, RestartGuard};
use quorlock_serve::{Peer, Sidecar};
use quorlock_testkit::{Server, until};
use serde_json::{Value, json};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

fn shared(owner: &str) -> Value {
    json!({ "mode": "shared", "owner": owner })
}

/// Goal: readers share, a writer waits for all of them, and each reader has its own token and fence.
#[tokio::test]
async fn readers_share_and_keep_a_writer_out() {
    let lab = Lab::of(Lab::builder(&["memory:sh1", "memory:sh2", "memory:sh3"]));
    let ann = lab.post("/v1/locks/a/acquire", &shared("ann")).await.ok();
    let bob = lab.post("/v1/locks/a/acquire", &shared("bob")).await.ok();
    assert_eq!((&ann["mode"], &bob["mode"]), (&json!("shared"), &json!("shared")));
    assert_ne!(ann["token"], bob["token"]);
    assert!(bob["fence"].as_u64() > ann["fence"].as_u64());
    let answer = lab.post("/v1/locks/a/acquire", &json!({})).await;
    assert!([&ann, &bob].iter().all(|lease| !answer.text.contains(lease["token"].as_str().unwrap())));
    let refused = answer.problem(409, "held");
    assert_eq!((&refused["holder"], &refused["readers"][1]["owner"]), (&json!(null), &json!("bob")));
    lab.post("/v1/locks/a/extend", &json!({ "token": ann["token"], "ttl_ms": 9000 })).await.ok();
    lab.post("/v1/locks/a/release", &json!({ "token": ann["token"] })).await.ok();
    lab.post("/v1/locks/a/extend", &json!({ "token": ann["token"] })).await.problem(410, "lost");
    lab.post("/v1/locks/a/acquire", &json!({ "mode": "exclusive" })).await.problem(409, "held");
    lab.post("/v1/locks/a/extend", &json!({ "token": bob["token"] })).await.ok();
    lab.post("/v1/locks/a/release", &json!({ "token": bob["token"] })).await.ok();
    let writer = lab.acquire("a").await;
    assert_eq!(writer["mode"], "exclusive");
    assert!(writer["fence"].as_u64() > bob["fence"].as_u64());
    lab.post("/v1/locks/a/acquire", &shared("ann")).await.problem(409, "held");
}

#[tokio::test]
async fn readers_are_listed_and_found_and_their_tokens_shown_to_operators_only() {
    let lab = Lab::new();
    let ann = lab.post("/v1/locks/a/acquire", &shared("ann")).await.ok();
    let bob = lab.post("/v1/locks/a/acquire", &json!({ "mode": "shared", "reason": "nightly" })).await.ok();
    let seen = lab.get("/v1/locks/a").await;
    assert!(!seen.text.contains(ann["token"].as_str().unwrap()));
    let seen = seen.ok();
    assert_eq!((&seen["held"], &seen["mode"], &seen["here"]), (&json!(true), &json!("shared"), &json!(true)));
    assert_eq!((&seen["holder"], &seen["fence"]), (&json!(null), &json!(null)));
    let (first, second) = (&seen["readers"][0], &seen["readers"][1]);
    assert_eq!((&first["owner"], &first["fence"]), (&json!("ann"), &ann["fence"]));
    assert_eq!((&second["reason"], &second["fence"]), (&json!("nightly"), &bob["fence"]));
    assert!(first["since"].as_u64().unwrap() > 1_600_000_000_000 && first["token"].is_null());
    assert_eq!(
        (&seen["node_views"][0]["state"], &seen["node_views"][0]["readers"]),
        (&json!("holds"), &json!(2))
    );
    until("it is listed", SOON, async || lab.get("/v1/locks").await.ok()["total"] == 1).await;
    for q in ["ANN", "nightly", &std::process::id().to_string()] {
        let listed = lab.get(&format!("/v1/locks?q={q}&sort=since")).await.ok();
        assert_eq!(
            (&listed["matched"], &listed["locks"][0]["readers"][1]["reason"]),
            (&json!(1), &json!("nightly"))
        );
    }
    let operator = Lab::from(lab.sidecar.clone(), Peer::Unix);
    let seen = operator.get("/v1/locks/a").await.ok();
    assert_eq!((&seen["token"], &seen["readers"][0]["token"]), (&json!(null), &ann["token"]));
    operator.post("/v1/locks/a/force-release", &json!({ "token": ann["token"] })).await.ok();
    let seen = operator.get("/v1/locks/a").await.ok();
    assert_eq!(seen["readers"].as_array().unwrap().len(), 1, "{seen}");
}

#[tokio::test]
async fn a_waiting_writer_gets_its_turn_when_the_last_reader_hangs_up() {
    let lab = Lab::new();
    let (_, mut one) = lab.open("/v1/locks/a/hold?mode=shared&ttl_ms=30000").await;
    let (_, mut two) = lab.open("/v1/locks/a/hold?mode=shared&ttl_ms=30000").await;
    assert_eq!(event(&mut one, "held").await["mode"], "shared");
    let second = event(&mut two, "held").await;
    assert_eq!(lab.get("/v1/overview").await.ok()["holds"], 2);
    let writing = {
        let lab = lab.clone();
        tokio::spawn(async move { lab.post("/v1/locks/a/acquire", &json!({ "wait_ms": 60_000 })).await })
    };
    until("a call waits", SOON, async || lab.get("/v1/locks/a").await.ok()["waiters"] == json!(1)).await;
    // A release by token ends the hold that has it, and no other.
    let token = json!({ "token": second["token"] });
    let (released, ended) = tokio::join!(lab.post("/v1/locks/a/release", &token), event(&mut two, "lost"));
    assert_eq!((&released.ok()["outcome"], &ended["reason"]), (&json!("released"), &json!("released")));
    assert!(lab.is_held("a").await && !writing.is_finished());
    drop(one);
    assert_eq!(writing.await.unwrap().ok()["mode"], "exclusive");
}

/// Goal: what a sidecar knows of its own readers keeps a writer out even if the nodes forgot them, and
/// lets further readers in.
#[tokio::test]
async fn a_writer_is_refused_next_to_readers_that_the_nodes_forgot() {
    let server = Server::builder().start();
    let nodes = Locker::builder()
        .nodes([server.url()])
        .restart_guard(RestartGuard::Off)
        .node_timeout(Duration::from_millis(500));
    let lab = Lab::from(Sidecar::builder(nodes).build().unwrap(), Peer::Loopback);
    let terms = json!({ "mode": "shared", "ttl_ms": 20_000, "owner": "ann" });
    let ann = lab.post("/v1/locks/a/acquire", &terms).await.ok();
    server.cli(&["DEL", "a"]);
    let held = lab.post("/v1/locks/a/acquire", &json!({})).await.problem(409, "held");
    assert_eq!(held["holder"]["owner"], "ann");
    let bob = lab.post("/v1/locks/a/acquire", &shared("bob")).await.ok();
    lab.post("/v1/locks/a/release", &json!({ "token": ann["token"] })).await;
    lab.post("/v1/locks/a/release", &json!({ "token": bob["token"] })).await.ok();
    let writer = lab.post("/v1/locks/a/acquire", &json!({ "ttl_ms": 20_000 })).await.ok();
    server.cli(&["DEL", "a"]);
    lab.post("/v1/locks/a/acquire", &shared("bob")).await.problem(409, "held");
    lab.post("/v1/locks/a/release", &json!({ "token": writer["token"] })).await;
    lab.post("/v1/locks/a/acquire", &shared("bob")).await.ok();
}

#[tokio::test]
async fn another_sidecar_extends_and_releases_one_reader() {
    let nodes = ["memory:readers-elsewhere"];
    let (one, other) = (Lab::of(Lab::builder(&nodes)), Lab::of(Lab::builder(&nodes)));
    let ann = one.post("/v1/locks/a/acquire", &shared("ann")).await.ok();
    let bob = one.post("/v1/locks/a/acquire", &shared("bob")).await.ok();
    let extended =
        other.post("/v1/locks/a/extend", &json!({ "token": ann["token"], "ttl_ms": 9000 })).await.ok();
    assert_eq!((&extended["fence"], &extended["mode"]), (&ann["fence"], &json!(null)));
    other.post("/v1/locks/a/release", &json!({ "token": ann["token"] })).await.ok();
    let seen = other.get("/v1/locks/a").await.ok();
    assert_eq!(seen["readers"].as_array().unwrap().len(), 1);
    assert_eq!(seen["readers"][0]["fence"], bob["fence"]);
}

#[tokio::test]
async fn a_mode_is_exclusive_or_shared() {
    let lab = Lab::new();
    for mode in [json!("write"), json!(""), json!(1), json!(["shared"])] {
        let refused =
            lab.post("/v1/locks/a/acquire", &json!({ "mode": mode })).await.problem(400, "bad_request");
        assert!(refused["detail"].as_str().unwrap().contains("mode (exclusive or shared)"), "{refused}");
    }
    lab.get("/v1/locks/a/hold?mode=write").await.problem(400, "bad_request");
    assert!(!lab.is_held("a").await);
}
