//! Nobody can keep the sidecar busy by being slow, or by being many.

use crate::kit::{LIMIT, Lab, acquire, answer, rest};
use quorlock_serve::Limits;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
    let said = rest(&mut reading).await;
    assert!(!said.contains("200 OK"), "{said}");
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
    let said = rest(&mut reading).await;
    assert!(said.starts_with("HTTP/1.1 400") && said.contains("bad_request"), "{said}");
    tokio::time::timeout(LIMIT, dribbling).await.unwrap().unwrap();
    assert!(!lab.is_held("a").await);
}

#[tokio::test]
async fn idle_connections_end_also_after_a_request() {
    let lab = Lab::start("memory:", impatient()).await;
    let mut silent = lab.dial().await;
    assert_eq!(rest(&mut silent).await, "");
    let mut used = lab.dial_unix().await;
    used.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(rest(&mut used).await.starts_with("HTTP/1.1 200"));
    quorlock_testkit::until("all are gone", LIMIT, async || lab.overview().await["connections"] == 1).await;
}

#[tokio::test]
async fn heads_have_an_end() {
    let lab = Lab::start("memory:", Limits::default()).await;
    let mut stream = lab.dial().await;
    let long = format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(200_000));
    let _ = stream.write_all(long.as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    let mut stream = lab.dial().await;
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1000));
    let _ = stream.write_all(many.as_bytes()).await;
    let said = rest(&mut stream).await;
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431"), "{said}");
}

#[tokio::test]
async fn noise_is_hung_up_on() {
    let lab = Lab::start("memory:", Limits::default()).await;
    for noise in
        [&b"\0\0\0\0\r\n\r\n"[..], b"GET\r\n\r\n", b"*1\r\n$4\r\nPING\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n"]
    {
        let mut stream = lab.dial().await;
        stream.write_all(noise).await.unwrap();
        let said = rest(&mut stream).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 400"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_idle_connections_fit_and_one_more_is_turned_away() {
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum }
    });
    let mut limits = Limits::default();
    limits.connections = 2000;
    limits.head = Duration::from_secs(600);
    let lab = Lab::start("memory:", limits).await;
    let mut idle = Vec::new();
    for _ in 0..1999 {
        idle.push(lab.dial().await);
    }
    let mut last = lab.dial().await;
    last.write_all(&acquire("a", "{}")).await.unwrap();
    assert!(answer(&mut last).await.starts_with("HTTP/1.1 200"), "those inside are served");
    let mut turned_away = lab.dial().await;
    let mut said = String::new();
    let _ = turned_away.read_to_string(&mut said).await;
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("\"code\":\"full\""), "{said}");
    drop(idle);
    quorlock_testkit::until("there is room again", LIMIT, async || {
        let mut stream = lab.dial().await;
        let _ =
            stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        rest(&mut stream).await.starts_with("HTTP/1.1 200")
    })
    .await;
}

#[tokio::test]
async fn a_refused_caller_that_sends_its_body_late_still_gets_its_answer() {
    let lab = Lab::start("memory:", Limits::default()).await;
    let mut stream = lab.dial().await;
    let head = "POST /v1/locks/a/acquire HTTP/1.1\r\nhost: evil.example\r\ncontent-type: application/json\r\n\
                content-length: 12\r\n\r\n";
    for _ in 0..2 {
        stream.write_all(head.as_bytes()).await.unwrap();
        sleep(Duration::from_millis(50)).await;
        stream.write_all(b"{\"wait_ms\":1").await.unwrap();
        let said = answer(&mut stream).await;
        assert!(said.starts_with("HTTP/1.1 421"), "{said}");
    }
}
