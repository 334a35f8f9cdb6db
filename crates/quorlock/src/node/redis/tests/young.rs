//! Votes and repairs while a server's memory is in doubt.

use super::*;
use crate::node::redis::link::state::Phase;
use crate::node::{Denied, Done};

fn repair(lock: &str, by: u8) -> Command {
    Command::Acquire(Acquire { kind: crate::node::AcquireKind::Repair, ..acquire(lock, by, 7) })
}

/// Goal: a vote that is on its way while the node learns that the server has forgotten does not count.
#[tokio::test]
async fn a_vote_under_way_while_the_epoch_is_learnt_to_be_young_does_not_count() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("warm", 1, 7)).await, Reply::Done(Done::Raised)));
    server.run_command("FLUSHALL");
    // In one write: the server begins a new epoch, takes the vote, and returns the new epoch after it.
    let (verified, voted, repaired) =
        tokio::join!(node.verify(), ask(&node, vote("a", 1, 7)), ask(&node, repair("b", 1)));
    verified.unwrap();
    let error = cause(voted);
    assert!(matches!(error, NodeError::Quarantined { .. }), "{error}");
    assert!(matches!(view(&node, "a").await.content, Content::Lock(_)), "it is there, and does not count");
    assert!(
        matches!(repaired, Reply::Done(Done::Raised)),
        "a lock that is held comes back at once: {repaired:?}"
    );
    assert!(matches!(view(&node, "b").await.content, Content::Lock(_)));
}

/// Goal: a repair that does not count leaves the lock alone, which this very server may hold under the
/// same token.
#[tokio::test]
async fn a_repair_that_does_not_count_is_not_undone() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    server.run_command("DEL quorlock:epoch");
    assert!(matches!(ask(&node, repair("a", 1)).await, Reply::Denied(Denied::Taken)));
    until("the epoch is begun anew", || matches!(node.health().trouble, Some(NodeError::Quarantined { .. })))
        .await;
    assert!(matches!(view(&node, "a").await.content, Content::Lock(stored) if stored.token == token(1)));
}

/// A server that remembers, and holds the name "a" for the token 1.
fn holding() -> Server {
    let server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    server.run_command(&format!("SET a {}", token(1)));
    server
}

/// Starts the server and waits until the release of "a" has come.
async fn comes_back(mut server: Server) {
    server.run();
    assert_eq!(server.text("EXISTS quorlock:epoch a").unwrap(), "1", "the server remembers");
    until("the release is sent", || server.text("EXISTS a").as_deref() == Some("0")).await;
}

/// Goal: the release of a lock that is held is kept, although a repair of it was not sent.
#[tokio::test]
async fn a_release_is_kept_after_a_repair_that_found_the_server_down() {
    let mut server = holding();
    let node = connect(&server.url(), calm());
    node.wait_connected().await;
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    assert!(matches!(ask(&node, repair("a", 1)).await, Reply::Failed(_)));
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Failed(_)));
    comes_back(server).await;
}

#[tokio::test]
async fn a_release_is_kept_after_a_repair_that_never_got_a_connection() {
    let mut server = holding();
    server.kill();
    let node = connect(&server.url(), calm());
    assert!(matches!(ask(&node, repair("a", 1)).await, Reply::Failed(_)));
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Failed(_)));
    comes_back(server).await;
}

/// Goal: undoes of acquires that were never sent do not push out releases that matter.
#[tokio::test]
async fn the_undo_of_an_acquire_that_was_never_sent_is_not_kept() {
    let mut server = holding();
    let node = connect(&server.url(), calm());
    node.wait_connected().await;
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Failed(_)));
    post(&node, &release("a", 1));
    assert!(!node.link.lock().work(&node.link.ctx).has_unacked);
    server.run();
    until("the node is back", || node.health().trouble.is_none()).await;
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Denied(Denied::Taken)));
    // From now on everything is sent, and what is not acknowledged is kept.
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(_)));
    assert!(matches!(ask(&node, vote("a", 1, 8)).await, Reply::Done(Done::Raised)));
    server.kill();
    until("the node is down again", || node.health().trouble.is_some()).await;
    post(&node, &release("a", 1));
    comes_back(server).await;
}

#[tokio::test]
async fn the_undo_of_an_acquire_that_never_got_a_connection_is_not_kept() {
    let mut server = holding();
    server.kill();
    let node = connect(&server.url(), calm());
    assert!(matches!(ask(&node, vote("b", 2, 7)).await, Reply::Failed(_)));
    post(&node, &release("b", 2));
    assert!(!node.link.lock().work(&node.link.ctx).has_unacked);
}

#[tokio::test]
async fn a_release_that_never_got_a_connection_is_kept() {
    let mut server = holding();
    server.kill();
    let node = connect(&server.url(), calm());
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Failed(_)));
    comes_back(server).await;
}

/// Goal: a vote whose epoch cannot be read does not count, whatever the reason.
#[tokio::test]
async fn a_vote_behind_which_the_epoch_cannot_be_read_does_not_count() {
    let server = Server::start(&[]);
    server.run_command("ACL SETUSER bob on >pw ~* &* +@all");
    let node = connect(&(server.url() + "?user=bob&password=pw"), guarded());
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("warm", 1, 7)).await, Reply::Done(Done::Raised)));
    server.run_command("ACL SETUSER bob -getrange");
    let error = cause(ask(&node, vote("a", 1, 7)).await);
    assert!(matches!(error, NodeError::NoPermission { .. }), "{error}");
    until("the vote is undone", || server.text("EXISTS a").as_deref() == Some("0")).await;
}

/// Goal: the epoch of a server that cannot be verified any more is read until it can.
#[tokio::test]
async fn an_epoch_that_cannot_be_verified_begins_a_new_connection() {
    let server = Server::start(&[]);
    server.run_command("ACL SETUSER bob on >pw ~* &* +@all");
    let node = connect(&(server.url() + "?user=bob&password=pw"), guarded());
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("warm", 1, 7)).await, Reply::Done(Done::Raised)));
    server.run_command("ACL SETUSER bob -time");
    server.run_command("DEL quorlock:epoch");
    assert!(matches!(cause(ask(&node, vote("a", 1, 7)).await), NodeError::EpochChanged));
    until("the node is down", || matches!(node.link.lock().phase, Phase::Down(_))).await;
    server.run_command("ACL SETUSER bob +time");
    until("the epoch is known", || matches!(node.health().trouble, Some(NodeError::Quarantined { .. })))
        .await;
}

/// Goal: many clients that are refused by a server in quarantine do not keep it busy with readings of its
/// epoch.
#[tokio::test]
async fn a_server_in_quarantine_is_asked_for_its_epoch_once_a_second() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.wait_connected().await;
    server.run_command("CONFIG RESETSTAT");
    let start = std::time::Instant::now();
    for _ in 0..200 {
        assert!(matches!(cause(ask(&node, vote("a", 1, 7)).await), NodeError::Quarantined { .. }));
    }
    // Answered after all before it.
    view(&node, "a").await;
    let calls = server.text("INFO commandstats").unwrap();
    let line = calls.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls=")).unwrap();
    let readings: u64 = line.split(',').next().unwrap().parse().unwrap();
    assert!(readings <= 1 + start.elapsed().as_secs(), "{readings} times");
}

/// Goal: the expiry of counters that a server forgot, and counts anew, is set again.
#[tokio::test]
async fn counters_are_kept_again_after_the_server_forgot_them() {
    let mut server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    let cycle = async |proposal| {
        assert!(matches!(ask(&node, vote("a", 1, proposal)).await, Reply::Done(Done::Raised)));
        assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(_)));
    };
    let left = |server: &Server| server.text("TTL quorlock:fence:{a}").unwrap().parse::<i64>().unwrap();
    cycle(7).await;
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    server.run();
    until("the node is back", || node.health().trouble.is_none()).await;
    cycle(8).await;
    assert!(left(&server) > 600_000, "after a restart");
}

#[tokio::test]
async fn counters_are_kept_again_after_a_flush_on_the_same_connection() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    for _ in 0..2 {
        node.init().await.unwrap();
        assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
        assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(_)));
        let left = server.text("TTL quorlock:fence:{a}").unwrap().parse::<i64>().unwrap();
        assert!(left > 600_000, "{left}");
        server.run_command("FLUSHALL");
    }
}

/// Goal: a program that ends while a server is away does not leave its lock there, if the server is back
/// in time.
#[tokio::test]
async fn a_dropped_node_sends_what_it_owes_when_the_server_is_back() {
    let mut server = holding();
    let node = connect(&server.url(), calm());
    node.wait_connected().await;
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    post(&node, &release("a", 1));
    drop(node);
    comes_back(server).await;
}

#[tokio::test]
async fn a_dropped_node_sends_a_release_again_that_the_server_refused() {
    let server = holding();
    server.run_command("ACL SETUSER bob on >pw ~* &* +@all -del");
    let node = connect(&(server.url() + "?user=bob&password=pw"), calm());
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Failed(_)));
    drop(node);
    tokio::task::yield_now().await;
    server.run_command("ACL SETUSER bob +del");
    until("the release is sent again", || server.text("EXISTS a").as_deref() == Some("0")).await;
}

#[tokio::test]
async fn a_dropped_node_waits_for_answers_and_sends_scripts_that_the_server_forgot() {
    let server = holding();
    let node = connect(&server.url(), calm());
    node.wait_connected().await;
    server.run_command("SCRIPT FLUSH");
    post(&node, &release("a", 1));
    drop(node);
    until("the release is sent again", || server.text("EXISTS a").as_deref() == Some("0")).await;
}
