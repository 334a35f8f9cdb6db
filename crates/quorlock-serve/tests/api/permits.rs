//! Permits of semaphores: never more than there are slots.

use crate::kit::{Lab, event};
use quorlock::{Locker, RestartGuard};
use quorlock_serve::{Peer, Sidecar};
use quorlock_testkit::{Server, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(30);

async fn permit(lab: &Lab, slots: u32) -> Value {
    lab.post("/v1/locks/gpu/acquire", &json!({ "slots": slots })).await.ok()
}

#[tokio::test]
async fn each_permit_has_a_slot_of_its_own() {
    let lab = Lab::of(Lab::builder(&["memory:pe1", "memory:pe2", "memory:pe3"]));
    let permits = [permit(&lab, 3).await, permit(&lab, 3).await, permit(&lab, 3).await];
    let slots: BTreeSet<u64> = permits.iter().map(|lease| lease["slot"].as_u64().unwrap()).collect();
    assert_eq!(slots, BTreeSet::from([0, 1, 2]));
    assert!(permits.iter().all(|lease| lease["name"] == "gpu" && lease["names"].is_null()));
    let full = lab.post("/v1/locks/gpu/acquire", &json!({ "slots": 3 })).await;
    assert!(full.headers.contains_key("retry-after"));
    assert_eq!(full.problem(409, "no_permit")["slots"], 3);
    let over = json!({ "slots": 3, "wait_ms": 50 });
    lab.post("/v1/locks/gpu/acquire", &over).await.problem(408, "wait_over");
    let differs = lab.post("/v1/locks/gpu/acquire", &json!({ "slots": 4 })).await;
    assert_eq!(differs.problem(409, "slots_differ")["recorded"], 3);
    let token = json!({ "token": permits[1]["token"] });
    let longer = lab.post("/v1/locks/gpu/extend", &token).await.ok();
    assert_eq!((&longer["slot"], &longer["name"]), (&permits[1]["slot"], &json!("gpu")));
    lab.post("/v1/locks/gpu/release", &token).await.ok();
    assert_eq!(permit(&lab, 3).await["slot"], permits[1]["slot"]);
}

/// Goal: callers of two sidecars that contend for permits never hold more than there are slots.
#[tokio::test(flavor = "multi_thread")]
async fn contending_callers_never_hold_more_permits_than_slots() {
    let nodes = ["memory:storm1", "memory:storm2", "memory:storm3"];
    let sidecars = [Lab::of(Lab::builder(&nodes)), Lab::of(Lab::builder(&nodes))];
    let (holding, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let callers: Vec<_> = (0..12)
        .map(|number| {
            let (lab, holding, most) = (sidecars[number % 2].clone(), holding.clone(), most.clone());
            tokio::spawn(async move {
                for _ in 0..5 {
                    let body = json!({ "slots": 3, "wait_ms": 60_000, "ttl_ms": 20_000 });
                    let lease = lab.post("/v1/locks/gpu/acquire", &body).await.ok();
                    most.fetch_max(holding.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    holding.fetch_sub(1, Ordering::SeqCst);
                    lab.post("/v1/locks/gpu/release", &json!({ "token": lease["token"] })).await.ok();
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.unwrap();
    }
    assert!((1..=3).contains(&most.load(Ordering::SeqCst)), "{most:?}");
}

#[tokio::test]
async fn a_permit_is_held_by_a_connection_and_handed_over() {
    let lab = Lab::new();
    let (_, mut body) = lab.open("/v1/locks/gpu/hold?slots=1&ttl_ms=30000").await;
    let held = event(&mut body, "held").await;
    assert_eq!((&held["slot"], &held["name"]), (&json!(0), &json!("gpu")));
    let waiting = {
        let lab = lab.clone();
        let body = json!({ "slots": 1, "wait_ms": 60_000 });
        tokio::spawn(async move { lab.post("/v1/locks/gpu/acquire", &body).await })
    };
    let slot = "/v1/locks/quorlock:slot:gpu:0";
    until("a call waits", SOON, async || lab.get(slot).await.ok()["waiters"] == json!(1)).await;
    // Released by its token, the hold learns of it.
    lab.post("/v1/locks/gpu/release", &json!({ "token": held["token"] })).await.ok();
    event(&mut body, "lost").await;
    assert!(waiting.await.unwrap().ok()["fence"].as_u64() > held["fence"].as_u64());
}

#[tokio::test]
async fn slots_are_listed_with_their_semaphore_and_freed_by_operators() {
    let lab = Lab::new();
    let lease = lab.post("/v1/locks/gpu/acquire", &json!({ "slots": 1, "owner": "ann" })).await.ok();
    let slot = "/v1/locks/quorlock:slot:gpu:0";
    let seen = lab.get(slot).await.ok();
    assert_eq!((&seen["semaphore"], &seen["slot"]), (&json!("gpu"), &json!(0)));
    assert_eq!((&seen["fence"], &seen["here"]), (&lease["fence"], &json!(true)));
    until("it is listed", SOON, async || lab.get("/v1/locks").await.ok()["total"] == 1).await;
    for (q, found) in [("GPU", 1), ("gpu%20%230", 1), ("ann", 1), ("quorlock", 0), ("gpu%20%231", 0)] {
        let listed = lab.get(&format!("/v1/locks?q={q}")).await.ok();
        assert_eq!(listed["matched"], found, "{q}: {listed}");
    }
    let operator = Lab::from(lab.sidecar.clone(), Peer::Unix);
    assert_eq!(operator.get(slot).await.ok()["token"], lease["token"]);
    let token = json!({ "token": lease["token"] });
    operator.post(&format!("{slot}/force-release"), &token).await.ok();
    lab.post("/v1/locks/gpu/extend", &token).await.problem(410, "lost");
    lab.post(&format!("{slot}/acquire"), &json!({})).await.problem(400, "bad_name");
    lab.get(&format!("{slot}/hold")).await.problem(400, "bad_name");
}

#[tokio::test]
async fn another_sidecar_needs_the_slot() {
    let nodes = ["memory:slot-elsewhere"];
    let (one, other) = (Lab::of(Lab::builder(&nodes)), Lab::of(Lab::builder(&nodes)));
    let lease = permit(&one, 4).await;
    let body = json!({ "token": lease["token"], "slot": lease["slot"] });
    let extended = other.post("/v1/locks/gpu/extend", &body).await.ok();
    assert_eq!((&extended["slot"], &extended["fence"]), (&lease["slot"], &lease["fence"]));
    other.post("/v1/locks/gpu/release", &json!({ "token": lease["token"] })).await.problem(410, "lost");
    other.post("/v1/locks/gpu/release", &body).await.ok();
    one.post("/v1/locks/gpu/extend", &body).await.problem(410, "lost");
}

#[tokio::test]
async fn semaphores_have_bounds() {
    let lab = Lab::new();
    for (body, allowed) in [
        (json!({ "slots": 0 }), "1 to 1024"),
        (json!({ "slots": 1025 }), "1 to 1024"),
        (json!({ "slots": -1 }), "1 to 1024"),
        (json!({ "slots": 5_000_000_000_u64 }), "1 to 1024"),
        (json!({ "slots": "2" }), "1 to 1024"),
        (json!({ "slots": 2, "mode": "shared" }), "leave out names and mode"),
        (json!({ "slots": 2, "names": ["b"] }), "leave out names and mode"),
    ] {
        let refused = lab.post("/v1/locks/gpu/acquire", &body).await.problem(400, "bad_request");
        assert!(refused["detail"].as_str().unwrap().contains(allowed), "{refused}");
    }
    for query in ["slots=0", "slots=1025", "slots=x", "slots=2&mode=shared", "slots=2&names=b"] {
        lab.get(&format!("/v1/locks/gpu/hold?{query}")).await.problem(400, "bad_request");
    }
    let long = "x".repeat(491);
    lab.post(&format!("/v1/locks/{long}/acquire"), &json!({ "slots": 2 })).await.problem(400, "bad_request");
    let token = "0".repeat(32);
    for body in
        [json!({ "token": token, "slot": 1024 }), json!({ "token": token, "slot": 1, "names": ["b"] })]
    {
        lab.post("/v1/locks/gpu/release", &body).await.problem(400, "bad_request");
        lab.post("/v1/locks/gpu/extend", &body).await.problem(400, "bad_request");
    }
}

/// Goal: a slot that the nodes forgot is granted to no second caller of the sidecar; another slot is.
#[tokio::test]
async fn a_forgotten_slot_is_not_granted_again() {
    let server = Server::builder().start();
    let nodes = Locker::builder()
        .nodes([server.url()])
        .restart_guard(RestartGuard::Off)
        .node_timeout(Duration::from_millis(500));
    let lab = Lab::from(Sidecar::builder(nodes).build().unwrap(), Peer::Loopback);
    let acquire = async |name: &str, slots: u32, wait: u64| {
        let body = json!({ "slots": slots, "wait_ms": wait, "ttl_ms": 20_000 });
        lab.post(&format!("/v1/locks/{name}/acquire"), &body).await
    };
    let only = acquire("one", 1, 0).await.ok();
    assert_eq!(server.cli(&["DEL", "quorlock:slot:one:0"]).trim(), "1");
    acquire("one", 1, 0).await.problem(409, "no_permit");
    acquire("one", 1, 50).await.problem(408, "wait_over");
    lab.post("/v1/locks/one/release", &json!({ "token": only["token"] })).await;
    acquire("one", 1, 0).await.ok();
    let first = acquire("two", 2, 0).await.ok();
    let slot = first["slot"].as_u64().unwrap();
    assert_eq!(server.cli(&["DEL", &format!("quorlock:slot:two:{slot}")]).trim(), "1");
    assert_ne!(acquire("two", 2, 15_000).await.ok()["slot"], first["slot"]);
}
