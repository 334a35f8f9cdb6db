//! Bytes that are no replies, in the middle of a stream or in the place of a greeting.

use crate::forger::Forger;
use crate::net::{self, NODE_TIMEOUT, kinds, release, until_granted};
use quorlock::{Event, Locker, NodeOutcome};
use quorlock_testkit::{Servers, until};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Replies that no server sends, and whether the stream then ends; all break the connection.
fn forgeries() -> Vec<(Vec<u8>, bool)> {
    let short = [
        "$999999999\r\n",
        "*99999999\r\n",
        "%99999999\r\n",
        ">99999999\r\n",
        "$-2\r\n",
        ":x\r\n",
        "+OK\rX",
        "HTTP/1.1 400 Bad Request\r\n\r\n",
        "+OK\r\n:1\r\n$3\r\nabcdef",
        "\0\0\0\0",
    ];
    let mut all: Vec<_> = short.iter().map(|text| (text.as_bytes().to_vec(), false)).collect();
    all.push((b"*1\r\n".repeat(1000), false));
    all.push(([b"+".as_slice(), &[b'x'; 100_000]].concat(), false));
    let piece = [b"$60000\r\n".as_slice(), &[b'x'; 60_000], b"\r\n"].concat();
    all.push(([b"*1000\r\n".to_vec(), piece.repeat(30)].concat(), false));
    // Half a reply, and none, before the end.
    all.extend(["+O", "$32\r\nabc", "*3\r\n+OK\r\n", ""].map(|text| (text.as_bytes().to_vec(), true)));
    all
}

#[tokio::test]
async fn nonsense_in_the_middle_of_a_stream_costs_one_connection_and_no_time() {
    let servers = Servers::start(3);
    let forger = Forger::default();
    let first = forger.start(servers[0].port()).await;
    let breaks = Arc::new(Mutex::new(Vec::new()));
    let heard = breaks.clone();
    let locker = Locker::builder()
        .nodes([first, servers[1].url(), servers[2].url()])
        .node_timeout(NODE_TIMEOUT)
        .observer(move |event: &Event| {
            if let Event::NodeFailed { cause, .. } = event {
                heard.lock().unwrap().push(cause.kind());
            }
        })
        .build()
        .unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    for (bytes, then_cut) in forgeries() {
        until("the node is back", net::SOON, async || {
            let guard = locker.named("back").unwrap().acquire().await.unwrap();
            let is_there = servers[0].cli(&["EXISTS", "back"]) == "1";
            release(guard).await;
            is_there
        })
        .await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(20)]).into_owned();
        let connections = forger.connections.load(Ordering::SeqCst);
        forger.forge(&bytes, then_cut);
        let start = Instant::now();
        while !forger.is_done() {
            assert!(start.elapsed() < net::SOON, "{shown:?}: no reply was forged");
            let guard = locker.named("a").unwrap().acquire().await.unwrap();
            assert!(guard.extend().await.is_ok(), "{shown:?}");
            release(guard).await;
        }
        assert!(start.elapsed() < NODE_TIMEOUT, "{shown:?}: {:?}", start.elapsed());
        // The old connection may carry a vote before its end is noticed; the next forgery would find none.
        until("there is a new connection", net::SOON, async || {
            forger.connections.load(Ordering::SeqCst) > connections
        })
        .await;
    }
    for server in servers.iter() {
        until("nothing is left", net::SOON, async || server.cli(&["EXISTS", "a", "back"]) == "0").await;
    }
    let kinds = breaks.lock().unwrap().clone();
    assert!(!kinds.contains(&"abandoned"), "{kinds:?}");
}

#[tokio::test]
async fn whatever_greets_us_instead_of_a_server_is_a_protocol_error() {
    for (bytes, then_cut) in forgeries() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let greeting = bytes.clone();
        let door = tokio::spawn(async move {
            let mut guests = Vec::new();
            while let Ok((mut guest, _)) = listener.accept().await {
                let _ = guest.read(&mut [0; 1024]).await;
                let _ = guest.write_all(&greeting).await;
                if !then_cut {
                    guests.push(guest);
                }
            }
        });
        let locker = Locker::builder().nodes([url]).node_timeout(NODE_TIMEOUT).build().unwrap();
        let refused = locker.named("a").unwrap().try_acquire().await.unwrap_err();
        let expected = if then_cut { "disconnected" } else { "protocol" };
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(20)]).into_owned();
        assert_eq!(kinds(&refused), [expected], "{shown:?}: {refused}");
        door.abort();
    }
}

#[tokio::test]
async fn a_server_that_never_greets_is_given_up_within_the_connect_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let servers = Servers::start(2);
    let urls = [url, servers[0].url(), servers[1].url()];
    let locker = Locker::builder().nodes(urls).node_timeout(NODE_TIMEOUT).build().unwrap();
    let results = locker.init_fresh_nodes().await;
    let NodeOutcome::Failed(cause) = &results[0].outcome else { panic!("{results:?}") };
    assert_eq!(cause.kind(), "timeout");
    let start = Instant::now();
    until_granted(&locker, "a").await;
    assert!(start.elapsed() < NODE_TIMEOUT, "{:?}", start.elapsed());
}
