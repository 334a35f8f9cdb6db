//! Servers and values that are no part of the lock.

use crate::setting::{SOON, causes, fresh};
use quorlock::node::NodeError;
use quorlock::{AcquireError, Event, Holder, Locker, ReleaseOutcome};
use quorlock_testkit::{Fsync, Server, Servers, until};
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn foreign_values_and_types_are_held_by_someone_else_and_never_deleted() {
    let servers = Servers::start(3);
    let locker = fresh(&servers).await;
    for server in servers.iter() {
        server.cli(&["SET", "text", "somebody else's"]);
        server.cli(&["RPUSH", "list", "x"]);
        server.cli(&["SET", "short", "t", "PX", "600000"]);
    }
    for name in ["text", "list", "short"] {
        let refused = locker.named(name).unwrap().try_acquire().await.unwrap_err();
        assert!(
            matches!(refused, AcquireError::Held { holder: Holder::Foreign(_), .. }),
            "{name}: {refused}"
        );
        assert!(matches!(
            locker.named(name).unwrap().force_release("0".repeat(32).parse().unwrap()).await,
            ReleaseOutcome::AlreadyGone
        ));
        for server in servers.iter() {
            assert_eq!(server.cli(&["EXISTS", name]), "1", "{name} was deleted");
        }
    }
}

#[tokio::test]
async fn one_server_under_two_addresses_votes_once() {
    let server = Server::start();
    let urls = [server.url(), format!("redis://localhost:{}", server.port()), server.unix_url()];
    let locker = Locker::builder().nodes(urls).build().unwrap();
    locker.init_fresh_nodes().await;
    let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
    let same = |cause: &NodeError| matches!(cause, NodeError::SameServer { .. });
    assert_eq!(causes(refused).iter().filter(|cause| same(cause)).count(), 2);
}

#[tokio::test]
async fn servers_that_would_lose_locks_are_refused_with_what_to_do() {
    let primary = Server::start();
    let replica = Server::builder().replica_of(primary.port()).start();
    let cluster = Server::builder().cluster().start();
    let evicting = Server::builder().maxmemory("100mb", "allkeys-lru").start();
    let urls = [replica.url(), cluster.url(), evicting.url()];
    let locker = Locker::builder().nodes(urls.clone()).build().unwrap();
    let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
    let text = refused.to_string();
    for words in ["it is a replica", "it is a cluster node", "set `maxmemory-policy noeviction`"] {
        assert!(text.contains(words), "{text}");
    }
    let allowed = Locker::builder().nodes([evicting.url()]).allow_eviction(true).build().unwrap();
    drop(allowed.named("a").unwrap().try_acquire().await.unwrap());
}

/// Goal: a failover of a primary with replicas loses locks, so the client reports such a primary.
#[tokio::test]
async fn a_primary_with_replicas_is_told_of_and_is_not_durable() {
    let primary = Server::builder().aof(Fsync::Always).start();
    let events = Arc::new(Mutex::new(Vec::new()));
    let diary = events.clone();
    let told = move |event: &Event| diary.lock().unwrap().push(event.clone());
    let locker = |durable: bool| {
        let builder = Locker::builder().nodes([primary.url()]).durable(durable).observer(told.clone());
        builder.build().unwrap()
    };
    let (plain, durable) = (locker(false), locker(true));
    drop(durable.named("a").unwrap().try_acquire().await.unwrap());
    let replica = Server::builder().replica_of(primary.port()).start();
    let followed = || primary.cli(&["INFO", "replication"]).contains("state=online");
    until("it is followed", SOON, async || followed()).await;

    drop(plain.named("a").unwrap().try_acquire().await.unwrap());
    let warned = |event: &Event| matches!(event, Event::NodeReplicated { replicas: 1, .. });
    assert_eq!(events.lock().unwrap().iter().filter(|event| warned(event)).count(), 1);

    let refused = locker(true).named("b").unwrap().try_acquire().await.unwrap_err();
    assert!(refused.to_string().contains("replica"), "{refused}");
    assert!(matches!(causes(refused)[..], [NodeError::Replicated { replicas: 1 }]));
    // One that was connected before finds out while it is in use.
    until("it is refused", SOON, async || durable.named("c").unwrap().try_acquire().await.is_err()).await;
    drop(replica);
}

#[tokio::test]
async fn a_wrong_password_is_told_apart_from_a_dead_server() {
    let server = Server::builder().password("right").start();
    for url in [
        format!("redis://127.0.0.1:{}", server.port()),
        format!("redis://:wrong@127.0.0.1:{}", server.port()),
    ] {
        let locker = Locker::builder().nodes([url]).build().unwrap();
        let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
        assert!(!refused.to_string().contains("wrong@"), "{refused}");
        assert!(matches!(causes(refused)[..], [NodeError::NoAuth { .. }]));
    }
}
