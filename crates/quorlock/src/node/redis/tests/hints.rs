//! Hints about released names.

use super::*;
use crate::node::{Done, Wakeup};

async fn notified(wakeup: &Wakeup) {
    tokio::time::timeout(NODE_TIMEOUT, wakeup.notified()).await.expect("there is no notification");
}

#[tokio::test]
async fn a_release_notifies_the_watchers() {
    let server = Server::start(&[]);
    let ctx = calm();
    let (holder, waiter) = (connect(&server.url(), ctx.clone()), connect(&server.url(), ctx));
    ask(&holder, vote("a", 1, 7)).await;
    let (wakeup, other) = (Wakeup::new(), Wakeup::new());
    waiter.wait_connected().await;
    waiter.watch(&name("a"), &wakeup);
    waiter.watch(&name("b"), &other);
    // Commands and confirmations share one order.
    assert!(matches!(ask(&waiter, vote("c", 2, 7)).await, Reply::Done(Done::Raised)));
    ask(&holder, release("a", 1)).await;
    notified(&wakeup).await;
    waiter.unwatch(&name("a"));
    assert!(matches!(ask(&waiter, vote("a", 2, 8)).await, Reply::Done(Done::Raised)));
    ask(&waiter, release("a", 2)).await;
    let silence = Duration::from_millis(50);
    assert!(tokio::time::timeout(silence, wakeup.notified()).await.is_err());
    assert!(tokio::time::timeout(silence, other.notified()).await.is_err());
}

#[tokio::test]
async fn a_watch_outlives_its_connection_and_notifies_when_hints_may_have_been_missed() {
    let mut server = Server::start(&[]);
    let node = connect(&server.url(), calm());
    let wakeup = Wakeup::new();
    node.watch(&name("a"), &wakeup);
    notified(&wakeup).await;
    server.kill();
    until("the node is down", || node.health().trouble.is_some()).await;
    server.run();
    notified(&wakeup).await;
    ask(&node, vote("a", 1, 7)).await;
    ask(&node, release("a", 1)).await;
    notified(&wakeup).await;
}

#[tokio::test]
async fn a_user_without_channels_gets_no_hints_and_everything_else() {
    let server = Server::start(&[]);
    server.run_command("ACL SETUSER bob on >pw ~* +@all resetchannels");
    let node = connect(&(server.url() + "?user=bob&password=pw"), calm());
    node.wait_connected().await;
    let wakeup = Wakeup::new();
    for _ in 0..3 {
        node.watch(&name("a"), &wakeup);
        assert!(matches!(ask(&node, vote("a", 1, 7)).await, Reply::Done(_)));
        node.unwatch(&name("a"));
        assert!(matches!(ask(&node, release("a", 1)).await, Reply::Done(Done::Plain | Done::Unawaited)));
    }
    assert_eq!(node.health().queued, 0);
}

#[tokio::test]
async fn a_quiet_release_sends_no_hint_and_every_release_reports_whether_there_are_waiters() {
    let server = Server::start(&[]);
    let ctx = calm();
    let (holder, waiter) = (connect(&server.url(), ctx.clone()), connect(&server.url(), ctx));
    let quiet = |by| Command::Release {
        name: name("a"),
        token: token(by),
        quiet: true,
        stored_after_token: None,
        may_be_shared: false,
        forced: false,
    };
    ask(&holder, vote("a", 1, 7)).await;
    assert!(matches!(ask(&holder, release("a", 1)).await, Reply::Done(Done::Unawaited)));

    let wakeup = Wakeup::new();
    waiter.wait_connected().await;
    waiter.watch(&name("a"), &wakeup);
    assert!(matches!(ask(&waiter, vote("c", 2, 7)).await, Reply::Done(Done::Raised)));
    ask(&holder, vote("a", 3, 8)).await;
    assert!(matches!(ask(&holder, quiet(3)).await, Reply::Done(Done::Plain)));
    assert!(tokio::time::timeout(Duration::from_millis(50), wakeup.notified()).await.is_err());
    ask(&holder, vote("a", 4, 9)).await;
    assert!(matches!(ask(&holder, release("a", 4)).await, Reply::Done(Done::Plain)));
    notified(&wakeup).await;

    // Others wait for another name, or did a moment ago.
    ask(&holder, vote("b", 5, 7)).await;
    assert!(matches!(ask(&holder, release("b", 5)).await, Reply::Done(Done::Unawaited)));
    waiter.unwatch(&name("a"));
    assert!(matches!(ask(&waiter, vote("d", 2, 7)).await, Reply::Done(Done::Raised)));
    ask(&holder, vote("a", 6, 10)).await;
    assert!(matches!(ask(&holder, quiet(6)).await, Reply::Done(Done::Unawaited)));
}

#[tokio::test]
async fn a_downgrade_and_the_release_after_it_both_notify() {
    use crate::node::contract_modes::{downgrade, leave};
    let server = Server::start(&[]);
    let ctx = calm();
    let (holder, waiter) = (connect(&server.url(), ctx.clone()), connect(&server.url(), ctx));
    ask(&holder, vote("a", 1, 7)).await;
    let wakeup = Wakeup::new();
    waiter.wait_connected().await;
    waiter.watch(&name("a"), &wakeup);
    assert!(matches!(ask(&waiter, vote("c", 2, 7)).await, Reply::Done(Done::Raised)));
    assert!(matches!(ask(&holder, downgrade("a", 1, (7, 7))).await, Reply::Done(_)));
    notified(&wakeup).await;
    assert!(matches!(ask(&holder, leave("a", 1)).await, Reply::Done(_)));
    notified(&wakeup).await;
}
