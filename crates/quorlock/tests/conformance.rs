//! One suite for every kind of node: what a lock promises does not depend on who votes.
#![allow(clippy::unwrap_used)]

mod suite;

use quorlock::Locker;
use quorlock::node::Facts;
#[cfg(feature = "consul")]
use quorlock_testkit::Consul;
#[cfg(feature = "zookeeper")]
use quorlock_testkit::ZooKeeper;
use quorlock_testkit::{Binary, Server, Servers};
#[cfg(feature = "etcd")]
use quorlock_testkit::{Etcd, EtcdVersion};
#[cfg(feature = "postgres")]
use quorlock_testkit::{PgBouncer, Postgres};
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

/// Goal: the least rights that the manual names are enough for every kind of lock, and an examination finds
/// nothing missing.
#[tokio::test]
async fn redis_with_the_rights_of_the_manual_conforms() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let line = manual.lines().find(|line| line.starts_with("user quorlock ")).unwrap();
    let servers = Servers::start_like(&Server::builder().acl(&line.replace("PASSWORD", "s3cret")), 3);
    let url = |server: &Server| format!("redis://quorlock:s3cret@127.0.0.1:{}", server.port());
    let urls: Vec<String> = servers.iter().map(url).collect();
    let locker = Locker::builder().nodes(urls.clone()).build().unwrap();
    for examination in locker.examine().await {
        let Ok(Facts::Server(facts)) = examination.found else { panic!("{examination:?}") };
        assert!(facts.denied.is_empty(), "{:?}", facts.denied);
    }
    on(urls).await;
    for server in servers.iter() {
        assert_eq!(server.cli(&["ACL", "LOG"]).trim(), "", "the server denied nothing");
    }
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

#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn a_zookeeper_server_alone_conforms() {
    if ZooKeeper::is_here() {
        let ensemble = ZooKeeper::start(1);
        on(vec![ensemble.url()]).await;
    }
}

#[cfg(feature = "zookeeper")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zookeeper_ensemble_conforms() {
    if ZooKeeper::is_here() {
        let ensemble = ZooKeeper::start(3);
        on(vec![ensemble.url()]).await;
    }
}

#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn zookeeper_over_tls_with_certificates_conforms() {
    if ZooKeeper::is_here() {
        let ensemble = ZooKeeper::start_with_tls(1);
        on(vec![ensemble.url()]).await;
    }
}

#[cfg(feature = "zookeeper")]
#[tokio::test]
async fn zookeeper_with_a_user_and_a_prefix_conforms() {
    if ZooKeeper::is_here() {
        let ensemble = ZooKeeper::start(1);
        on(vec![format!("zk://locker:s3cr%25t@{}/teams/blue", ensemble.hosts())]).await;
    }
}

#[cfg(feature = "consul")]
#[tokio::test]
async fn a_consul_server_alone_conforms() {
    if Consul::is_here() {
        let consul = Consul::start(1);
        on(vec![consul.url()]).await;
    }
}

#[cfg(feature = "consul")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consul_cluster_conforms() {
    if Consul::is_here() {
        let consul = Consul::start(3);
        on(vec![consul.url()]).await;
    }
}

#[cfg(feature = "consul")]
#[tokio::test]
async fn consul_over_tls_conforms() {
    if Consul::is_here() {
        let consul = Consul::start_with_tls(1);
        on(vec![consul.url()]).await;
    }
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_database_conforms() {
    if !Postgres::is_here() {
        return eprintln!("skipped: no PostgreSQL here: apt-get install postgresql");
    }
    let server = Postgres::start();
    on(vec![server.url()]).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgres_database_behind_pgbouncer_conforms() {
    if !PgBouncer::is_here() {
        return eprintln!("skipped: no PgBouncer here: apt-get install pgbouncer postgresql");
    }
    let server = Postgres::start();
    let bouncer = PgBouncer::start(&server, "transaction");
    on(vec![server.url_at(bouncer.port())]).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn postgres_over_a_unix_socket_conforms() {
    if !Postgres::is_here() {
        return eprintln!("skipped: no PostgreSQL here: apt-get install postgresql");
    }
    let server = Postgres::start();
    on(vec![server.unix_url()]).await;
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_releases_of_etcd_conform() {
    for version in [EtcdVersion::V3_5, EtcdVersion::V3_6] {
        if version.is_here() {
            let etcd = Etcd::start_version(version, 1);
            on(vec![etcd.url()]).await;
        } else {
            eprintln!("skipped: no etcd {version:?} here: scripts/setup-tests builds it");
        }
    }
}
