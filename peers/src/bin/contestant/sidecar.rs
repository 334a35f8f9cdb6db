//! quorlock through its sidecar, and the same HTTP exchanges with a server that does nothing: clients on kept
//! connections to a unix socket of another process.

use crate::drive::{self, Library};
use crate::http_client::HttpClient;
use crate::{refuse_others, versions};
use anyhow::{Context, Result, ensure};
use peers::protocol::Order;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::sync::{Mutex, OnceCell};

/// Which server answers.
#[derive(Clone, Copy)]
pub enum Server {
    /// `quorlock serve`, built from the main workspace.
    Sidecar,
    /// [`crate::empty_server`].
    Empty,
}

pub async fn run(order: Order, server: Server) -> Result<()> {
    refuse_others(&order)?;
    drive::run(Served::start(&order, server)?, order).await
}

impl Server {
    fn command(self, socket: &Path, order: &Order) -> Result<Command> {
        let mut command;
        match self {
            Self::Sidecar => {
                let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/quorlock");
                command = Command::new(program);
                command.arg("serve").arg("--listen").arg(format!("unix:{}", socket.display()));
                command.arg("--nodes").arg(order.nodes.join(","));
            }
            Self::Empty => {
                command = Command::new(std::env::current_exe()?);
                command.arg("empty-server").arg("--listen").arg(socket);
            }
        }
        Ok(command)
    }
}

struct Served {
    process: std::sync::Mutex<Child>,
    id: u32,
    socket: PathBuf,
    ttl_ms: u128,
    _directory: TempDir,
}

impl Served {
    fn start(order: &Order, server: Server) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let socket = directory.path().join("socket");
        let mut command = server.command(&socket, order)?;
        // Nothing of the user's own configuration.
        command.env("HOME", directory.path()).env("XDG_CONFIG_HOME", directory.path());
        let mut process =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start the server")?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().context("no output")?).read_line(&mut line)?;
        ensure!(line.starts_with("listening"), "the server printed {line:?}");
        let (id, ttl_ms) = (process.id(), order.ttl().as_millis());
        Ok(Self { process: process.into(), id, socket, ttl_ms, _directory: directory })
    }
}

/// One client, connected at its first call.
struct Client {
    name: String,
    http: OnceCell<Mutex<HttpClient>>,
}

impl Client {
    async fn acquire(&self, server: &Served) -> Result<Option<String>> {
        let connect = || async { HttpClient::connect(&server.socket, &self.name).await.map(Mutex::new) };
        self.http.get_or_try_init(connect).await?.lock().await.acquire(server.ttl_ms).await
    }
}

impl Library for Served {
    type Lock = Arc<Client>;
    type Held = (Arc<Client>, String);

    fn version(&self) -> String {
        versions::of("quorlock").to_owned()
    }

    fn lock(&self, name: &str) -> Self::Lock {
        Arc::new(Client { name: name.to_owned(), http: OnceCell::new() })
    }

    async fn acquire(&self, client: &Self::Lock) -> Option<Self::Held> {
        let token = client.acquire(self).await.ok()??;
        Some((client.clone(), token))
    }

    async fn release(&self, (client, token): Self::Held) {
        if let Some(http) = client.http.get() {
            let _ = http.lock().await.release(&token).await;
        }
    }

    fn other_cpu_us(&self) -> u64 {
        // The 14th and 15th field, behind a name that may contain spaces; in hundredths of a second.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id)).unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
        fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10_000
    }

    fn finish(&self) {
        let mut process = self.process.lock().expect("no thread panics with it");
        let _ = process.kill();
        let _ = process.wait();
    }
}
