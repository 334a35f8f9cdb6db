//! The ZooKeeper node on real ensembles.

use super::client::call::CallError;
use super::client::operation::Refusal;
use super::*;
use crate::node::contract::{
    Losers, TTL, Unraised, acquire, ask, contract_without_time, extend, inspect, name, release,
};
use crate::node::contract_modes::{downgrade, share, upgrade};
use crate::node::url::Place;
use crate::node::{Denied, Done, Node, NodeUrl};
use quorlock_testkit::{ZooKeeper, until};
use std::time::{Duration, Instant};

/// How long a loaded machine may take for something that takes a moment.
const SOON: Duration = Duration::from_secs(60);

/// A node with `node_timeout` to answer.
fn node_within(url: &str, node_timeout: Duration) -> Arc<dyn Node> {
    crate::node::open(&url.parse().unwrap(), &Context { node_timeout, ..Context::default() }).unwrap()
}

fn store_of(url: &str) -> Store {
    let Place::Cluster(cluster) = url.parse::<NodeUrl>().unwrap().place else { panic!("{url}") };
    let limit = Duration::from_secs(20);
    let limits = Limits { caller: limit, request: limit, longest_ttl: Duration::from_secs(30) };
    store(&cluster, &Context { connect_timeout: limit, ..Context::default() }, limits).unwrap()
}

/// The reply in short.
async fn tried(store: &Store, command: &Command) -> &'static str {
    match store.execute(command).await {
        Ok(Reply::Done(Done::Raised)) => "raised",
        Ok(Reply::Done(_)) => "done",
        Ok(Reply::Denied(Denied::Taken)) => "taken",
        Ok(Reply::Denied(Denied::Gone)) => "gone",
        Ok(Reply::Failed(_)) | Err(_) => "failed",
    }
}

#[tokio::test]
async fn the_zookeeper_node_keeps_the_contract() {
    if !ZooKeeper::is_here() {
        return;
    }
    let ensemble = ZooKeeper::start(1);
    // It sends many commands at once, none of which may be given up.
    let node = node_within(&ensemble.url(), SOON);
    contract_without_time(&node, Losers::LeaveIt, Unraised::WithCounter).await;
}

/// Goal: S8. The answer to an acquire was not waited for, and it comes to the ensemble after its release.
#[tokio::test]
async fn an_undo_ends_what_is_still_on_its_way() {
    if !ZooKeeper::is_here() {
        return;
    }
    let ensemble = ZooKeeper::start(1);
    let store = store_of(&ensemble.url());
    let path = store.paths.of(&name("a"));
    let late = async |version: Option<i32>| {
        let deadline = store.client.deadline();
        let data = b"quorlock 1\nhold exclusive 10000 - t 1 ann";
        match version {
            None => store.client.create(&path, data, deadline).await,
            Some(version) => store.client.write(&path, data, version, deadline).await,
        }
    };
    let version = async || store.load(&path, store.client.deadline()).await.unwrap().version;
    // The first acquire of the name would have created it.
    assert_eq!(version().await, None);
    assert!(matches!(store.undo(&release("a", 1)).await, Ok(Reply::Denied(Denied::Gone))));
    assert!(matches!(late(None).await, Err(CallError::Refused(Refusal::NODE_EXISTS))));
    // A later one would have written it.
    let before = version().await;
    assert!(matches!(store.undo(&release("a", 1)).await, Ok(Reply::Denied(Denied::Gone))));
    assert!(matches!(late(before).await, Err(CallError::Refused(Refusal::BAD_VERSION))));
    // One that was executed is undone.
    assert_eq!(tried(&store, &acquire("a", 1, 5, TTL, false)).await, "raised");
    assert!(matches!(store.undo(&release("a", 1)).await, Ok(Reply::Done(Done::Plain))));
    // An upgrade whose downgrade finds a hold that is shared still.
    assert_eq!(tried(&store, &share("a", 2, 60)).await, "raised");
    let before = version().await;
    assert_eq!(tried(&store, &downgrade("a", 2, (60, 70))).await, "done");
    assert!(matches!(late(before).await, Err(CallError::Refused(Refusal::BAD_VERSION))));
    assert_eq!(tried(&store, &upgrade("a", 2, 80)).await, "raised");
    // An extension of a hold that was over when it was released.
    assert_eq!(tried(&store, &extend("a", 2, TTL, false)).await, "done");
    assert_eq!(tried(&store, &release("a", 2)).await, "done");
    assert_eq!(tried(&store, &acquire("a", 3, 90, Duration::from_millis(100), false)).await, "raised");
    let before = version().await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(tried(&store, &release("a", 3)).await, "gone");
    assert!(matches!(late(before).await, Err(CallError::Refused(Refusal::BAD_VERSION))));
}

#[tokio::test]
async fn the_lock_of_a_dead_holder_is_free_for_those_who_watched_and_for_those_who_come_later() {
    if !ZooKeeper::is_here() {
        return;
    }
    let ensemble = ZooKeeper::start(1);
    let [holder, watcher, late] = [1, 2, 3].map(|_| store_of(&ensemble.url()));
    let ttl = Duration::from_secs(3);
    let start = Instant::now();
    assert_eq!(tried(&holder, &acquire("a", 1, 5, ttl, false)).await, "raised");
    assert_eq!(tried(&holder, &acquire("b", 1, 5, ttl, false)).await, "raised");
    until("it is free for one that watched it", SOON, async || {
        tried(&watcher, &acquire("a", 2, 6, ttl, false)).await == "raised"
    })
    .await;
    let took = start.elapsed();
    assert!(took >= ttl, "it was taken after {took:?}");
    assert_eq!(tried(&holder, &extend("a", 1, ttl, false)).await, "taken", "the holder finds out");
    tokio::time::sleep(ttl + Duration::from_millis(1_200) - start.elapsed().min(ttl)).await;
    assert_eq!(tried(&late, &acquire("b", 3, 7, ttl, false)).await, "raised", "at first sight");
    // The margin for jumps of the leader's clock counts from the extension.
    assert_eq!(tried(&holder, &acquire("c", 1, 5, ttl, false)).await, "raised");
    assert_eq!(tried(&holder, &extend("c", 1, 10 * ttl, false)).await, "done");
    tokio::time::sleep(ttl + Duration::from_millis(1_200)).await;
    assert_eq!(tried(&late, &acquire("c", 3, 7, ttl, false)).await, "taken");
}

#[tokio::test]
async fn extending_never_shortens_and_never_revives() {
    if !ZooKeeper::is_here() {
        return;
    }
    let ensemble = ZooKeeper::start(1);
    let node = node_within(&ensemble.url(), SOON);
    let other = node_within(&ensemble.url(), SOON);
    ask(&node, &acquire("a", 1, 5, 30 * TTL, false)).await;
    assert_eq!(ask(&node, &extend("a", 1, TTL, false)).await, "done");
    assert_eq!(inspect(&node, "a").await, "ann1@web fence 5 left 300 counter 5");
    assert_eq!(ask(&other, &extend("a", 1, 60 * TTL, false)).await, "done");
    assert_eq!(inspect(&node, "a").await, "ann1@web fence 5 left 600 counter 5");
    ask(&node, &acquire("b", 1, 5, Duration::from_millis(300), false)).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(ask(&other, &extend("b", 1, TTL, false)).await, "gone");
    assert_eq!(ask(&node, &extend("b", 1, TTL, false)).await, "gone");
    assert_eq!(inspect(&other, "b").await, "free, counter 5");
}

#[tokio::test]
async fn idle_names_are_swept_and_a_write_on_what_was_swept_is_refused() {
    if !ZooKeeper::is_here() {
        return;
    }
    let ensemble = ZooKeeper::start(1);
    let store = store_of(&ensemble.url());
    let gpu = name("gpu");
    for command in [acquire("gpu", 1, 5, TTL, false), release("gpu", 1)] {
        tried(&store, &command).await;
    }
    let path = store.paths.of(&gpu);
    let slot = format!("{path}/7");
    store.client.create(&slot, &[], store.client.deadline()).await.unwrap();
    let bucket =
        u64::from_str_radix(&store.paths.directory(&path)[store.paths.locks.len() + 1..], 16).unwrap();
    let day = Duration::from_secs(24 * 3600);
    assert_eq!(store.sweep(bucket, day).await.unwrap(), 0, "it was in use lately");
    // As a client finds it that took it for an old one.
    let mut old = store.load(&path, store.client.deadline()).await.unwrap();
    let directory = store.client.stat(store.paths.directory(&path), store.client.deadline()).await.unwrap();
    old.directory = directory.map(|stat| stat.version);
    store.store(&path, &old.stored, &old, store.client.deadline()).await.unwrap();
    old.version = old.version.map(|version| version + 1);
    tried(&store, &acquire("gpu", 1, 6, TTL, false)).await;
    assert_eq!(store.sweep(bucket, Duration::ZERO).await.unwrap(), 1, "the slot: a client holds the other");
    tried(&store, &release("gpu", 1)).await;
    assert_eq!(store.sweep(bucket, Duration::ZERO).await.unwrap(), 1);
    // The name comes back, and has the version that the other client found.
    let stored = old.stored.encode();
    store.client.create(&path, stored.as_bytes(), store.client.deadline()).await.unwrap();
    for version in 0..old.version.unwrap() {
        store.client.write(&path, stored.as_bytes(), version, store.client.deadline()).await.unwrap();
    }
    let refused = store.store(&path, &old.stored, &old, store.client.deadline()).await;
    assert!(matches!(refused, Err(CallError::Refused(Refusal::BAD_VERSION))), "{refused:?}");
}

#[tokio::test]
async fn what_others_own_or_wrote_is_refused_and_named() {
    if !ZooKeeper::is_here() {
        return;
    }
    let ensemble = ZooKeeper::start(1);
    let owner = store_of(&format!("zk://ann:secret@{}", ensemble.hosts()));
    assert_eq!(tried(&owner, &acquire("a", 1, 5, TTL, false)).await, "raised");
    for url in [ensemble.url(), format!("zk://ann:other@{}", ensemble.hosts())] {
        let refused = store_of(&url).execute(&acquire("a", 2, 6, TTL, false)).await.unwrap_err();
        assert!(matches!(&refused, Failure::Unsent(NodeError::NoPermission { .. })), "{refused:?}");
    }
    let path = owner.paths.of(&name("a"));
    owner.client.write(&path, b"mine", -1, owner.client.deadline()).await.unwrap();
    owner.known.forget(&name("a"));
    let refused = owner.execute(&acquire("a", 2, 6, TTL, false)).await.unwrap_err();
    assert!(matches!(&refused, Failure::Unsent(NodeError::WrongType { .. })), "{refused:?}");
}

#[tokio::test]
async fn an_ensemble_that_lost_everything_is_refused() {
    if !ZooKeeper::is_here() {
        return;
    }
    let mut ensemble = ZooKeeper::start(1);
    let store = store_of(&ensemble.url());
    assert_eq!(tried(&store, &acquire("a", 1, 5, TTL, false)).await, "raised");
    ensemble.restart_empty();
    for _ in 0..3 {
        assert_eq!(tried(&store, &acquire("a", 2, 6, TTL, false)).await, "failed");
        tokio::time::sleep(Duration::from_millis(150)).await;
    }
    // Once another client has written as much, a member would serve us again.
    let fresh = store_of(&ensemble.url());
    for number in 0..20 {
        tried(&fresh, &acquire(&format!("n{number}"), 1, 5, TTL, false)).await;
    }
    let refused = store.execute(&acquire("a", 2, 6, TTL, false)).await.unwrap_err();
    assert!(matches!(&refused, Failure::Unsent(NodeError::OtherCluster { .. })), "{refused:?}");
}
