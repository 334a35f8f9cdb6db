//! Slow callers and many callers cannot keep the sidecar from serving the others.

use crate::kit::{LIMIT, Lab, acquire, answer, rest};
use quorlock_serve::Limits;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

fn impatient() -> Limits {
    let mut limits = Limits::default();
    limits.head = Duration::from_millis(400);
    limits.body = Duration::from_millis(400);
    limits
}

#[tokio::test]
async fn a_head_that_comes_in_drops_is_cut_off() {
    let lab = Lab::start("memory:", impatient()).await;
    let (mut reading, mut writing) = lab.dial().await.into_split();
    let dribbling = tokio::spawn(async move {
        writing.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
        while writing.write_all(b"y").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    });
    let response = rest(&mut reading).await;
    assert!(!response.contains("200 OK"), "{response}");
    tokio::time::timeout(LIMIT, dribbling).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_body_that_comes_in_drops_is_cut_off() {
    let lab = Lab::start("memory:", impatient()).await;
    let (mut reading, mut writing) = lab.dial().await.into_split();
    let dribbling = tokio::spawn(async move {
        let head = "POST /v1/locks/a/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n";
        writing.write_all(head.as_bytes()).await.unwrap();
        while writing.write_all(b" ").await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
    });
    let response = rest(&mut reading).await;
    assert!(response.starts_with("HTTP/1.1 400") && response.contains("bad_request"), "{response}");
    tokio::time::timeout(LIMIT, dribbling).await.unwrap().unwrap();
    assert!(!lab.is_held("a").await);
}

#[tokio::test]
async fn idle_connections_end_even_after_a_request() {
    let lab = Lab::start("memory:", impatient()).await;
    let mut silent = lab.dial().await;
    assert_eq!(rest(&mut silent).await, "");
    let mut used = lab.dial_unix().await;
    used.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(rest(&mut used).await.starts_with("HTTP/1.1 200"));
    quorlock_testkit::until("all are gone", LIMIT, async || lab.overview().await["connections"] == 1).await;
}

#[tokio::test]
async fn heads_have_a_limit() {
    let lab = Lab::start("memory:", Limits::default()).await;
    let mut stream = lab.dial().await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(200_000));
    let _ = stream.write_all(long.as_bytes()).await;
    let response = rest(&mut stream).await;
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 4"), "{response}");
    let mut stream = lab.dial().await;
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1000));
    let _ = stream.write_all(many.as_bytes()).await;
    let response = rest(&mut stream).await;
    assert!(response.is_empty() || response.starts_with("HTTP/1.1 431"), "{response}");
}

#[tokio::test]
async fn a_connection_that_sends_noise_is_closed() {
    let lab = Lab::start("memory:", Limits::default()).await;
    for noise in
        [&b"\0\0\0\0\r\n\r\n"[..], b"GET\r\n\r\n", b"*1\r\n$4\r\nPING\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n"]
    {
        let mut stream = lab.dial().await;
        stream.write_all(noise).await.unwrap();
        let response = rest(&mut stream).await;
        assert!(response.is_empty() || response.starts_with("HTTP/1.1 400"), "{response}");
    }
}

fn few(connections: usize) -> Limits {
    let mut limits = Limits::default();
    limits.connections = connections;
    limits
}

/// A request that asks for the end of its connection.
fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").into_bytes()
}

/// The response to a request on a new connection.
async fn request(lab: &Lab, path: &str) -> String {
    let mut stream = lab.dial().await;
    let _ = stream.write_all(&get(path)).await;
    rest(&mut stream).await
}

/// Opens `count` holds, which keep their connections busy.
async fn hold(lab: &Lab, count: usize) -> Vec<TcpStream> {
    let mut holds = Vec::new();
    for number in 0..count {
        let mut stream = lab.dial().await;
        stream.write_all(&get(&format!("/v1/locks/hold-{number}/hold"))).await.unwrap();
        let mut head = vec![0; 15];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!(head, b"HTTP/1.1 200 OK");
        holds.push(stream);
    }
    holds
}

/// Goal: callers that connect and send nothing keep no other caller out.
#[tokio::test]
async fn a_new_caller_evicts_the_connection_that_was_idle_longest() {
    let lab = Lab::start("memory:", few(4)).await;
    let mut idle = Vec::new();
    for _ in 0..4 {
        idle.push(lab.dial().await);
    }
    // A connection with half a head is idle as well.
    idle[0].write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
    // A connection that was used a moment ago is evicted last.
    idle[1].write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(answer(&mut idle[1]).await.starts_with("HTTP/1.1 200"));
    assert!(request(&lab, "/v1/locks").await.starts_with("HTTP/1.1 200"));
    assert_eq!(rest(&mut idle[0]).await, "", "the oldest was closed");
    let _holds = hold(&lab, 3).await;
    assert_eq!(rest(&mut idle[2]).await, "");
    idle[1].write_all(&get("/healthz")).await.unwrap();
    assert!(answer(&mut idle[1]).await.starts_with("HTTP/1.1 200"), "the youngest was not");
}

/// Goal: a sidecar with many callers is not killed by its orchestrator.
#[tokio::test]
async fn probes_are_answered_when_all_connections_are_busy() {
    let lab = Lab::start("memory:", few(4)).await;
    let holds = hold(&lab, 4).await;
    for path in ["/healthz", "/readyz"] {
        let response = request(&lab, path).await;
        assert!(response.starts_with("HTTP/1.1 200") && response.contains("connection: close"), "{response}");
    }
    for path in ["/v1/locks", "/", "/metrics"] {
        let response = request(&lab, path).await;
        assert!(response.starts_with("HTTP/1.1 503") && response.contains("\"code\":\"full\""), "{response}");
    }
    // Silent connections in the pool of probes keep no probe out.
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(lab.dial().await);
    }
    assert!(request(&lab, "/healthz").await.starts_with("HTTP/1.1 200"));
    drop(holds);
    quorlock_testkit::until("there is capacity again", LIMIT, async || {
        request(&lab, "/v1/locks").await.starts_with("HTTP/1.1 200")
    })
    .await;
}

#[tokio::test]
async fn a_caller_that_showed_a_secret_keeps_its_connection() {
    let lab = Lab::guarded("memory:", few(2), "read:reader-reader-reader\n").await;
    let mut known = lab.dial().await;
    let head =
        "GET /v1/locks HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer reader-reader-reader\r\n\r\n";
    known.write_all(head.as_bytes()).await.unwrap();
    assert!(answer(&mut known).await.starts_with("HTTP/1.1 200"));
    for _ in 0..10 {
        let _silent = lab.dial().await;
        assert!(request(&lab, "/healthz").await.starts_with("HTTP/1.1 200"));
    }
    known.write_all(head.as_bytes()).await.unwrap();
    assert!(answer(&mut known).await.starts_with("HTTP/1.1 200"), "it is still open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_idle_connections_fit_and_keep_no_caller_out() {
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum }
    });
    let mut limits = few(2000);
    limits.first_byte = Duration::from_secs(600);
    let lab = Lab::start("memory:", limits).await;
    let mut idle = Vec::new();
    for _ in 0..2000 {
        idle.push(lab.dial().await);
    }
    let open = async || lab.overview().await["connections"].as_u64();
    quorlock_testkit::until("they are open", LIMIT, async || open().await >= Some(1999)).await;
    let mut last = lab.dial().await;
    last.write_all(&acquire("a", "{}")).await.unwrap();
    assert!(answer(&mut last).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_connection_whose_first_byte_does_not_come_is_closed_soon() {
    let mut limits = Limits::default();
    limits.first_byte = Duration::from_millis(300);
    let lab = Lab::start("memory:", limits).await;
    let start = Instant::now();
    assert_eq!(rest(&mut lab.dial().await).await, "");
    assert_eq!(rest(&mut lab.dial_unix().await).await, "");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let mut used = lab.dial().await;
    used.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    assert!(answer(&mut used).await.starts_with("HTTP/1.1 200"));
    sleep(Duration::from_millis(600)).await;
    used.write_all(&get("/healthz")).await.unwrap();
    assert!(answer(&mut used).await.starts_with("HTTP/1.1 200"), "only the first request is urgent");
}

#[tokio::test]
async fn a_refused_caller_that_sends_its_body_late_still_gets_its_response() {
    let lab = Lab::start("memory:", Limits::default()).await;
    let mut stream = lab.dial().await;
    let head = "POST /v1/locks/a/acquire HTTP/1.1\r\nhost: evil.example\r\ncontent-type: application/json\r\n\
                content-length: 12\r\n\r\n";
    for _ in 0..2 {
        stream.write_all(head.as_bytes()).await.unwrap();
        sleep(Duration::from_millis(50)).await;
        stream.write_all(b"{\"wait_ms\":1").await.unwrap();
        let response = answer(&mut stream).await;
        assert!(response.starts_with("HTTP/1.1 421"), "{response}");
    }
}
