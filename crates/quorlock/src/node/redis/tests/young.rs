//! Votes and refills while a server's memory is in doubt.

use super::*;
use crate::node::{Denied, Done};

fn refill(lock: &str, by: u8) -> Command {
    Command::Acquire(Acquire { top_up: true, ..acquire(lock, by, 7) })
}

/// Goal: a vote that is on its way while the node learns that the server has forgotten does not count.
#[tokio::test]
async fn a_vote_under_way_while_the_epoch_is_learnt_to_be_young_does_not_count() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("warm", 1, 7)).await, Reply::Done(Done::Raised)));
    server.run_command("FLUSHALL");
    // In one write: the server begins a new epoch, takes the vote, and tells the new epoch behind it.
    let (verified, voted, refilled) =
        tokio::join!(node.verify(), ask(&node, vote("a", 1, 7)), ask(&node, refill("b", 1)));
    verified.unwrap();
    let error = cause(voted);
    assert!(matches!(error, NodeError::Quarantined { .. }), "{error}");
    assert_eq!(view(&node, "a").await.content, Content::Free, "it is undone");
    assert!(
        matches!(refilled, Reply::Done(Done::Raised)),
        "a lock that is held comes back at once: {refilled:?}"
    );
    assert!(matches!(view(&node, "b").await.content, Content::Lock(_)));
}

/// Goal: a refill that does not count leaves the lock alone, which this very server may hold under the same token.
#[tokio::test]
async fn a_refill_that_does_not_count_is_not_undone() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    server.run_command("DEL quorlock:epoch");
    let error = cause(ask(&node, refill("a", 1)).await);
    assert!(matches!(error, NodeError::EpochChanged), "{error}");
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

/// Goal: the release of a lock that is held is owed, although a refill of it was not sent.
#[tokio::test]
async fn a_release_is_owed_after_a_refill_that_found_the_server_down() {
    let mut server = holding();
    let node = connect(&server.url(), calm());
    node.settle().await;
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    assert!(matches!(ask(&node, refill("a", 1)).await, Reply::Failed(_)));
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Failed(_)));
    comes_back(server).await;
}

#[tokio::test]
async fn a_release_is_owed_after_a_refill_that_waited_for_a_connection_in_vain() {
    let mut server = holding();
    server.kill();
    let node = connect(&server.url(), calm());
    assert!(matches!(ask(&node, refill("a", 1)).await, Reply::Failed(_)));
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Failed(_)));
    comes_back(server).await;
}

/// Goal: undoes of acquires that were never sent do not push out releases that matter.
#[tokio::test]
async fn the_undo_of_an_acquire_that_was_never_sent_is_not_owed() {
    let mut server = holding();
    let node = connect(&server.url(), calm());
    node.settle().await;
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Failed(_)));
    post(&node, &release("a", 1));
    assert!(!node.link.lock().chores().unpaid);
    server.run();
    until("the node is back", || node.health().trouble.is_none()).await;
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Denied(Denied::Taken)));
    // From now on everything is sent.
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(_)));
}
