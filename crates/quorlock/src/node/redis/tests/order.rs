//! What is sent together keeps its order for each name, although releases wait for each other.

use super::*;
use crate::node::redis::protocol::resp::Value;
use crate::node::{Denied, Done, Tie, Wakeup};

/// A server that holds the name "a" for the token 1, and its node.
async fn holding(ctx: Context) -> (Server, Arc<RedisNode>) {
    let server = Server::start(&[]);
    let node = connect(&server.url(), ctx);
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    (server, node)
}

/// Goal: a handover within a process costs one round trip, because the next vote finds the name free.
#[tokio::test]
async fn a_vote_sent_with_the_release_before_it_finds_the_name_free() {
    for ctx in [calm(), guarded()] {
        let (_server, node) = holding(ctx).await;
        let (freed_unconfirmed, taken) =
            tokio::join!(ask(&node, release("a", 1)), ask(&node, vote("a", 2, 8)));
        assert!(matches!(freed_unconfirmed, Reply::Done(_)), "{freed_unconfirmed:?}");
        assert!(matches!(taken, Reply::Done(Done::Raised)), "{taken:?}");
    }
}

/// Goal: an extend or a stamp that was sent after the release does not succeed before it.
#[tokio::test]
async fn a_change_sent_with_the_release_before_it_finds_the_name_gone() {
    let changes = [
        Command::Extend {
            name: name("a"),
            token: token(1),
            ttl: NODE_TIMEOUT,
            tie: Tie::Loose,
            mode: quorlock_core::Mode::Exclusive,
            may_be_shared: false,
        },
        Command::Stamp { name: name("a"), token: token(1), at_least: Fence::new(9) },
    ];
    for change in changes {
        let (_server, node) = holding(calm()).await;
        let (freed_unconfirmed, changed) = tokio::join!(ask(&node, release("a", 1)), ask(&node, change));
        assert!(matches!(freed_unconfirmed, Reply::Done(_)), "{freed_unconfirmed:?}");
        assert!(matches!(changed, Reply::Denied(Denied::Gone)), "{changed:?}");
    }
}

#[tokio::test]
async fn a_call_sent_with_the_release_before_it_comes_after_it() {
    let (_server, node) = holding(calm()).await;
    let (freed_unconfirmed, exists) =
        tokio::join!(ask(&node, release("a", 1)), node.call(&[b"EXISTS", b"a"]));
    assert!(matches!(freed_unconfirmed, Reply::Done(_)), "{freed_unconfirmed:?}");
    assert_eq!(exists.unwrap(), Value::Integer(0));
}

/// Goal: releases in one call are not limited to those that the server knows the script for.
#[tokio::test]
async fn the_first_release_of_a_name_keeps_its_counter_although_the_server_forgot_the_script() {
    let (server, node) = holding(calm()).await;
    server.run_command("SCRIPT FLUSH");
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(_)));
    let left = server.run_command("TTL quorlock:fence:{a}").number().unwrap();
    assert!(left > 600_000, "{left}");
}

/// Goal: a lock without a fence takes one command on the server.
#[tokio::test]
async fn a_vote_without_a_proposal_touches_no_counter() {
    let (server, node) = holding(calm()).await;
    let plain = Command::Acquire(Acquire { proposal: Fence::NONE, ..acquire("b", 1, 7) });
    assert!(matches!(ask(&node, plain).await, Reply::Done(Done::Raised)));
    assert_eq!(server.text("EXISTS quorlock:fence:{b}").unwrap(), "0");
}

#[tokio::test]
async fn without_the_guard_no_vote_reads_the_epoch() {
    let (server, node) = holding(calm()).await;
    assert!(matches!(ask(&node, vote("b", 1, 7)).await, Reply::Done(Done::Raised)));
    let calls = server.text("INFO commandstats").unwrap();
    assert!(!calls.contains("cmdstat_getrange"), "{calls}");
}

/// Goal: unacknowledged releases come before what waits, so that a waiting vote finds the name free.
#[tokio::test]
async fn on_a_new_connection_unacknowledged_releases_come_before_votes_that_waited() {
    let server = Server::start(&[]);
    let relay = crate::node::redis::tests::relay::Relay::start(&server);
    let node = connect(&relay.url(), calm());
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    relay.hold();
    let nodes: Nodes = [node.clone()];
    let mut lost =
        TestRound::send(&nodes, NodeSet::first(1), release("a", 1), NODE_TIMEOUT, WakeThreshold::ONE);
    until("the release is held up", || relay.holds(token(1).as_bytes())).await;
    relay.hang_up();
    assert!(matches!(lost.next().await.unwrap().1, Reply::Failed(_)));
    // The loss is known, so this waits for the next connection.
    let reply = ask(&node, vote("a", 2, 8)).await;
    assert!(matches!(reply, Reply::Done(Done::Raised)), "{reply:?}");
}

#[tokio::test]
async fn a_hint_with_another_text_notifies_all_the_same() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    let wakeup = Wakeup::new();
    node.wait_connected().await;
    node.watch(&name("a"), &wakeup);
    assert!(matches!(ask(&node, vote("b", 1, 7)).await, Reply::Done(Done::Raised)));
    for word in ["free", "", "3"] {
        server.run_command(&format!("PUBLISH quorlock:free:{{a}} {word}"));
        let notified = tokio::time::timeout(NODE_TIMEOUT, wakeup.notified()).await;
        assert!(notified.is_ok(), "{word:?} does not notify");
    }
}

#[tokio::test]
async fn hints_are_not_asked_for_where_the_server_is_down_or_the_queue_is_full() {
    let mut server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    node.wait_connected().await;
    server.signal(rustix::process::Signal::STOP);
    for _ in 0..crate::node::redis::link::state::QUEUE_LIMIT {
        post(&node, &inspect("a"));
    }
    let queued = node.health().queued;
    node.watch(&name("a"), &Wakeup::new());
    assert_eq!(node.health().queued, queued);
    server.signal(rustix::process::Signal::CONT);
    until("all is answered", || node.health().queued == 0).await;
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    node.watch(&name("b"), &Wakeup::new());
    assert_eq!(node.health().queued, 0);
}
