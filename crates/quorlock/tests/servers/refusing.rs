//! Servers and values that are no part of the lock.

use crate::setting::{causes, fresh};
use quorlock::node::NodeError;
use quorlock::{AcquireError, Holder, Locker, Release};
use quorlock_testkit::{Server, Servers};

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
            Release::AlreadyGone
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
