//! One suite for every kind of node: what a lock promises does not depend on who votes.
#![allow(clippy::unwrap_used)]

mod suite;

use quorlock::Locker;
#[cfg(feature = "etcd")]
use quorlock_testkit::Etcd;
use quorlock_testkit::{Binary, Server, Servers};
use suite::conforms;

/// Nodes whose servers were just started are fresh: let them vote at once.
async fn on(urls: Vec<String>) {
    let builder = || Locker::builder().nodes(urls.clone());
    quorlock_testkit::init_nodes(&builder().build().unwrap()).await;
    conforms(builder).await;
}

#[tokio::test]
async fn one_memory_node_conforms() {
    on(vec!["memory:conformance".to_owned()]).await;
}

#[tokio::test]
async fn five_memory_nodes_conform() {
    on((1..=5).map(|number| format!("memory:conformance-{number}")).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_file_node_conforms() {
    let dir = tempfile::tempdir().unwrap();
    on(vec![format!("file:{}", dir.path().display())]).await;
}

#[tokio::test]
async fn one_redis_server_conforms() {
    on(Servers::start(1).urls()).await;
}

#[tokio::test]
async fn three_redis_servers_conform() {
    let servers = Servers::start(3);
    on(servers.urls()).await;
}

#[tokio::test]
async fn five_redis_servers_conform() {
    let servers = Servers::start(5);
    on(servers.urls()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_redis_servers_conform_on_a_runtime_with_several_threads() {
    let servers = Servers::start(5);
    on(servers.urls()).await;
}

#[tokio::test]
async fn valkey_servers_conform() {
    if !Binary::Valkey.is_here() {
        return eprintln!("skipped: no valkey-server here");
    }
    let servers = Servers::start_like(&Server::builder().binary(Binary::Valkey), 3);
    let urls = servers.urls().iter().map(|url| url.replace("redis://", "valkey://")).collect();
    on(urls).await;
}

#[tokio::test]
async fn redis_over_tls_conforms() {
    let servers = Servers::start_like(&Server::builder().tls(), 3);
    on(servers.iter().map(Server::tls_url).collect()).await;
}

#[tokio::test]
async fn redis_over_unix_sockets_conforms() {
    let servers = Servers::start(3);
    on(servers.iter().map(Server::unix_url).collect()).await;
}

#[tokio::test]
async fn redis_with_a_user_a_password_and_a_database_conforms() {
    let acl = "user locker on >s3cr%t ~* &quorlock:* +@all -@dangerous +info +config|get";
    let servers = Servers::start_like(&Server::builder().password("root").acl(acl), 3);
    let url = |server: &Server| format!("redis://locker:s3cr%25t@127.0.0.1:{}/3", server.port());
    on(servers.iter().map(url).collect()).await;
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn an_etcd_member_alone_conforms() {
    let etcd = Etcd::start(1);
    on(vec![etcd.url()]).await;
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_cluster_conforms() {
    let etcd = Etcd::start(3);
    on(vec![etcd.url()]).await;
}

#[cfg(feature = "etcd")]
#[tokio::test]
async fn etcd_over_tls_conforms() {
    let etcd = Etcd::start_with_tls(1);
    on(vec![etcd.url()]).await;
}
