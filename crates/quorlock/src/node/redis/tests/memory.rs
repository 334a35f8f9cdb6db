//! Servers that forget.

use super::*;
use crate::node::{Denied, Done};

#[tokio::test]
async fn a_new_server_is_quarantined_and_says_for_how_long() {
    let server = Server::start(&[]);
    let diary = Diary::default();
    let node = connect(&server.url(), diary.observe(guarded()));
    let NodeError::Quarantined { left } = cause(ask(&node, vote("a", 1, 7)).await) else {
        panic!("another cause");
    };
    assert!(left > Duration::from_secs(30) && left <= Duration::from_secs(40), "{left:?}");
    assert_eq!(server.text("EXISTS a").unwrap(), "1", "it is there and does not count");
    assert_eq!(diary.count(|e| matches!(e, Event::NodeQuarantined { .. })), 1);
    assert!(matches!(node.health().trouble, Some(NodeError::Quarantined { .. })));
}

#[tokio::test]
async fn init_lifts_the_quarantine_for_every_link() {
    let server = Server::start(&[]);
    let (first, second) = (connect(&server.url(), guarded()), connect(&server.url(), guarded()));
    second.wait_connected().await;
    first.init().await.unwrap();
    assert!(first.health().trouble.is_none());
    assert!(matches!(ask(&first, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    // The other link believes in its quarantine until it reads the epoch again, which votes make it do.
    ask(&second, vote("b", 2, 7)).await;
    until("the other link votes", || second.health().trouble.is_none()).await;
    assert!(matches!(ask(&second, vote("c", 2, 7)).await, Reply::Done(Done::Raised)));
}

#[tokio::test]
async fn a_repair_reaches_a_quarantined_server_and_its_release_too() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    let repair = Command::Acquire(Acquire { kind: crate::node::AcquireKind::Repair, ..acquire("a", 1, 7) });
    assert!(matches!(ask(&node, repair.clone()).await, Reply::Done(Done::Raised)));
    assert!(matches!(ask(&node, repair).await, Reply::Denied(Denied::Taken)));
    assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(Done::Plain | Done::Unawaited)));
}

#[tokio::test]
async fn a_flush_between_verification_and_vote_is_caught_and_undone() {
    let server = Server::start(&[]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(Done::Raised)));
    let recheck = node.link.ctx.recheck.listen();
    server.run_command("FLUSHALL");
    let reply = ask(&node, vote("b", 1, 7)).await;
    assert!(
        matches!(&reply, Reply::Failed(cause) if matches!(**cause, NodeError::EpochChanged)),
        "{reply:?}"
    );
    until("the vote is undone", || server.text("EXISTS b").unwrap() == "0").await;
    until("it is quarantined", || matches!(node.health().trouble, Some(NodeError::Quarantined { .. }))).await;
    assert!(recheck.has_changed(), "holders are notified");
    let reply = ask(&node, vote("b", 1, 7)).await;
    assert!(
        matches!(&reply, Reply::Failed(cause) if matches!(**cause, NodeError::Quarantined { .. })),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_spoilt_epoch_counts_as_none() {
    let server = Server::start(&[]);
    server.run_command("RPUSH quorlock:epoch x");
    let node = connect(&server.url(), guarded());
    let reply = ask(&node, vote("b", 1, 7)).await;
    assert!(
        matches!(&reply, Reply::Failed(cause) if matches!(**cause, NodeError::Quarantined { .. })),
        "{reply:?}"
    );
    node.init().await.unwrap();
    assert!(matches!(ask(&node, vote("c", 1, 7)).await, Reply::Done(Done::Raised)));
}

#[tokio::test]
async fn a_restart_quarantines_even_if_the_keys_survived() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let node = connect(&server.url(), guarded());
    node.init().await.unwrap();
    ask(&node, vote("a", 1, 7)).await;
    server.kill();
    server.run();
    until("it is quarantined", || matches!(node.health().trouble, Some(NodeError::Quarantined { .. }))).await;
    assert_eq!(server.text("EXISTS a").unwrap(), "1");
}

#[tokio::test]
async fn a_durable_server_votes_on_after_a_restart() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let url = server.url() + "?durable=yes";
    let node = connect(&url, guarded());
    node.init().await.unwrap();
    ask(&node, vote("a", 1, 7)).await;
    server.kill();
    server.run();
    let again = connect(&url, guarded());
    let reply = ask(&again, vote("a", 2, 8)).await;
    assert!(matches!(reply, Reply::Denied(Denied::Taken)), "{reply:?}");
    assert!(matches!(ask(&again, vote("b", 2, 8)).await, Reply::Done(Done::Raised)));
}

#[tokio::test]
async fn a_longer_ttl_of_another_client_lengthens_the_quarantine_of_all() {
    let server = Server::start(&[]);
    let long = Context { longest_ttl: Duration::from_secs(300), ..guarded() };
    connect(&server.url(), long).wait_connected().await;
    let node = connect(&server.url(), guarded());
    let NodeError::Quarantined { left } = cause(ask(&node, vote("a", 1, 7)).await) else {
        panic!("another cause");
    };
    assert!(left > Duration::from_secs(290), "{left:?}");
}

/// A wall clock that is wrong.
#[derive(Debug)]
struct Wrong;

impl crate::Clock for Wrong {
    fn now(&self) -> quorlock_core::Moment {
        crate::SystemClock.now()
    }

    fn wall_time(&self) -> std::time::SystemTime {
        crate::SystemClock.wall_time() - Duration::from_secs(60)
    }
}

#[tokio::test]
async fn a_clock_far_from_ours_is_flagged_with_and_without_the_guard() {
    let server = Server::start(&[]);
    for ctx in [calm(), guarded()] {
        let diary = Diary::default();
        let ctx = Context { clock: Arc::new(Wrong), ..diary.observe(ctx) };
        let node = connect(&server.url(), ctx);
        node.wait_connected().await;
        until("the skew is reported", || {
            diary.count(|e| matches!(e, Event::ClockSkew { ahead_micros, .. } if *ahead_micros > 55_000_000))
                == 1
        })
        .await;
        assert!(node.health().clock_ahead_micros.unwrap() > 55_000_000);
    }
}
