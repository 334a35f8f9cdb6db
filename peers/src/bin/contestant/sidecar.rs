//! quorlock through its sidecar: a process of its own, asked over a unix socket by clients on kept connections.

use crate::drive::{self, Library};
use crate::{refuse_others, versions};
use anyhow::{Context, Result, bail, ensure};
use peers::protocol::Order;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::OnceCell;

pub async fn run(order: Order) -> Result<()> {
    refuse_others(&order)?;
    drive::run(Sidecar::start(&order)?, order).await
}

/// The program that is built from the main workspace.
fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/quorlock")
}

struct Sidecar {
    process: Mutex<Child>,
    id: u32,
    socket: PathBuf,
    ttl_ms: u128,
    _directory: TempDir,
}

impl Sidecar {
    fn start(order: &Order) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let socket = directory.path().join("socket");
        let mut command = Command::new(program());
        command.arg("serve").arg("--listen").arg(format!("unix:{}", socket.display()));
        command.arg("--nodes").arg(order.nodes.join(","));
        // Nothing of the user's own configuration.
        command.env("HOME", directory.path()).env("XDG_CONFIG_HOME", directory.path());
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the sidecar")?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("no output")?).read_line(&mut line)?;
        ensure!(line.starts_with("listening"), "the sidecar said {line:?}");
        let (id, ttl_ms) = (process.id(), order.ttl().as_millis());
        Ok(Self { process: Mutex::new(process), id, socket, ttl_ms, _directory: directory })
    }
}

/// One client's connection, and what it asks for.
struct Client {
    name: String,
    stream: OnceCell<tokio::sync::Mutex<UnixStream>>,
}

impl Client {
    async fn post(&self, socket: &Path, verb: &str, body: &str) -> Result<(bool, String)> {
        let connect = || async { UnixStream::connect(socket).await.map(tokio::sync::Mutex::new) };
        let mut stream = self.stream.get_or_try_init(connect).await?.lock().await;
        let request = format!(
            "POST /v1/locks/{}/{verb} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.name,
            body.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::with_capacity(1024);
        loop {
            if stream.read_buf(&mut answer).await? == 0 {
                bail!("the sidecar hung up");
            }
            let text = std::str::from_utf8(&answer)?;
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")).context("no length")?;
            if body.len() >= length.parse()? {
                return Ok((head.starts_with("HTTP/1.1 200"), body.to_owned()));
            }
        }
    }
}

impl Library for Sidecar {
    type Lock = std::sync::Arc<Client>;
    type Held = (std::sync::Arc<Client>, String);

    fn version(&self) -> String {
        versions::of("quorlock").to_owned()
    }

    fn lock(&self, name: &str) -> Self::Lock {
        Client { name: name.to_owned(), stream: OnceCell::new() }.into()
    }

    async fn acquire(&self, client: &Self::Lock) -> Option<Self::Held> {
        let body = format!("{{\"ttl_ms\":{},\"wait_ms\":10000}}", self.ttl_ms);
        let (granted, lease) = client.post(&self.socket, "acquire", &body).await.ok()?;
        let lease: serde_json::Value = granted.then(|| serde_json::from_str(&lease).ok())??;
        Some((client.clone(), lease["token"].as_str()?.to_owned()))
    }

    async fn release(&self, (client, token): Self::Held) {
        let _ = client.post(&self.socket, "release", &format!("{{\"token\":\"{token}\"}}")).await;
    }

    fn other_cpu_us(&self) -> u64 {
        // The 14th and 15th field, behind a name that may contain spaces; in hundredths of a second.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id)).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10_000
    }

    fn finish(&self) {
        let mut process = self.process.lock().expect("nobody panics with it");
        let _ = process.kill();
        let _ = process.wait();
    }
}
