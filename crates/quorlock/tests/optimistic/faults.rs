//! Updates that are dropped, cut off or never answered.

use super::{LONG, connections, foreign_write_refuses, next_number, open, value, write};
use quorlock::node::NodeError;
use quorlock::optimistic::UpdateError;
use quorlock_testkit::proxy::{Fault, Proxy};
use quorlock_testkit::{Server, until};
use std::convert::Infallible;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// Misbehaves from within a closure, which cannot await.
fn set_now(proxy: &Proxy, fault: Fault) {
    block_in_place(|| Handle::current().block_on(proxy.set(fault)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_dropped_while_reading_leaves_nothing() {
    let server = Server::start();
    let proxy = Proxy::start(server.port()).await;
    let store = open(&proxy.url());
    write(&store, "k", "a").await;
    proxy.set(Fault::HoldReplies).await;
    tokio::select! {
        biased;
        outcome = store.update("k", |_| value("dropped")) => panic!("{outcome:?}"),
        () = until("the transaction is open", LONG, async || connections(&server).0 == 1) => {}
    }
    proxy.set(Fault::Pass).await;
    assert_eq!(foreign_write_refuses(&server, &store).await, 1);
    assert_eq!(server.cli(&["GET", "k"]), "aforeign");
    until("one connection is left, without a transaction", LONG, async || connections(&server) == (0, 1))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_dropped_while_writing_leaves_nothing_but_perhaps_its_value() {
    let server = Server::start();
    let proxy = Proxy::start(server.port()).await;
    let store = open(&proxy.url());
    let change = |_: Option<&[u8]>| {
        set_now(&proxy, Fault::HoldReplies);
        value("dropped")
    };
    tokio::select! {
        biased;
        outcome = store.update("k", change) => panic!("{outcome:?}"),
        () = until("it is written", LONG, async || server.cli(&["GET", "k"]) == "dropped") => {}
    }
    proxy.set(Fault::Pass).await;
    assert_eq!(foreign_write_refuses(&server, &store).await, 1);
    until("one connection is left, without a transaction", LONG, async || connections(&server) == (0, 1))
        .await;
}

#[tokio::test]
async fn a_closure_that_panics_leaves_nothing() {
    let server = Server::start();
    let store = Arc::new(open(&server.url()));
    write(&store, "k", "a").await;
    let task = tokio::spawn({
        let store = store.clone();
        async move { store.update("k", |_| -> Result<_, Infallible> { panic!("on purpose") }).await.map(drop) }
    });
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(foreign_write_refuses(&server, &store).await, 1);
    assert_eq!(server.cli(&["GET", "k"]), "aforeign");
}

/// Goal: the server wrote, the answer is lost. To try again would count twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_cut_before_the_answer_is_unknown_and_not_retried() {
    let server = Server::start();
    let proxy = Proxy::start(server.port()).await;
    let store = open(&proxy.url());
    server.cli(&["SET", "k", "7"]);
    let mut calls = 0;
    let change = |old: Option<&[u8]>| {
        calls += 1;
        set_now(&proxy, Fault::HoldReplies);
        next_number(old)
    };
    let cut = async {
        until("it is written", LONG, async || server.cli(&["GET", "k"]) == "8").await;
        proxy.cut();
    };
    let (outcome, ()) = tokio::join!(store.update("k", change), cut);
    let error = outcome.unwrap_err();
    assert!(matches!(error, UpdateError::Unknown { source: NodeError::Disconnected { .. } }), "{error:?}");
    assert_eq!(calls, 1);
    proxy.set(Fault::Pass).await;
    assert_eq!(store.get("k").await.unwrap().unwrap(), b"8");
    assert_eq!(store.update("k", next_number).await.unwrap().value.unwrap(), b"9");
}

/// Goal: the server never heard of the write, which looks the same from here.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_any_answer_is_unknown_and_not_retried() {
    let server = Server::start();
    let proxy = Proxy::start(server.port()).await;
    let store = open(&proxy.url());
    server.cli(&["SET", "k", "7"]);
    let mut calls = 0;
    let change = |old: Option<&[u8]>| {
        calls += 1;
        set_now(&proxy, Fault::Swallow);
        next_number(old)
    };
    let error = store.update("k", change).await.unwrap_err();
    assert!(matches!(error, UpdateError::Unknown { source: NodeError::Timeout { .. } }), "{error:?}");
    assert_eq!(calls, 1);
    proxy.set(Fault::Pass).await;
    assert_eq!(store.get("k").await.unwrap().unwrap(), b"7");
}

/// Goal: the connection breaks after `WATCH` and before the write. A new one would write without having watched.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_never_goes_to_another_connection_than_the_watch() {
    let server = Server::start();
    let proxy = Proxy::start(server.port()).await;
    let store = open(&proxy.url());
    let change = |_: Option<&[u8]>| {
        proxy.cut();
        server.cli(&["SET", "k", "foreign"]);
        value("mine")
    };
    assert_eq!(store.update("k", change).await.unwrap_err().kind(), "unknown");
    assert_eq!(store.get("k").await.unwrap().unwrap(), b"foreign");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_an_unknown_outcome_a_look_tells_it_for_good() {
    let server = Server::start();
    let store = open(&server.url());
    let change = |_: Option<&[u8]>| {
        server.pause();
        value("late")
    };
    assert_eq!(store.update("k", change).await.unwrap_err().kind(), "unknown");
    server.resume();
    let seen = store.get("k").await.unwrap().unwrap_or_default();
    until("the old connection is gone", LONG, async || connections(&server) == (0, 1)).await;
    assert_eq!(server.cli(&["GET", "k"]).as_bytes(), seen);
    // Whether the write was still on its way cannot be arranged; that it could not have come any more can be seen.
    assert!(server.cli(&["INFO", "commandstats"]).contains("cmdstat_client|kill:calls=1"));
}

#[tokio::test]
async fn a_connection_that_the_server_closed_meanwhile_is_replaced() {
    let mut server = Server::start();
    let store = open(&server.url());
    write(&store, "k", "a").await;
    server.cli(&["CLIENT", "KILL", "TYPE", "NORMAL"]);
    assert_eq!(write(&store, "k", "b").await.attempts, 1);
    server.restart();
    assert_eq!(store.get("k").await.unwrap(), None);
    server.kill();
    assert_eq!(store.update("k", |_| value("c")).await.unwrap_err().kind(), "unreachable");
}

#[test]
fn a_store_outlives_the_runtime_in_which_it_connected() {
    let server = Server::start();
    let store = open(&server.unix_url());
    for round in ["a", "b"] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        assert_eq!(runtime.block_on(write(&store, "k", round)).attempts, 1);
        drop(runtime);
        assert_eq!(server.cli(&["GET", "k"]), round);
    }
}
