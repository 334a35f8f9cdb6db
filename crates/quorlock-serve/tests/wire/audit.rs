//! Which process released a lock by force, as the kernel identifies it.

use crate::kit::{LIMIT, Lab, acquire, answer};
use quorlock_serve::Limits;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Goal: on a socket of the file system, the event log names the user and the process that released a
/// lock by force.
#[tokio::test]
async fn a_forced_release_over_a_unix_socket_names_user_and_process() {
    let lab = Lab::start("memory:", Limits::default()).await;
    let mut stream = lab.dial_unix().await;
    stream.write_all(&acquire("job", "{}")).await.unwrap();
    let response = answer(&mut stream).await;
    let lease: Value = serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap();
    let body = format!("{{\"token\": {}}}", lease["token"]);
    let forced = String::from_utf8(acquire("job", &body)).unwrap().replace("/acquire", "/force-release");
    stream.write_all(forced.as_bytes()).await.unwrap();
    assert!(answer(&mut stream).await.starts_with("HTTP/1.1 200"));
    let mut events = lab.dial_unix().await;
    events.write_all(b"GET /v1/events?after=0 HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut text = String::new();
    let reading = async {
        let mut piece = [0; 4096];
        while !text.contains("force_released") || !text.ends_with("\n\n\r\n") {
            let read = events.read(&mut piece).await.unwrap();
            text.push_str(&String::from_utf8_lossy(&piece[..read]));
        }
    };
    tokio::time::timeout(LIMIT, reading).await.unwrap();
    let peer = format!(
        "unix:uid={},pid={}",
        rustix::process::getuid().as_raw(),
        rustix::process::getpid().as_raw_nonzero()
    );
    assert!(text.contains(&format!("\"peer\":\"{peer}\"")), "{text}");
    assert!(text.contains("\"secret\":null") && text.contains("\"scope\":\"write\""), "{text}");
}
