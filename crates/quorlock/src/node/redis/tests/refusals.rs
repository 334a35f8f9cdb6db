//! Servers that cannot be nodes, and users without permission.

use super::*;
use crate::node::Done;
use crate::node::url::NodeUrl;

async fn refusal(url: &str, ctx: Context) -> NodeError {
    cause(ask(&connect(url, ctx), vote("a", 1, 7)).await)
}

#[tokio::test]
async fn a_replica_is_refused() {
    let server = Server::start(&["--replicaof", "127.0.0.1 1"]);
    assert!(matches!(refusal(&server.url(), calm()).await, NodeError::Replica));
}

#[tokio::test]
async fn a_cluster_node_is_refused() {
    // The port of the cluster's own traffic cannot be left to the system.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port().to_string();
    drop(free);
    let server = Server::start(&["--cluster-enabled", "yes", "--cluster-port", &port]);
    assert!(matches!(refusal(&server.url(), calm()).await, NodeError::Cluster));
}

#[tokio::test]
async fn a_server_that_evicts_is_refused_unless_allowed() {
    let server = Server::start(&["--maxmemory-policy", "allkeys-lru"]);
    let error = refusal(&server.url(), calm()).await;
    assert!(matches!(error, NodeError::Evicts { policy } if &*policy == "allkeys-lru"));
    let node = connect(&server.url(), Context { allow_eviction: true, ..calm() });
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
}

#[tokio::test]
async fn a_server_that_is_not_durable_is_not_taken_for_durable() {
    let plain = Server::start(&[]);
    let url = plain.url() + "?durable=yes";
    assert!(matches!(refusal(&url, calm()).await, NodeError::NotDurable { .. }));
    let lazy = Server::start(&["--appendonly", "yes"]);
    let ctx = Context { durable: true, ..calm() };
    let error = refusal(&lazy.url(), ctx).await;
    assert!(matches!(error, NodeError::NotDurable { found } if found.contains("everysec")));
    let always = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    always.run_command("ACL SETUSER bob on >pw ~* &* +@all -config");
    let error = refusal(&(always.url() + "?durable=yes&user=bob&password=pw"), calm()).await;
    assert!(matches!(error, NodeError::NotDurable { found } if found.contains("CONFIG GET")));
}

#[tokio::test]
async fn a_durable_server_that_is_set_to_sync_less_is_given_up() {
    let server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let node = connect(&(server.url() + "?durable=yes"), calm());
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    server.run_command("CONFIG SET appendfsync everysec");
    let end = tokio::time::Instant::now() + NODE_TIMEOUT;
    while !matches!(ask(&node, vote("b", 1, 7)).await, Reply::Failed(cause) if matches!(*cause, NodeError::NotDurable { .. }))
    {
        assert!(tokio::time::Instant::now() < end, "it is still trusted");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn one_server_under_two_addresses_votes_once() {
    let server = Server::start(&[]);
    let link = server.socket().with_file_name("other.sock");
    std::os::unix::fs::symlink(server.socket(), &link).unwrap();
    let ctx = calm();
    let first = connect(&server.url(), ctx.clone());
    assert!(matches!(ask(&first, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    let second = format!("unix://{}", link.display());
    assert!(matches!(refusal(&second, ctx).await, NodeError::SameServer { .. }));
}

#[tokio::test]
async fn passwords_must_be_right_given_and_needed() {
    let open = Server::start(&[]);
    let closed = Server::start(&["--requirepass", "s3cret"]);
    let with = |server: &Server, query: &str| format!("{}?{query}", server.url());
    for url in [closed.url(), with(&closed, "password=wrong"), with(&open, "password=s3cret")] {
        let error = refusal(&url, calm()).await;
        assert!(matches!(error, NodeError::NoAuth { .. }), "{url}: {error}");
    }
    let node = connect(&with(&closed, "password=s3cret"), calm());
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    assert!(!format!("{node:?}{:?}", with(&closed, "password=s3cret").parse::<NodeUrl>()).contains("s3cret"));
}

#[tokio::test]
async fn a_user_with_rights_for_locks_only_can_lock() {
    let server = Server::start(&[]);
    server.run_command("ACL SETUSER bob on >pw ~* &quorlock:* +@all -@admin -config");
    let node = connect(&(server.url() + "?user=bob&password=pw"), guarded());
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    server.run_command("ACL SETUSER eve on >pw ~* +@all -set");
    let eve = connect(&(server.url() + "?user=eve&password=pw"), calm());
    let error = cause(ask(&eve, vote("b", 1, 7)).await);
    assert!(matches!(error, NodeError::NoPermission { .. }), "{error}");
}

#[tokio::test]
async fn a_database_of_its_own_is_used() {
    let server = Server::start(&[]);
    let node = connect(&(server.url() + "?db=3"), calm());
    ask(&node, vote("a", 1, 7)).await;
    assert_eq!(server.text("EXISTS a").unwrap(), "0");
    let error = refusal(&(server.url() + "?db=99"), calm()).await;
    assert!(matches!(error, NodeError::Server { .. }), "{error}");
}

#[tokio::test]
async fn errors_of_the_server_are_reported_and_leave_the_connection_alone() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    node.wait_connected().await;
    server.run_command("CONFIG SET maxmemory 1");
    let error = cause(ask(&node, vote("a", 1, 7)).await);
    assert!(matches!(error, NodeError::OutOfMemory { .. }), "{error}");
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Denied(_)), "no memory is needed to release");
    server.run_command("CONFIG SET maxmemory 0");
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
}

#[tokio::test]
async fn something_that_is_no_server_is_a_protocol_error() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400\r\n\r\n").await;
        }
    });
    assert!(matches!(refusal(&url, calm()).await, NodeError::Protocol { .. }));
}
