//! A client of the sidecar's HTTP API: requests one after another on one kept connection to a unix socket.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::path::Path;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

/// Room for a request, and for a response with a lease.
const BUFFER: usize = 1024;

/// A connection, and the names of one client in it.
pub struct HttpClient {
    stream: UnixStream,
    /// The path of the lock, without the verb.
    path: String,
    buffer: Vec<u8>,
}

/// What a client needs of a lease.
#[derive(Deserialize)]
struct Lease {
    token: String,
}

impl HttpClient {
    pub async fn connect(socket: &Path, name: &str) -> Result<Self> {
        let stream = UnixStream::connect(socket).await?;
        Ok(Self { stream, path: format!("/v1/locks/{name}"), buffer: Vec::with_capacity(BUFFER) })
    }

    /// Acquires the lock. Returns its token, or `None` if it was refused.
    pub async fn acquire(&mut self, ttl_ms: u128) -> Result<Option<String>> {
        let body = format!("{{\"ttl_ms\":{ttl_ms},\"wait_ms\":10000}}");
        let (is_granted, lease) = self.post("acquire", &body).await?;
        if !is_granted {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice::<Lease>(lease)?.token))
    }

    pub async fn release(&mut self, token: &str) -> Result<()> {
        self.post("release", &format!("{{\"token\":\"{token}\"}}")).await?;
        Ok(())
    }

    /// Sends a request. Returns whether the response has status 200, and its body.
    async fn post(&mut self, verb: &str, body: &str) -> Result<(bool, &[u8])> {
        use std::io::Write;
        let Self { stream, path, buffer } = self;
        buffer.clear();
        write!(
            buffer,
            "POST {path}/{verb} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        stream.write_all(buffer).await?;
        buffer.clear();
        loop {
            if stream.read_buf(buffer).await? == 0 {
                bail!("the server closed the connection");
            }
            let Some((start, end)) = body_of(buffer)? else { continue };
            if buffer.len() >= end {
                return Ok((buffer.starts_with(b"HTTP/1.1 200"), &buffer[start..end]));
            }
        }
    }
}

/// Where the body of a response begins and ends; `None` if its head is incomplete.
fn body_of(response: &[u8]) -> Result<Option<(usize, usize)>> {
    let Some(head) = response.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&response[..head])?;
    let length = text.lines().find_map(|line| line.strip_prefix("content-length: ")).context("no length")?;
    Ok(Some((head + 4, head + 4 + length.parse::<usize>()?)))
}
