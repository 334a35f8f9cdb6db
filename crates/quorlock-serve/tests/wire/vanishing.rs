//! Callers that disconnect at the worst moment leave no lock behind.

use crate::kit::{LIMIT, Lab, acquire, answer, rest};
use quorlock::Event;
use quorlock_serve::Limits;
use quorlock_testkit::{until, within};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

/// Well before the ttl of 30 s would free a lock.
const BEFORE_TTL: Duration = Duration::from_secs(20);

const FOREVER: &str = "{\"wait_ms\": 3600000, \"ttl_ms\": 30000}";

#[tokio::test]
async fn a_caller_that_disconnects_while_it_waits_leaves_the_queue() {
    let lab = Lab::start("memory:leaves-the-line", Limits::default()).await;
    let guard = lab.nodes.named("a").unwrap().acquire().await.unwrap();
    let (mut tcp, mut unix) = (lab.dial().await, lab.dial_unix().await);
    tcp.write_all(&acquire("a", FOREVER)).await.unwrap();
    unix.write_all(&acquire("a", FOREVER)).await.unwrap();
    lab.waiters(2).await;
    drop((tcp, unix));
    lab.waiters(0).await;
    let _ = guard.release().await;
    // No waiter is left to acquire it.
    assert!(!lab.is_held("a").await);
    assert_eq!(lab.overview().await["sessions"], 0);
}

/// Goal: a caller that disconnects around the moment of its grant has its response, or the lock is free.
///
/// The observer disconnects at the grant itself, before the response can be written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_disconnects_at_its_grant_leaves_no_lock() {
    for round in 0..20 {
        let stream_to_drop: Arc<Mutex<Option<std::os::unix::net::UnixStream>>> = Arc::default();
        let to_drop = stream_to_drop.clone();
        let observer = move |event: &Event| {
            if matches!(event, Event::Acquired { .. }) {
                drop(to_drop.lock().unwrap().take());
            }
        };
        let nodes = format!("memory:moment-of-the-grant-{round}");
        let lab = Lab::observed(&nodes, Limits::default(), observer).await;
        let guard = lab.nodes.named("a").unwrap().acquire().await.unwrap();
        let stream = std::os::unix::net::UnixStream::connect(&lab.unix).unwrap();
        std::io::Write::write_all(&mut &stream, &acquire("a", FOREVER)).unwrap();
        *stream_to_drop.lock().unwrap() = Some(stream);
        lab.waiters(1).await;
        let _ = guard.release().await;
        until("it was granted", LIMIT, async || stream_to_drop.lock().unwrap().is_none()).await;
        until("it is free", BEFORE_TTL, async || !lab.is_held("a").await).await;
        until("it is forgotten", LIMIT, async || lab.overview().await["sessions"] == 0).await;
    }
}

/// The same over TCP, where only a read shows the end of a connection, not a write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_disconnects_at_its_grant_leaves_no_lock_over_tcp() {
    for round in 0..20 {
        let stream_to_drop: Arc<Mutex<Option<std::net::TcpStream>>> = Arc::default();
        let to_drop = stream_to_drop.clone();
        let observer = move |event: &Event| {
            if matches!(event, Event::Acquired { .. }) {
                drop(to_drop.lock().unwrap().take());
            }
        };
        let nodes = format!("memory:moment-of-the-grant-tcp-{round}");
        let lab = Lab::observed(&nodes, Limits::default(), observer).await;
        {
            // The observer cannot disconnect before all is sent.
            let mut place = stream_to_drop.lock().unwrap();
            let mut stream = std::net::TcpStream::connect(lab.tcp).unwrap();
            std::io::Write::write_all(&mut stream, &acquire("a", "{\"ttl_ms\": 30000}")).unwrap();
            *place = Some(stream);
        }
        until("it was granted", LIMIT, async || stream_to_drop.lock().unwrap().is_none()).await;
        until("it is free", BEFORE_TTL, async || !lab.is_held("a").await).await;
    }
}

#[tokio::test]
async fn a_caller_that_does_not_read_its_response_leaves_no_lock_on_a_unix_socket() {
    let lab = Lab::start("memory:unread", Limits::default()).await;
    let mut stream = lab.dial_unix().await;
    stream.write_all(&acquire("a", "{\"ttl_ms\": 30000}")).await.unwrap();
    stream.readable().await.unwrap();
    assert!(lab.is_held("a").await);
    drop(stream);
    until("it is free", BEFORE_TTL, async || !lab.is_held("a").await).await;
}

#[tokio::test]
async fn a_caller_that_read_its_response_keeps_the_lock_after_it_disconnects() {
    let lab = Lab::start("memory:keeps-the-lock", Limits::default()).await;
    for (name, is_unix) in [("tcp", false), ("unix", true)] {
        let response = if is_unix {
            let mut stream = lab.dial_unix().await;
            stream.write_all(&acquire(name, "{}")).await.unwrap();
            answer(&mut stream).await
        } else {
            let mut stream = lab.dial().await;
            stream.write_all(&acquire(name, "{}")).await.unwrap();
            answer(&mut stream).await
        };
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
        until("the connection is gone", LIMIT, async || lab.overview().await["connections"] == 1).await;
        assert!(lab.is_held(name).await, "{name}");
    }
    assert_eq!(lab.overview().await["sessions"], 2);
}

#[tokio::test]
async fn many_requests_on_one_connection_are_answered_in_order() {
    let lab = Lab::start("memory:pipelined", Limits::default()).await;
    let mut stream = lab.dial_unix().await;
    let requests: Vec<u8> = (0..20).flat_map(|number| acquire(&format!("n{number}"), "{}")).collect();
    stream.write_all(&requests).await.unwrap();
    let mut bytes = Vec::new();
    while String::from_utf8_lossy(&bytes).matches("\"token\"").count() < 20 {
        assert_ne!(within("an answer", LIMIT, stream.read_buf(&mut bytes)).await.unwrap(), 0);
    }
    drop(stream);
    until("the connection is gone", LIMIT, async || lab.overview().await["connections"] == 1).await;
    assert_eq!(lab.overview().await["sessions"], 20);
}

#[tokio::test]
async fn a_hold_ends_with_its_connection() {
    let lab = Lab::start("memory:hold-ends", Limits::default()).await;
    let mut stream = lab.dial().await;
    stream.write_all(b"GET /v1/locks/a/hold HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    while !String::from_utf8_lossy(&response).contains("event: held") {
        assert_ne!(within("an event", LIMIT, stream.read_buf(&mut response)).await.unwrap(), 0);
    }
    assert!(lab.is_held("a").await);
    drop(stream);
    until("it is free", BEFORE_TTL, async || !lab.is_held("a").await).await;
}

#[tokio::test]
async fn a_shutdown_answers_waiters_and_closes_idle_connections() {
    let mut lab = Lab::start("memory:wire-shutdown", Limits::default()).await;
    let guard = lab.nodes.named("a").unwrap().acquire().await.unwrap();
    let (mut idle, mut waiting) = (lab.dial().await, lab.dial_unix().await);
    waiting.write_all(&acquire("a", FOREVER)).await.unwrap();
    lab.waiters(1).await;
    let (ended, has_ended) = oneshot::channel();
    lab.shutdown.cancel();
    let serving = std::mem::replace(&mut lab.serving, tokio::spawn(async {}));
    tokio::spawn(async move {
        serving.await.unwrap();
        let _ = ended.send(());
    });
    let response = rest(&mut waiting).await;
    assert!(response.starts_with("HTTP/1.1 503") && response.contains("shutting_down"), "{response}");
    assert_eq!(rest(&mut idle).await, "");
    tokio::time::timeout(LIMIT, has_ended).await.unwrap().unwrap();
    assert!(!lab.unix.exists(), "the socket is removed");
    drop(guard);
}
