//! Goal: each fault of the proxy does what its name says, and ends when it is taken back.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use quorlock_testkit::proxy::Fault;
use quorlock_testkit::{Proxy, Server, until};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PING: &[u8] = b"PING\r\n";
const PONG: &str = "+PONG\r\n";

/// Long enough for any answer to come.
const LONG: Duration = Duration::from_secs(10);

/// Long enough to believe that an answer does not come.
const SHORT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn pass_passes() {
    let (_server, proxy, mut client) = setting().await;
    assert_eq!(ask(&mut client, PING).await, PONG);
    assert_eq!(proxy.url(), format!("redis://127.0.0.1:{}", proxy.port()));
}

#[tokio::test]
async fn a_delay_counts_for_each_reply_and_not_for_their_sum() {
    let (_server, proxy, mut client) = setting().await;
    let delay = Duration::from_millis(200);
    proxy.set(Fault::Delay(delay)).await;
    let start = Instant::now();
    client.write_all(PING).await.unwrap();
    tokio::time::sleep(delay / 2).await;
    client.write_all(PING).await.unwrap();
    assert_eq!(read(&mut client, PONG.len() * 2).await, PONG.repeat(2));
    assert!(start.elapsed() >= delay * 3 / 2);
    assert!(start.elapsed() < delay * 2, "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_distance_counts_for_requests_and_for_replies() {
    let (server, proxy, mut client) = setting().await;
    let distance = Duration::from_millis(200);
    proxy.set(Fault::Distance(distance)).await;
    let start = Instant::now();
    client.write_all(b"INCR x\r\n").await.unwrap();
    tokio::time::sleep(distance / 4).await;
    assert_eq!(server.cli(&["GET", "x"]), "", "it is on its way");
    assert_eq!(read(&mut client, 4).await, ":1\r\n");
    assert!(start.elapsed() >= 2 * distance, "{:?}", start.elapsed());
}

#[tokio::test]
async fn what_is_held_arrives_later() {
    let (server, proxy, mut client) = setting().await;
    proxy.set(Fault::Hold).await;
    client.write_all(b"INCR x\r\n").await.unwrap();
    assert!(is_silent(&mut client).await);
    assert_eq!(server.cli(&["GET", "x"]), "");
    proxy.set(Fault::Pass).await;
    assert_eq!(read(&mut client, 4).await, ":1\r\n");
}

#[tokio::test]
async fn held_replies_belong_to_requests_that_were_executed() {
    let (server, proxy, mut client) = setting().await;
    proxy.set(Fault::HoldReplies).await;
    client.write_all(b"INCR x\r\n").await.unwrap();
    until("executed", LONG, async || server.cli(&["GET", "x"]) == "1").await;
    assert!(is_silent(&mut client).await);
    proxy.set(Fault::Pass).await;
    assert_eq!(read(&mut client, 4).await, ":1\r\n");
}

#[tokio::test]
async fn swallowed_requests_never_happened() {
    let (server, proxy, mut client) = setting().await;
    proxy.set(Fault::Swallow).await;
    client.write_all(b"INCR x\r\n").await.unwrap();
    assert!(is_silent(&mut client).await);
    proxy.set(Fault::Pass).await;
    assert_eq!(ask(&mut client, PING).await, PONG);
    assert_eq!(server.cli(&["GET", "x"]), "");
}

#[tokio::test]
async fn swallowed_replies_belong_to_requests_that_were_executed() {
    let (server, proxy, mut client) = setting().await;
    proxy.set(Fault::SwallowReplies).await;
    client.write_all(b"INCR x\r\n").await.unwrap();
    until("executed", LONG, async || server.cli(&["GET", "x"]) == "1").await;
    assert!(is_silent(&mut client).await);
    proxy.set(Fault::Pass).await;
    assert_eq!(ask(&mut client, PING).await, PONG);
}

#[tokio::test]
async fn garbage_is_no_reply() {
    let (_server, proxy, mut client) = setting().await;
    proxy.set(Fault::Garbage).await;
    assert_eq!(ask(&mut client, PING).await, "?".repeat(PONG.len()));
}

#[tokio::test]
async fn a_huge_length_stands_before_the_reply() {
    let (_server, proxy, mut client) = setting().await;
    proxy.set(Fault::Huge(b"*2147483647\r\n")).await;
    client.write_all(PING).await.unwrap();
    assert_eq!(read(&mut client, 13 + PONG.len()).await, format!("*2147483647\r\n{PONG}"));
}

#[tokio::test]
async fn a_duplicated_reply_belongs_to_one_request() {
    let (server, proxy, mut client) = setting().await;
    proxy.set(Fault::DuplicateReplies).await;
    client.write_all(b"INCR x\r\n").await.unwrap();
    assert_eq!(read(&mut client, 8).await, ":1\r\n:1\r\n");
    assert_eq!(server.cli(&["GET", "x"]), "1");
}

#[tokio::test]
async fn a_duplicated_request_is_executed_and_answered_twice() {
    let (_server, proxy, mut client) = setting().await;
    proxy.set(Fault::DuplicateRequests).await;
    client.write_all(b"INCR x\r\n").await.unwrap();
    assert_eq!(read(&mut client, 8).await, ":1\r\n:2\r\n");
}

#[tokio::test]
async fn a_drip_is_slow_but_complete() {
    let (_server, proxy, mut client) = setting().await;
    let pause = Duration::from_millis(20);
    proxy.set(Fault::Drip(pause)).await;
    let start = Instant::now();
    assert_eq!(ask(&mut client, PING).await, PONG);
    assert!(start.elapsed() >= pause * 6);
}

#[tokio::test]
async fn a_cut_closes_what_exists_and_lets_new_clients_in() {
    let (_server, proxy, mut client) = setting().await;
    assert_eq!(ask(&mut client, PING).await, PONG);
    proxy.cut();
    assert_closed(&mut client).await;
    let mut client = connect(&proxy).await.unwrap();
    assert_eq!(ask(&mut client, PING).await, PONG);
}

#[tokio::test]
async fn refusing_keeps_old_clients_and_ends() {
    let (_server, proxy, mut client) = setting().await;
    assert_eq!(ask(&mut client, PING).await, PONG);
    proxy.set(Fault::Refuse).await;
    assert!(connect(&proxy).await.is_err());
    assert_eq!(ask(&mut client, PING).await, PONG);
    proxy.set(Fault::Pass).await;
    assert_eq!(ask(&mut connect(&proxy).await.unwrap(), PING).await, PONG);
}

#[tokio::test]
async fn a_server_that_restarts_is_found_again() {
    let (mut server, proxy, mut client) = setting().await;
    assert_eq!(ask(&mut client, PING).await, PONG);
    server.restart();
    assert_closed(&mut client).await;
    assert_eq!(ask(&mut connect(&proxy).await.unwrap(), PING).await, PONG);
}

#[tokio::test]
async fn dropping_the_proxy_closes_everything() {
    let (_server, proxy, mut client) = setting().await;
    assert_eq!(ask(&mut client, PING).await, PONG);
    drop(proxy);
    assert_closed(&mut client).await;
}

async fn setting() -> (Server, Proxy, TcpStream) {
    let server = Server::start();
    let proxy = Proxy::start(server.port()).await;
    let client = connect(&proxy).await.unwrap();
    (server, proxy, client)
}

async fn connect(proxy: &Proxy) -> std::io::Result<TcpStream> {
    TcpStream::connect(("127.0.0.1", proxy.port())).await
}

async fn ask(client: &mut TcpStream, request: &[u8]) -> String {
    client.write_all(request).await.unwrap();
    read(client, PONG.len()).await
}

async fn read(client: &mut TcpStream, length: usize) -> String {
    let mut bytes = vec![0; length];
    let all = client.read_exact(&mut bytes);
    timeout(LONG, all).await.expect("an answer").unwrap();
    String::from_utf8(bytes).unwrap()
}

async fn is_silent(client: &mut TcpStream) -> bool {
    timeout(SHORT, client.readable()).await.is_err()
}

async fn assert_closed(client: &mut TcpStream) {
    let end = timeout(LONG, client.read(&mut [0; 16])).await;
    assert!(matches!(end.expect("an end"), Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_refusing_port_is_closed_though_another_thread_starts_processes() {
    let (_server, proxy, _client) = setting().await;
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let starter = std::thread::spawn(move || {
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            std::process::Command::new("true").status().unwrap();
        }
    });
    for _ in 0..200 {
        proxy.set(Fault::Refuse).await;
        assert!(connect(&proxy).await.is_err());
        proxy.set(Fault::Pass).await;
        connect(&proxy).await.unwrap();
    }
    drop(stop);
    starter.join().unwrap();
}
