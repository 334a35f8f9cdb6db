//! Leases by token: acquired, extended, released, inspected.

use crate::kit::Lab;
use quorlock::Locker;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn a_lease_is_acquired_extended_and_released() {
    let lab = Lab::new();
    let lease = lab
        .post("/v1/locks/a/acquire", &json!({ "ttl_ms": 5000, "owner": "me", "reason": "why" }))
        .await
        .ok();
    assert_eq!((&lease["name"], &lease["ttl_ms"]), (&json!("a"), &json!(5000)));
    assert_eq!((&lease["votes"], &lease["nodes"], &lease["quorum"]), (&json!(1), &json!(1), &json!(1)));
    assert!(lease["fence"].as_u64().unwrap() < 1 << 53);
    assert!((1..=5000).contains(&lease["remaining_ms"].as_u64().unwrap()), "{lease}");
    let longer =
        lab.post("/v1/locks/a/extend", &json!({ "token": lease["token"], "ttl_ms": 9000 })).await.ok();
    assert_eq!((&longer["token"], &longer["fence"]), (&lease["token"], &lease["fence"]));
    assert!(longer["remaining_ms"].as_u64().unwrap() > 5000, "{longer}");
    let released = lab.post("/v1/locks/a/release", &json!({ "token": lease["token"] })).await.ok();
    assert_eq!(released, json!({ "outcome": "released" }));
    assert!(!lab.is_held("a").await);
}

#[tokio::test]
async fn a_refused_caller_learns_who_holds_the_lock() {
    let lab = Lab::new();
    let body = json!({ "owner": "ann@web", "reason": "report" });
    let lease = lab.post("/v1/locks/a/acquire", &body).await.ok();
    let answer = lab.post("/v1/locks/a/acquire", &json!({})).await;
    assert!(answer.headers["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    assert!(!answer.text.contains(lease["token"].as_str().unwrap()));
    let problem = answer.problem(409, "held");
    assert_eq!(problem["holder"]["owner"], "ann@web");
    assert_eq!(problem["holder"]["reason"], "report");
    assert!(problem["holder"]["since"].as_u64().unwrap() > 1_600_000_000_000);
    assert!(problem["remaining_ms"].as_u64().unwrap() <= 10_000);
}

/// Goal: a caller that skips work which others do can distinguish a holder from clients without a majority.
#[tokio::test]
async fn a_lock_that_no_client_has_on_a_majority_is_not_called_held() {
    let nodes = ["memory:contended1", "memory:contended2", "memory:contended3"];
    for node in nodes {
        let alone = quorlock::Locker::builder().nodes([node]).build().unwrap();
        std::mem::forget(alone.named("a").unwrap().acquire().await.unwrap());
    }
    let lab = Lab::of(Lab::builder(&nodes));
    for body in [json!({}), json!({ "wait_ms": 100 })] {
        let answer = lab.post("/v1/locks/a/acquire", &body).await;
        assert!(answer.headers.contains_key("retry-after"));
        let problem = answer.problem(409, "contended");
        assert!(problem["detail"].as_str().unwrap().contains("no client has a majority"), "{problem}");
    }
}

#[tokio::test]
async fn a_wait_that_is_over_is_not_the_same_as_no_wait() {
    let lab = Lab::new();
    lab.acquire("a").await;
    let answer = lab.post("/v1/locks/a/acquire", &json!({ "wait_ms": 50 })).await;
    assert!(answer.headers.contains_key("retry-after"));
    answer.problem(408, "wait_over");
}

#[tokio::test]
async fn a_waiter_gets_the_lock_when_it_is_released() {
    let lab = Lab::new();
    let first = lab.acquire("a").await;
    let waiting = {
        let lab = lab.clone();
        tokio::spawn(async move { lab.post("/v1/locks/a/acquire", &json!({ "wait_ms": 60_000 })).await })
    };
    quorlock_testkit::until("a call waits", Duration::from_secs(30), async || {
        lab.get("/v1/locks/a").await.ok()["waiters"] == json!(1)
    })
    .await;
    lab.post("/v1/locks/a/release", &json!({ "token": first["token"] })).await.ok();
    let second = waiting.await.unwrap().ok();
    assert!(second["fence"].as_u64() > first["fence"].as_u64());
}

#[tokio::test]
async fn what_is_gone_cannot_be_released_or_extended() {
    let lab = Lab::new();
    let lease = lab.acquire("a").await;
    let body = json!({ "token": lease["token"] });
    lab.post("/v1/locks/a/release", &body).await.ok();
    for verb in ["release", "extend"] {
        let answer = lab.post(&format!("/v1/locks/a/{verb}"), &body).await;
        assert!(!answer.text.contains(lease["token"].as_str().unwrap()));
        answer.problem(410, "lost");
    }
    let never = json!({ "token": "0".repeat(32) });
    lab.post("/v1/locks/a/release", &never).await.problem(410, "lost");
    lab.post("/v1/locks/a/extend", &never).await.problem(410, "lost");
}

#[tokio::test]
async fn a_lease_that_nobody_extends_ends_and_makes_room() {
    let lab = Lab::within(|limits| limits.sessions = 1);
    let bound = lab.sidecar.bind(&[], None).await.unwrap();
    let serving = tokio::spawn(bound.serve(Default::default()));
    lab.post("/v1/locks/a/acquire", &json!({ "ttl_ms": 300 })).await.ok();
    lab.post("/v1/locks/b/acquire", &json!({})).await.problem(503, "full");
    quorlock_testkit::until("there is room again", Duration::from_secs(30), async || {
        lab.post("/v1/locks/b/acquire", &json!({ "ttl_ms": 300 })).await.status == 200
    })
    .await;
    serving.abort();
}

/// Goal: a waiter holds nothing, so it does not count as a session.
#[tokio::test]
async fn waiters_need_no_session() {
    let lab = Lab::within(|limits| limits.sessions = 2);
    lab.post("/v1/locks/hot/acquire", &json!({ "ttl_ms": 20_000 })).await.ok();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let lab = lab.clone();
            tokio::spawn(
                async move { lab.post("/v1/locks/hot/acquire", &json!({ "wait_ms": 20_000 })).await },
            )
        })
        .collect();
    quorlock_testkit::until("they wait", Duration::from_secs(30), async || {
        lab.get("/v1/overview").await.ok()["waiters_total"] == 3
    })
    .await;
    assert_eq!(lab.get("/v1/overview").await.ok()["sessions"], 1);
    lab.post("/v1/locks/other/acquire", &json!({})).await.ok();
    lab.post("/v1/locks/third/acquire", &json!({})).await.problem(503, "full");
    waiting.iter().for_each(|call| call.abort());
}

/// Goal: requests that find room together do not exceed the limit together: the grant decides.
#[tokio::test]
async fn requests_that_find_room_together_do_not_exceed_the_limit() {
    let nodes = ["memory:limit-at-the-grant"];
    let mut limits = quorlock_serve::Limits::default();
    limits.sessions = 1;
    let lab = Lab::of(Lab::builder(&nodes).limits(limits));
    let others = Locker::builder().nodes(nodes).build().unwrap();
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for name in ["a", "b", "c"] {
        held.push(others.named(name).unwrap().acquire().await.unwrap());
        let lab = lab.clone();
        waiting.push(tokio::spawn(async move {
            lab.post(&format!("/v1/locks/{name}/acquire"), &json!({ "wait_ms": 60_000 })).await
        }));
    }
    quorlock_testkit::until("all wait", Duration::from_secs(30), async || {
        lab.get("/v1/overview").await.ok()["waiters_total"] == 3
    })
    .await;
    drop(held);
    let mut granted = 0;
    for call in waiting {
        let answer = call.await.unwrap();
        if answer.status == 200 {
            granted += 1;
        } else {
            answer.problem(503, "full");
        }
    }
    assert_eq!(granted, 1);
    assert_eq!(lab.get("/v1/overview").await.ok()["sessions"], 1);
}

/// Goal: the ttl of the last extension is the default of the next.
#[tokio::test]
async fn an_extension_without_a_ttl_is_as_long_as_the_last() {
    let lab = Lab::new();
    let lease = lab.post("/v1/locks/a/acquire", &json!({ "ttl_ms": 5_000 })).await.ok();
    let token = &lease["token"];
    let longer = json!({ "token": token, "ttl_ms": 20_000 });
    assert_eq!(lab.post("/v1/locks/a/extend", &longer).await.ok()["ttl_ms"], 20_000);
    assert_eq!(lab.post("/v1/locks/a/extend", &json!({ "token": token })).await.ok()["ttl_ms"], 20_000);
}

#[tokio::test]
async fn waiters_have_a_limit() {
    let lab = Lab::within(|limits| limits.waiters = 1);
    lab.acquire("a").await;
    let waiting = {
        let lab = lab.clone();
        tokio::spawn(async move { lab.post("/v1/locks/a/acquire", &json!({ "wait_ms": 60_000 })).await })
    };
    quorlock_testkit::until("a call waits", Duration::from_secs(30), async || {
        lab.get("/v1/locks/a").await.ok()["waiters"] == json!(1)
    })
    .await;
    let answer = lab.post("/v1/locks/b/acquire", &json!({ "wait_ms": 10 })).await;
    assert_eq!(answer.headers["retry-after"], "1");
    answer.problem(429, "too_many_waiters");
    waiting.abort();
}

#[tokio::test]
async fn held_locks_are_listed_and_free_ones_can_be_inspected() {
    let lab = Lab::new();
    let lease = lab.acquire("a%2Fb").await;
    let listed = lab.get("/v1/locks").await;
    assert!(!listed.text.contains(lease["token"].as_str().unwrap()));
    let listed = listed.ok();
    assert_eq!(listed["complete"], true);
    assert_eq!((&listed["locks"][0]["name"], &listed["locks"][0]["here"]), (&json!("a/b"), &json!(true)));
    let one = lab.get("/v1/locks/a%2Fb").await.ok();
    assert_eq!(one["node_views"][0]["state"], "holds");
    assert_eq!((&one["fence"], &one["held"]), (&lease["fence"], &json!(true)));
    let free = lab.get("/v1/locks/free").await.ok();
    assert_eq!((&free["held"], &free["holder"], &free["here"]), (&json!(false), &json!(null), &json!(false)));
}

#[tokio::test]
async fn without_a_quorum_each_node_says_why() {
    let port = quorlock_testkit::Port::claim();
    let url = format!("redis://127.0.0.1:{}", port.number());
    let lab = Lab::of(Lab::builder(&[&url]));
    let problem = lab.post("/v1/locks/a/acquire", &json!({})).await.problem(503, "no_quorum");
    assert_eq!(problem["quorum"], 1);
    assert_eq!(problem["nodes"][0]["said"], "failed", "{problem}");
    assert!(problem["nodes"][0]["cause"].is_string());
    for (path, body) in [("extend", json!({ "token": "0".repeat(32) }))] {
        lab.post(&format!("/v1/locks/a/{path}"), &body).await.problem(503, "no_quorum");
    }
    lab.get("/v1/locks").await.problem(503, "no_quorum");
    lab.get("/v1/locks/a").await.problem(503, "no_quorum");
    let ready = lab.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json()["ready"], false);
    assert_eq!(lab.get("/v1/overview").await.ok()["banners"][0]["code"], "no_quorum");
}

#[tokio::test]
async fn other_clients_of_the_nodes_are_shown_and_kept_out() {
    let lab = Lab::of(Lab::builder(&["memory:shared-with-a-guard"]));
    let locker = Locker::builder().nodes(["memory:shared-with-a-guard"]).owner("bob").build().unwrap();
    let guard = locker.named("a").unwrap().acquire().await.unwrap();
    let problem = lab.post("/v1/locks/a/acquire", &json!({})).await.problem(409, "held");
    assert_eq!(problem["holder"]["owner"], "bob");
    let seen = lab.get("/v1/locks/a").await.ok();
    assert_eq!((&seen["here"], &seen["fence"]), (&json!(false), &json!(guard.fence().get())));
}
