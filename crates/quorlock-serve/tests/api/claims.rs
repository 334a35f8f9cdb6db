//! Names that callers of this sidecar hold: refused to other callers even if the nodes forgot them.

use crate::kit::{Lab, event};
use quorlock::{Clock, Locker, RestartGuard, SystemClock};
use quorlock_serve::{Peer, Sidecar};
use quorlock_testkit::{ClockShim, Server};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(30);

/// A sidecar on one real server whose clock can be set.
struct World {
    clock: ClockShim,
    server: Server,
    lab: Lab,
    operator: Lab,
}

impl World {
    fn start() -> Self {
        let clock = ClockShim::new();
        let server = Server::builder().clock(&clock).start();
        let nodes = Locker::builder()
            .nodes([server.url()])
            .restart_guard(RestartGuard::Off)
            .node_timeout(Duration::from_millis(500));
        let sidecar = Sidecar::builder(nodes).build().unwrap();
        let operator = Lab::from(sidecar.clone(), Peer::Unix);
        Self { clock, server, lab: Lab::from(sidecar, Peer::Loopback), operator }
    }

    /// Makes the server forget every lock, against assumption T2.
    fn jump(&self) {
        self.clock.jump_wall(Duration::from_secs(600));
        assert_eq!(self.server.cli(&["EXISTS", "a"]).trim(), "0", "the server has forgotten it");
    }

    async fn acquire(&self, body: &Value) -> crate::kit::Answer {
        self.lab.post("/v1/locks/a/acquire", body).await
    }

    async fn refuses_all(&self, owner: &str) {
        let held = self.acquire(&json!({})).await.problem(409, "held");
        assert_eq!(held["holder"]["owner"], owner);
        assert!(held["remaining_ms"].as_u64().unwrap() > 0, "{held}");
        self.acquire(&json!({ "wait_ms": 50 })).await.problem(408, "wait_over");
        self.lab.get("/v1/locks/a/hold?wait_ms=0").await.problem(409, "held");
        self.lab.get("/v1/locks/a/hold?wait_ms=50").await.problem(408, "wait_over");
    }
}

/// Goal: a server whose clock jumped does not make one sidecar grant a name to two of its own callers.
#[tokio::test]
async fn a_leased_name_is_not_granted_again_when_the_nodes_forgot_it() {
    let world = World::start();
    let lease = world.acquire(&json!({ "ttl_ms": 20_000, "owner": "ann" })).await.ok();
    world.jump();
    world.refuses_all("ann").await;
    // Its caller releases what the nodes do not have: then the name is free.
    world.lab.post("/v1/locks/a/release", &json!({ "token": lease["token"] })).await.problem(410, "lost");
    world.acquire(&json!({})).await.ok();
}

#[tokio::test]
async fn a_held_name_is_not_granted_when_the_nodes_forgot_it() {
    let world = World::start();
    let (_, mut body) = world.lab.open("/v1/locks/a/hold?ttl_ms=30000&owner=ann").await;
    event(&mut body, "held").await;
    world.server.cli(&["DEL", "a"]);
    world.refuses_all("ann").await;
    drop(body);
    world.acquire(&json!({ "wait_ms": 20_000 })).await.ok();
}

/// Goal: a caller that has not yet read that its lock is lost is protected until its deadline, and no
/// longer.
#[tokio::test]
async fn a_hold_that_is_found_lost_keeps_its_name_until_its_deadline() {
    let world = World::start();
    let (_, mut body) = world.lab.open("/v1/locks/a/hold?ttl_ms=3000&owner=ann").await;
    let held = event(&mut body, "held").await;
    world.server.cli(&["DEL", "a"]);
    assert_eq!(event(&mut body, "lost").await["reason"], "taken");
    world.acquire(&json!({})).await.problem(409, "held");
    world.acquire(&json!({ "wait_ms": 20_000 })).await.ok();
    let now = SystemClock.now().since_boot();
    assert!(now >= Duration::from_millis(held["deadline_boot_ms"].as_u64().unwrap()), "{held} at {now:?}");
}

#[tokio::test]
async fn an_operator_frees_a_name_at_once_even_if_the_nodes_forgot_it() {
    let world = World::start();
    for forgets in [false, true] {
        let lease = world.acquire(&json!({ "ttl_ms": 20_000 })).await.ok();
        let (_, mut body) = world.lab.open("/v1/locks/b/hold?ttl_ms=20000").await;
        let held = event(&mut body, "held").await;
        if forgets {
            world.jump();
            world.acquire(&json!({})).await.problem(409, "held");
        }
        for (name, token) in [("a", &lease["token"]), ("b", &held["token"])] {
            let path = format!("/v1/locks/{name}");
            assert_eq!(&world.operator.get(&path).await.ok()["token"], token);
            let freed =
                world.operator.post(&format!("{path}/force-release"), &json!({ "token": token })).await;
            assert_eq!(freed.status, if forgets { 410 } else { 200 }, "{freed:?}");
            let next = world.lab.post(&format!("{path}/acquire"), &json!({})).await.ok();
            world.lab.post(&format!("{path}/release"), &json!({ "token": next["token"] })).await.ok();
        }
    }
}

/// Goal: a waiter gets a forgotten name as soon as its holder releases it, not at its deadline.
#[tokio::test]
async fn a_waiter_for_a_forgotten_name_gets_it_when_its_holder_releases_it() {
    let world = World::start();
    let lease = world.acquire(&json!({ "ttl_ms": 30_000 })).await.ok();
    let start = Instant::now();
    world.jump();
    let waiting = {
        let lab = world.lab.clone();
        tokio::spawn(async move { lab.post("/v1/locks/a/acquire", &json!({ "wait_ms": 25_000 })).await })
    };
    quorlock_testkit::until("the nodes granted it and it was given back", SOON, async || {
        world.lab.get("/v1/locks/a").await.ok()["waiters"] == 1
            && world.server.cli(&["EXISTS", "quorlock:fence:{a}"]).trim() == "1"
            && world.server.cli(&["EXISTS", "a"]).trim() == "0"
    })
    .await;
    world.lab.post("/v1/locks/a/release", &json!({ "token": lease["token"] })).await;
    let next = waiting.await.unwrap().ok();
    assert!(next["fence"].as_u64() > lease["fence"].as_u64());
    assert!(start.elapsed() < Duration::from_secs(25), "before the deadline");
}

/// Goal: a name is not refused for longer than its caller may count on it.
#[tokio::test]
async fn a_lease_that_was_released_elsewhere_is_free_here_at_its_deadline() {
    let world = World::start();
    let elsewhere =
        Locker::builder().nodes([world.server.url()]).restart_guard(RestartGuard::Off).build().unwrap();
    let lease = world.acquire(&json!({ "ttl_ms": 2_500 })).await.ok();
    let token = lease["token"].as_str().unwrap().parse().unwrap();
    let _ = elsewhere.named("a").unwrap().force_release(token).await;
    drop(elsewhere.named("a").unwrap().acquire().await.unwrap());
    world.acquire(&json!({})).await.problem(409, "held");
    world.acquire(&json!({ "wait_ms": 20_000 })).await.ok();
    let now = SystemClock.now().since_boot();
    assert!(now >= Duration::from_millis(lease["deadline_boot_ms"].as_u64().unwrap()), "{lease} at {now:?}");
}
