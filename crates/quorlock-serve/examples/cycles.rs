//! Measures how many locks per second a sidecar grants: clients on persistent connections acquire and
//! release a name each.
//!
//! ```sh
//! quorlock dev -- quorlock serve --listen unix:/tmp/sidecar.sock &
//! cargo run --release -p quorlock-serve --example cycles -- /tmp/sidecar.sock 100 10
//! ```

use serde_json::Value;
use std::env::args;
use std::error::Error;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let usage = "usage: cycles SOCKET CLIENTS SECONDS";
    let socket = args().nth(1).ok_or(usage)?;
    let clients: u32 = args().nth(2).ok_or(usage)?.parse()?;
    let span = Duration::from_secs(args().nth(3).ok_or(usage)?.parse()?);
    let end = Instant::now() + span;
    let mut tasks = JoinSet::new();
    for number in 0..clients {
        let socket = socket.clone();
        tasks.spawn(async move { cycle(&socket, number, end).await });
    }
    let mut times = Vec::new();
    while let Some(done) = tasks.join_next().await {
        times.extend(done??);
    }
    times.sort_unstable();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default();
    let cycles = times.len() as u64 / span.as_secs().max(1);
    println!("{cycles} cycles/s with {clients} clients; p50 {:?}, p99 {:?}", at(50), at(99));
    Ok(())
}

/// Acquires and releases until `end`; returns how long each cycle took.
async fn cycle(socket: &str, number: u32, end: Instant) -> Result<Vec<Duration>, Failure> {
    let mut stream = UnixStream::connect(socket).await?;
    let mut times = Vec::new();
    while Instant::now() < end {
        let start = Instant::now();
        let lease = post(&mut stream, number, "acquire", "{\"ttl_ms\":10000}").await?;
        // On a busy machine a vote may come too late; such a cycle does not count.
        let Some(token) = lease["token"].as_str() else { continue };
        post(&mut stream, number, "release", &format!("{{\"token\":\"{token}\"}}")).await?;
        times.push(start.elapsed());
    }
    Ok(times)
}

async fn post(stream: &mut UnixStream, number: u32, verb: &str, body: &str) -> Result<Value, Failure> {
    let length = body.len();
    let request = format!(
        "POST /v1/locks/cycle-{number}/{verb} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err("the sidecar closed the connection".into());
        }
        let text = std::str::from_utf8(&bytes)?;
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")).ok_or("no length")?;
        if body.len() >= length.parse::<usize>()? {
            return Ok(serde_json::from_str(body)?);
        }
    }
}
