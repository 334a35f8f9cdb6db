//! Redis servers of our own: free ports, temporary directories, nothing on disk.

use crate::process::end_with_us;
use crate::server_program::ServerProgram;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than a server needs to start on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Clock ticks per second of `/proc`, the same on all usual builds of Linux.
const TICKS: u64 = 100;

/// Independent servers.
pub struct Servers(Vec<Server>);

impl Servers {
    pub fn start(count: usize, program: &ServerProgram) -> Result<Self> {
        (0..count).map(|_| Server::start(program)).collect::<Result<_>>().map(Self)
    }

    pub fn first(&self, count: usize) -> &[Server] {
        &self.0[..count]
    }
}

/// A running server. Dropping it ends it.
pub struct Server {
    child: Child,
    pub port: u16,
    _directory: TempDir,
}

impl Server {
    fn start(program: &ServerProgram) -> Result<Self> {
        let directory = TempDir::with_prefix("quorlock-peers-")?;
        // Free a moment ago; if another program takes it first, the server ends.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = end_with_us(&mut Command::new(&program.path))
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("{} could not be started", program.path.display()))?;
        let mut server = Self { child, port, _directory: directory };
        server.await_first_answer()?;
        Ok(server)
    }

    fn await_first_answer(&mut self) -> Result<()> {
        let start = Instant::now();
        while self.ask("PING").is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended: {status}");
            }
            ensure!(start.elapsed() < START_LIMIT, "the server is silent");
            sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Forgets everything, so that every run meets the same server.
    pub fn empty(&self) -> Result<()> {
        self.ask("FLUSHALL")?;
        self.ask("SCRIPT FLUSH").map(drop)
    }

    /// CPU time so far, user and system.
    pub fn cpu_us(&self) -> Result<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        // The name in brackets may contain anything; user and system ticks are 11 and 12 fields behind it.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks: u64 =
            fields.get(11..13).context("short stat")?.iter().flat_map(|f| f.parse::<u64>()).sum();
        Ok(ticks * 1_000_000 / TICKS)
    }

    /// Commands executed so far, those inside scripts included.
    pub fn commands(&self) -> Result<u64> {
        let stats = self.ask("INFO stats")?;
        let commands = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        Ok(commands.context("no count of commands")?.parse()?)
    }

    /// Sends an inline command; answers its text.
    fn ask(&self, command: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "{command}\r\nQUIT\r\n")?;
        let mut text = String::new();
        let mut lines = BufReader::new(stream);
        while lines.read_line(&mut text)? > 0 {}
        ensure!(!text.starts_with('-'), "{command}: {text}");
        Ok(text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended on its own; then there is only its status to collect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
