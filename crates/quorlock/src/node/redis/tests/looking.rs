//! How a connected server is looked at: whether it can still be a node, and whether it still answers.

use super::*;
use crate::node::redis::watch::Watch;
use crate::node::{Bell, Done};

fn at(seconds: u64) -> Moment {
    Moment::from_boot(Duration::from_secs(seconds))
}

/// Goal: a server that begins to evict, or follows another, under our eyes is given up by the next commands.
#[tokio::test]
async fn a_server_that_can_no_longer_be_a_node_is_given_up() {
    for (change, kind) in
        [("CONFIG SET maxmemory-policy allkeys-lru", "evicts"), ("REPLICAOF 127.0.0.1 1", "replica")]
    {
        let server = Server::start(&[]);
        let clock = Arc::new(Ahead::default());
        let node = connect(&server.url(), Surroundings { clock: clock.clone(), ..calm() });
        assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
        server.run_command(change);
        // The next command makes the node look, because its last look was long ago.
        clock.set(60);
        ask(&node, inspect("a")).await;
        until("it is given up", || node.health().trouble.is_some_and(|cause| cause.kind() == kind)).await;
    }
}

/// Goal: a waiter that hears nothing for long keeps its connection, and other clients go on to know that it waits.
#[tokio::test]
async fn an_idle_connection_that_watches_is_kept_and_says_again_that_it_waits() {
    let server = Server::start(&[]);
    let clock = Arc::new(Ahead::default());
    let node = connect(&server.url(), Surroundings { clock: clock.clone(), ..calm() });
    node.settle().await;
    node.watch(&name("a"), &Bell::new());
    until("it waits openly", || server.text("EXISTS quorlock:waiting").as_deref() == Some("1")).await;
    until("all is answered", || node.health().queued == 0).await;
    let number = || {
        let clients = server.text("CLIENT LIST").unwrap();
        let ours = clients.lines().find(|client| client.contains(" name=quorlock ")).unwrap();
        ours.split(' ').next().unwrap().to_owned()
    };
    let before = number();
    server.run_command("DEL quorlock:waiting");
    clock.set(600);
    until("it says so again", || server.text("EXISTS quorlock:waiting").as_deref() == Some("1")).await;
    assert_eq!(number(), before, "another connection");
}

#[test]
fn a_server_was_heard_when_it_last_answered() {
    let mut watch = Watch::new(at(10));
    watch.probe = Some((3, at(12)));
    watch.answered(2, at(13));
    assert_eq!((watch.heard, watch.round_trip), (at(13), None));
    watch.answered(3, at(14));
    assert_eq!((watch.heard, watch.round_trip), (at(14), Some(Duration::from_secs(2))));
    assert!(watch.probe.is_none(), "the next command is timed anew");
}
