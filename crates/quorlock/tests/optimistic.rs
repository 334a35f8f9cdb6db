//! Optimistic updates of values in Redis: none is lost, none overwrites another, none is tried blindly again.
#![allow(clippy::unwrap_used)]

#[path = "optimistic/faults.rs"]
mod faults;

use quorlock::node::NodeError;
use quorlock::optimistic::{LONGEST_VALUE, OptimisticStore, UpdateError, Updated};
use quorlock_testkit::{Binary, Server, until_blocking};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;

const LONG: Duration = Duration::from_secs(20);

fn open(url: &str) -> OptimisticStore {
    OptimisticStore::open(url).unwrap()
}

/// What a closure answers that writes `text`.
fn value(text: &str) -> Result<Option<Vec<u8>>, Infallible> {
    Ok(Some(text.as_bytes().to_vec()))
}

async fn write(store: &OptimisticStore, key: &str, text: &str) -> Updated {
    store.update(key, |_| value(text)).await.unwrap()
}

fn next_number(old: Option<&[u8]>) -> Result<Option<Vec<u8>>, Infallible> {
    let old: u64 = old.map_or(0, |old| std::str::from_utf8(old).unwrap().parse().unwrap());
    value(&(old + 1).to_string())
}

/// The connections of stores as the server describes them.
fn our_clients(server: &Server) -> Vec<String> {
    let list = server.cli(&["CLIENT", "LIST"]);
    list.lines().filter(|line| line.contains("name=quorlock ")).map(str::to_owned).collect()
}

/// How many connections of stores have an open transaction, and how many there are.
fn connections(server: &Server) -> (usize, usize) {
    let ours = our_clients(server);
    (ours.iter().filter(|line| !line.contains("multi=-1 ")).count(), ours.len())
}

/// Many tasks over several stores count up together.
async fn count_together(server: &Server) {
    let stores: Vec<_> = (0..4)
        .map(|_| Arc::new(open(&server.url()).max_attempts(100_000).limit(Duration::from_secs(60))))
        .collect();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..32 {
        let store = stores[task % stores.len()].clone();
        tasks.spawn(async move {
            for _ in 0..10 {
                store.update("counter", next_number).await.unwrap();
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    assert_eq!(server.cli(&["GET", "counter"]), "320");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_updates_lose_nothing() {
    count_together(&Server::start()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_updates_lose_nothing_on_valkey() {
    if Binary::Valkey.is_here() {
        count_together(&Server::builder().binary(Binary::Valkey).start()).await;
    }
}

#[tokio::test]
async fn a_value_is_created_changed_and_deleted() {
    let server = Server::start();
    let store = open(&server.url());
    let mut seen = Vec::new();
    for new in [Some("a"), Some(""), None, None] {
        let updated = store
            .update("k", |old| {
                seen.push(old.map(<[u8]>::to_vec));
                Ok::<_, Infallible>(new.map(|new| new.as_bytes().to_vec()))
            })
            .await
            .unwrap();
        assert_eq!((updated.value.as_deref(), updated.attempts), (new.map(str::as_bytes), 1));
        assert_eq!(store.get("k").await.unwrap(), updated.value);
    }
    assert_eq!(seen, [None, Some(b"a".to_vec()), Some(Vec::new()), None]);
    assert_eq!(server.cli(&["EXISTS", "k"]), "0");
}

#[tokio::test]
async fn a_foreign_write_in_between_is_not_overwritten() {
    let server = Server::start();
    let store = open(&server.url());
    for foreign in [&["SET", "k", "b"][..], &["DEL", "k"], &["FLUSHALL"]] {
        server.cli(&["SET", "k", "a"]);
        let mut seen = Vec::new();
        let updated = store
            .update("k", |old| {
                if seen.is_empty() {
                    server.cli(foreign);
                }
                let old = String::from_utf8_lossy(old.unwrap_or(b"(none)")).into_owned();
                seen.push(old.clone());
                value(&format!("{old}+"))
            })
            .await
            .unwrap();
        let there = if foreign[0] == "SET" { "b" } else { "(none)" };
        assert_eq!(updated.attempts, 2, "{foreign:?}");
        assert_eq!(seen, ["a", there]);
        assert_eq!(server.cli(&["GET", "k"]), format!("{there}+"));
    }
}

#[tokio::test]
async fn the_same_value_written_by_somebody_else_is_a_change() {
    let server = Server::start();
    server.cli(&["SET", "k", "a"]);
    let mut calls = 0;
    let store = open(&server.url());
    let change = |_: Option<&[u8]>| {
        calls += 1;
        if calls == 1 {
            server.cli(&["SET", "k", "b"]);
            server.cli(&["SET", "k", "a"]);
        }
        value("c")
    };
    assert_eq!(store.update("k", change).await.unwrap().attempts, 2);
}

#[tokio::test]
async fn contention_ends_after_the_last_attempt() {
    let server = Server::start();
    let store = open(&server.url()).max_attempts(5);
    let mut calls = 0;
    let change = |_: Option<&[u8]>| {
        calls += 1;
        server.cli(&["SET", "k", &format!("foreign {calls}")]);
        value("mine")
    };
    let error = store.update("k", change).await.unwrap_err();
    assert!(matches!(&error, UpdateError::Contended { attempts: 5, key, .. } if key == "k"), "{error:?}");
    assert!(error.to_string().contains("lock"), "{error}");
    assert_eq!(server.cli(&["GET", "k"]), "foreign 5");
    assert_eq!(calls, 5);
}

#[tokio::test]
async fn contention_ends_with_the_time_limit() {
    let server = Server::start();
    for (limit, most) in [(Duration::from_millis(200), 1_000), (Duration::ZERO, 1)] {
        let store = open(&server.url()).max_attempts(u32::MAX).limit(limit);
        let change = |_: Option<&[u8]>| {
            server.cli(&["APPEND", "k", "foreign"]);
            value("mine")
        };
        let error = store.update("k", change).await.unwrap_err();
        assert!(
            matches!(error, UpdateError::Contended { attempts, .. } if (1..=most).contains(&attempts)),
            "{error:?}"
        );
        assert!(!server.cli(&["GET", "k"]).contains("mine"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_store_that_is_busy_for_the_whole_limit_says_so() {
    let server = Server::start();
    let store = Arc::new(open(&server.url()).limit(Duration::from_millis(100)));
    let (go_on, wait) = std::sync::mpsc::channel();
    let (entered, inside) = tokio::sync::oneshot::channel();
    let mut entered = Some(entered);
    let slow = tokio::spawn({
        let store = store.clone();
        async move {
            let change = move |_: Option<&[u8]>| {
                entered.take().unwrap().send(()).unwrap();
                block_in_place(|| wait.recv().unwrap());
                value("slow")
            };
            store.update("k", change).await.map(drop)
        }
    });
    inside.await.unwrap();
    let error = store.update("k", |_| value("other")).await.unwrap_err();
    assert_eq!(error.kind(), "busy", "{error}");
    assert_eq!(store.get("k").await.unwrap_err().kind(), "busy");
    go_on.send(()).unwrap();
    slow.await.unwrap().unwrap();
    assert_eq!(store.get("k").await.unwrap().unwrap(), b"slow");
}

#[tokio::test]
async fn a_closure_that_declines_changes_nothing_and_keeps_the_connection() {
    let server = Server::start();
    let store = open(&server.url());
    write(&store, "k", "a").await;
    let clients = || {
        our_clients(&server).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let before = clients();
    let error = store
        .update("k", |old| {
            Err::<Option<Vec<u8>>, _>(std::io::Error::other(format!("seen {}", old.unwrap()[0])))
        })
        .await
        .unwrap_err();
    assert!(matches!(&error, UpdateError::Declined(cause) if cause.to_string() == "seen 97"), "{error:?}");
    assert_eq!(connections(&server), (0, 1));
    assert_eq!(clients(), before, "the same connection");
    assert_eq!(server.cli(&["GET", "k"]), "a");
    assert_eq!(foreign_write_refuses(&server, &store).await, 1);
}

/// How many attempts an update of `other` takes while another client writes `k`: more than one only if `k` is watched.
async fn foreign_write_refuses(server: &Server, store: &OptimisticStore) -> u32 {
    let change = |_: Option<&[u8]>| {
        server.cli(&["APPEND", "k", "foreign"]);
        value("x")
    };
    store.update("other", change).await.unwrap().attempts
}

#[tokio::test]
async fn another_type_is_refused_and_left_alone() {
    let server = Server::start();
    let store = open(&server.url());
    server.cli(&["RPUSH", "k", "a"]);
    let error = store.update("k", |_| value("b")).await.unwrap_err();
    assert!(matches!(error, UpdateError::Node(NodeError::WrongType { .. })), "{error:?}");
    assert_eq!(server.cli(&["LLEN", "k"]), "1");
    write(&store, "other", "fine").await;
}

#[tokio::test]
async fn values_over_the_limit_are_refused_with_their_length() {
    let server = Server::start();
    let store = open(&server.url());
    let whole = "x".repeat(LONGEST_VALUE);
    let long = format!("{whole}x");
    let size = long.len() as u64;
    write(&store, "k", &whole).await;
    assert_eq!(store.get("k").await.unwrap().unwrap().len(), LONGEST_VALUE);
    let error = store.update("k", |_| value(&long)).await.unwrap_err();
    assert!(matches!(error, UpdateError::TooLarge { size: found } if found == size), "{error:?}");
    server.cli(&["APPEND", "k", "x"]);
    let error = store.update("k", |_| value("short")).await.unwrap_err();
    assert!(matches!(error, UpdateError::TooLarge { size: found } if found == size), "{error:?}");
    assert_eq!(store.get("k").await.unwrap_err().kind(), "too_large");
    assert_eq!(server.cli(&["STRLEN", "k"]), size.to_string());
    write(&store, "other", "fine").await;
}

#[tokio::test]
async fn a_time_to_live_stays_and_its_end_is_a_change() {
    let server = Server::start();
    let store = open(&server.url());
    server.cli(&["SET", "k", "a", "EX", "100"]);
    write(&store, "k", "b").await;
    assert!(server.cli(&["TTL", "k"]).parse::<i64>().unwrap() > 0);
    server.cli(&["SET", "k", "b", "PX", "300"]);
    let mut seen = Vec::new();
    let change = |old: Option<&[u8]>| {
        seen.push(old.is_some());
        if old.is_some() {
            until_blocking("it expires", LONG, || server.cli(&["EXISTS", "k"]) == "0");
        }
        value("c")
    };
    assert_eq!(store.update("k", change).await.unwrap().attempts, 2);
    assert_eq!(seen, [true, false]);
}

/// Goal: without `MULTI` the write would happen at once and over anything; without `WATCH` over anything.
#[tokio::test]
async fn a_user_who_may_not_use_the_scheme_writes_nothing() {
    for command in ["watch", "multi", "exec", "set"] {
        let server = Server::builder().acl(&format!("user app on >secret ~* &* +@all -{command}")).start();
        server.cli(&["SET", "k", "a"]);
        let store = open(&format!("redis://app:secret@127.0.0.1:{}", server.port()));
        let error = store.update("k", |_| value("b")).await.unwrap_err();
        assert!(matches!(error, UpdateError::Node(NodeError::NoPermission { .. })), "{command}: {error:?}");
        assert_eq!(server.cli(&["GET", "k"]), "a", "{command}");
    }
}

#[tokio::test]
async fn a_full_server_refuses_and_keeps_the_old_value() {
    let server = Server::start();
    let store = open(&server.url());
    write(&store, "k", "a").await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let error = store.update("k", |_| value("b")).await.unwrap_err();
    assert!(matches!(error, UpdateError::Node(NodeError::OutOfMemory { .. })), "{error:?}");
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(store.get("k").await.unwrap().unwrap(), b"a");
}

#[test]
fn only_servers_can_be_opened() {
    for url in ["memory:", "file:", "nonsense"] {
        assert!(OptimisticStore::open(url).is_err(), "{url}");
    }
}
