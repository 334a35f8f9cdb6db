//! The etcd node on real clusters.

use super::super::contract::{
    Losers, TTL, Unraised, acquire, ask, contract_without_time, extend, inspect, name, release, token,
};
use super::super::{NodeUrl, open};
use super::*;
use crate::node::url::Place;
use crate::node::{Command, Denied, Done, Reply};
use quorlock_testkit::{Etcd, until};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

fn node(url: &str) -> Arc<dyn Node> {
    let around = Surroundings { node_timeout: Duration::from_secs(2), ..Surroundings::default() };
    open(&url.parse().unwrap(), &around).unwrap()
}

fn store(url: &str) -> Store {
    let Place::Cluster(cluster) = url.parse::<NodeUrl>().unwrap().place else { panic!("{url}") };
    let member = |endpoint: &Endpoint| http::Endpoint {
        authority: endpoint.to_string(),
        address: Address::new(endpoint).unwrap(),
    };
    let second = Duration::from_secs(5);
    let http = Http::new(cluster.endpoints.iter().map(member).collect(), second, second);
    let entropy = Surroundings::default().entropy;
    let clock = Surroundings::default().clock;
    let api = Arc::new(Api::new(http, None));
    Store {
        api,
        entropy,
        clock,
        counters: Counters::default(),
        prefix: cluster.prefix,
        refused: Arc::default(),
        ending: TaskTracker::new(),
        limit: second,
    }
}

#[tokio::test]
async fn the_etcd_node_keeps_the_contract() {
    let etcd = Etcd::start(1);
    contract_without_time(&node(&etcd.url()), Losers::LeaveIt, Unraised::WithCounter).await;
}

#[tokio::test]
async fn extending_never_shortens_and_leaves_one_lease_for_each_lock() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    assert_eq!(ask(&node, &extend("a", 1, TTL / 2, false)).await, "done");
    assert_eq!(inspect(&node, "a").await, "ann1@web fence 5 left 10 counter 5");
    assert_eq!(ask(&node, &extend("a", 1, 4 * TTL, false)).await, "done");
    assert_eq!(inspect(&node, "a").await, "ann1@web fence 5 left 40 counter 5");
    let leases = || etcd.post("/v3/lease/leases", "{}")["leases"].as_array().map_or(0, Vec::len);
    // One for all counters, and one for the lock.
    until("the old lease is gone", Duration::from_secs(10), async || leases() == 2).await;
    assert_eq!(ask(&node, &release("a", 1)).await, "done");
    until("the last one, too", Duration::from_secs(10), async || leases() == 1).await;
    assert_eq!(inspect(&node, "a").await, "free, counter 5");
    ask(&node, &acquire("a", 1, 6, TTL, false)).await;
    assert_eq!(ask(&node, &acquire("a", 2, 7, TTL, false)).await, "taken");
    assert_eq!(leases(), 2, "who is refused leaves nothing behind");
}

/// The answer to an acquire was not waited for, and it comes to the cluster after its release.
#[tokio::test]
async fn a_release_ends_an_acquire_that_is_still_on_its_way() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    let lock = store.lock_key(&name("a"));
    let Command::Acquire(late) = acquire("a", 1, 5, TTL, false) else { unreachable!() };
    let lease = store.lease(&late.name, &token(1));
    store.api.grant(lease, TTL).await.unwrap();
    store.execute(&release("a", 1)).await.unwrap();
    let put = json::Txn::default().then(json::put(&lock, late.value().as_bytes(), lease));
    let refused = store.api.execute(&put).await.unwrap_err();
    assert!(refused.to_string().contains("lease not found"), "{refused}");
    assert_eq!(store.api.read(&lock).await.unwrap(), None);
}

#[tokio::test]
async fn counters_are_kept_for_weeks_by_one_lease_for_all_and_a_lost_lease_is_replaced() {
    let etcd = Etcd::start(1);
    let (one, other) = (store(&etcd.url()), store(&etcd.url()));
    for (store, name, by) in [(&one, "a", 1), (&other, "a", 2), (&one, "a", 3)] {
        let reply = store.execute(&acquire(name, by, 5 + u64::from(by), TTL, false)).await.unwrap();
        store.execute(&release(name, by)).await.unwrap();
        assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
    }
    let lease = async |name: &str| {
        let key = format!("quorlock/fence/{name}");
        one.api.read(key.as_bytes()).await.unwrap().unwrap().lease
    };
    let shared = lease("a").await;
    let leases = etcd.post("/v3/lease/leases", "{}")["leases"].as_array().map_or(0, Vec::len);
    assert!(leases <= 2, "one for the counter, and perhaps one that is just being ended: {leases}");
    let left = one.api.left(shared).await.unwrap();
    assert!(left > Duration::from_secs(27 * 86_400), "{left:?}");

    assert!(one.api.revoke(shared).await.unwrap());
    assert!(one.execute(&acquire("a", 4, 50, TTL, false)).await.is_err(), "it was told of the lease before");
    let reply = one.execute(&acquire("a", 5, 51, TTL, false)).await.unwrap();
    assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
}

#[tokio::test]
async fn names_of_two_prefixes_are_apart_and_listed_apart() {
    let etcd = Etcd::start(1);
    let (one, other) = (node(&etcd.url()), node(&format!("{}/team", etcd.url())));
    assert_eq!(ask(&one, &acquire("a/b", 1, 5, TTL, false)).await, "raised");
    assert_eq!(ask(&other, &acquire("a/b", 2, 4, TTL, false)).await, "raised");
    assert_eq!(ask(&other, &acquire("c", 2, 4, TTL, false)).await, "raised");
    assert_eq!(one.names().await.unwrap(), Names::new([name("a/b")]));
    assert_eq!(other.names().await.unwrap(), Names::new([name("a/b"), name("c")]));
}

#[tokio::test]
async fn what_others_wrote_is_foreign_and_stays() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    let body = format!(r#"{{"key":"{}","value":"{}"}}"#, json::text("quorlock/lock/a"), json::text("mine"));
    etcd.post("/v3/kv/put", &body);
    assert_eq!(inspect(&node, "a").await, "foreign mine");
    assert_eq!(ask(&node, &acquire("a", 1, 5, TTL, false)).await, "taken");
    assert_eq!(ask(&node, &release("a", 1)).await, "taken");
    let odd = format!(r#"{{"key":"{}","value":"{}"}}"#, json::text("quorlock/fence/b"), json::text("zz"));
    etcd.post("/v3/kv/put", &odd);
    let failed = ask(&node, &acquire("b", 1, 5, TTL, false)).await;
    assert!(failed.contains("quorlock/fence/b"), "{failed}");
}

#[tokio::test]
async fn a_lease_that_ends_rings_the_bell() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    let bell = Bell::new();
    ask(&node, &acquire("a", 1, 5, Duration::from_secs(1), false)).await;
    node.watch(&name("a"), &bell);
    tokio::time::timeout(Duration::from_secs(20), bell.heard()).await.expect("the end of a lease rings");
    node.unwatch(&name("a"));
}

/// Many give up while the cluster stands still: it must not have to work them all off when it is back.
#[tokio::test]
async fn what_nobody_waits_for_any_more_is_not_carried_out() {
    let etcd = Etcd::start(1);
    let around = Surroundings { node_timeout: Duration::from_millis(250), ..Surroundings::default() };
    let node = open(&etcd.url().parse().unwrap(), &around).unwrap();
    node.settle().await;
    etcd.pause(0);
    let nodes = [node.clone()];
    let one = quorlock_core::NodeSet::first(1);
    for number in 0..200 {
        crate::round::send_and_forget(
            &nodes,
            one,
            acquire("a", number, 1000 + u64::from(number), TTL, false),
        );
    }
    until("all have failed", Duration::from_secs(20), async || node.health().queued == 0).await;
    etcd.resume(0);
    // But for those that were on their way when it stood still.
    until("it answers", Duration::from_secs(20), async || inspect(&node, "a").await.contains("counter"))
        .await;
    let seen = inspect(&node, "a").await;
    assert!(!seen.contains("counter 1199"), "{seen}");
}

#[tokio::test]
async fn a_release_that_failed_is_made_up_for_when_the_cluster_is_back() {
    let mut etcd = Etcd::start(1);
    let node = node(&etcd.url());
    assert_eq!(ask(&node, &acquire("a", 1, 5, 6 * TTL, false)).await, "raised");
    etcd.kill(0);
    let failed = ask(&node, &release("a", 1)).await;
    assert!(failed.starts_with("failed"), "{failed}");
    assert!(node.health().trouble.is_some());
    etcd.restart(0);
    until("it is free", Duration::from_secs(20), async || inspect(&node, "a").await == "free, counter 5")
        .await;
}

/// What one member says of a lease is not to be relied on, so an extension never does without a new one.
#[tokio::test]
async fn every_extension_is_a_new_lease_and_takes_the_counter_along() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    store.execute(&acquire("a", 1, 5, TTL, false)).await.unwrap();
    let entry = async |key: &[u8]| store.api.read(key).await.unwrap().unwrap();
    let (lock, counter) = (store.lock_key(&name("a")), b"quorlock/fence/a");
    let (first, weekly) = (entry(&lock).await.lease, entry(counter).await.lease);
    // As it was weeks ago.
    let old = json::Txn::default().then(json::put(counter, &entry(counter).await.value, 0));
    store.api.execute(&old).await.unwrap();
    for ttl in [TTL / 2, TTL] {
        let before = entry(&lock).await.lease;
        store.execute(&extend("a", 1, ttl, false)).await.unwrap();
        assert_ne!(entry(&lock).await.lease, before);
    }
    assert_eq!(entry(counter).await.lease, weekly);
    assert_ne!(entry(&lock).await.lease, first);
    assert_eq!(entry(counter).await.value, b"0000000000000005");
}

#[tokio::test]
async fn who_is_refused_writes_nothing() {
    let etcd = Etcd::start(1);
    let node = node(&etcd.url());
    ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    // All that members must agree on, also what changes nothing in the end.
    let agreed = || etcd.post("/v3/maintenance/status", "{}")["raftIndex"].clone();
    let before = agreed();
    for token in 2..12 {
        assert_eq!(ask(&node, &acquire("a", token, 6, TTL, false)).await, "taken");
        assert_eq!(ask(&node, &release("a", token)).await, "taken", "as it is undone");
    }
    assert_eq!(agreed(), before);
}

#[tokio::test]
async fn a_release_is_done_only_if_the_lock_was_there() {
    let etcd = Etcd::start(1);
    let store = store(&etcd.url());
    store.execute(&acquire("a", 2, 5, TTL, false)).await.unwrap();
    // The lease of an attempt that came to nothing.
    let lease = store.lease(&name("a"), &token(1));
    store.api.grant(lease, TTL).await.unwrap();
    let reply = store.execute(&release("a", 1)).await.unwrap();
    assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{reply:?}");
    assert!(!store.api.revoke(lease).await.unwrap(), "it was ended");
}

#[tokio::test]
async fn a_member_that_answers_nonsense_is_left_for_another() {
    let etcd = Etcd::start(1);
    let proxy = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = proxy.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = proxy.accept().await {
            let nonsense =
                b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno";
            let mut heard = [0; 4096];
            let _ = stream.read(&mut heard).await;
            let _ = stream.write_all(nonsense).await;
        }
    });
    let node = node(&etcd.url().replace("etcd://", &format!("etcd://127.0.0.1:{port},")));
    let first = ask(&node, &acquire("a", 1, 5, TTL, false)).await;
    assert!(first.contains("503") && first.contains("JSON gateway"), "{first}");
    assert_eq!(ask(&node, &acquire("a", 1, 5, TTL, false)).await, "raised");
}

#[tokio::test]
async fn a_watch_leaves_a_member_that_stands_still() {
    let etcd = Etcd::start(3);
    // Its first member is the one that is watched; one that leads would cost an election.
    let still = (etcd.leader() + 1) % 3;
    let around = Surroundings { node_timeout: Duration::from_millis(500), ..Surroundings::default() };
    let hosts = etcd.url().trim_start_matches("etcd://").split(',').map(str::to_owned).collect::<Vec<_>>();
    let url = format!("etcd://{},{}", hosts[still], hosts[(still + 1) % 3]);
    let node = open(&url.parse().unwrap(), &around).unwrap();
    let bell = Bell::new();
    assert_eq!(ask(&node, &acquire("a", 1, 5, 6 * TTL, false)).await, "raised");
    node.watch(&name("a"), &bell);
    inspect(&node, "a").await;
    etcd.pause(still);
    until("another member answers", Duration::from_secs(20), async || {
        inspect(&node, "a").await.starts_with("ann1")
    })
    .await;
    // The ring of the watch that was begun anew.
    tokio::time::timeout(Duration::from_secs(20), bell.heard()).await.expect("it may have missed something");
    assert_eq!(ask(&node, &release("a", 1)).await, "done");
    tokio::time::timeout(Duration::from_secs(20), bell.heard()).await.expect("a release rings");
    etcd.resume(still);
}

#[tokio::test]
async fn a_watch_that_could_not_begin_is_begun_later() {
    let mut etcd = Etcd::start(1);
    let node = node(&etcd.url());
    let bell = Bell::new();
    ask(&node, &acquire("a", 1, 5, 6 * TTL, false)).await;
    etcd.kill(0);
    node.watch(&name("a"), &bell);
    let failed = inspect(&node, "a").await;
    assert!(failed.starts_with("failed"), "{failed}");
    etcd.restart(0);
    let soon = Duration::from_secs(20);
    tokio::time::timeout(soon, bell.heard()).await.expect("it may have missed something");
    assert_eq!(ask(&node, &release("a", 1)).await, "done");
    tokio::time::timeout(soon, bell.heard()).await.expect("a release rings");
}

/// Another process takes the lock away while its holder extends it.
#[tokio::test]
async fn an_extension_brings_nothing_back_that_was_released() {
    let etcd = Etcd::start(1);
    let (holder, other) = (store(&etcd.url()), store(&etcd.url()));
    let lock = holder.lock_key(&name("a"));
    for round in 0..60 {
        holder.execute(&acquire("a", round, 5 + u64::from(round), TTL, false)).await.unwrap();
        let (extension, taken) = (extend("a", round, TTL, false), release("a", round));
        let (_, released) = tokio::join!(holder.execute(&extension), async {
            tokio::time::sleep(Duration::from_micros(100 * u64::from(round))).await;
            other.execute(&taken).await.unwrap()
        });
        assert!(matches!(released, Reply::Done(_)), "{released:?}");
        assert_eq!(holder.api.read(&lock).await.unwrap(), None, "in round {round}");
    }
}
