//! One server process.

use crate::process::parent_death::spawn_with_parent_death_signal;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// Below the ephemeral ports, where a client that connects to a dead port can connect to itself.
const PORTS: std::ops::Range<u16> = 10_000..32_000;
/// How many random ports are tried.
const MAX_PORTS: u32 = 1000;
const MAX_STARTS: u32 = 10;
/// Usually a start takes 20 ms; a busy machine may need longer.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(5);
/// What a server logs once it listens on its port.
const READY: &str = "eady to accept connections";

/// A running server. Dropping it kills it: it has no data to save.
#[derive(Debug)]
pub(super) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts one on a free port, and waits until it answers.
    ///
    /// # Errors
    /// It cannot be started, or ended at once; the error has the last line of its log.
    pub(super) async fn start(program: &Path, dir: &Path) -> io::Result<Self> {
        let mut last = io::Error::other("no port is free");
        for _ in 0..MAX_STARTS {
            let Some(port) = free_port() else { break };
            let mut server = Self::launch(program, dir, port)?;
            match server.wait_until_ready(dir).await {
                Ok(()) => return Ok(server),
                // Another program took the port first.
                Err(error) if error.to_string().contains("in use") => last = error,
                Err(error) => return Err(error),
            }
        }
        Err(last)
    }

    pub(super) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn launch(program: &Path, dir: &Path, port: u16) -> io::Result<Self> {
        let _ = fs::remove_file(log_file(dir));
        let mut command = Command::new(program);
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no"])
            .args(["--maxmemory-policy", "noeviction", "--loglevel", "notice"])
            .args(["--port", &port.to_string(), "--dir"])
            .arg(dir)
            .arg("--logfile")
            .arg(log_file(dir))
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C must reach only us; we stop the servers then.
            .process_group(0);
        Ok(Self { child: spawn_with_parent_death_signal(&mut command, None)?, port })
    }

    async fn wait_until_ready(&mut self, dir: &Path) -> io::Result<()> {
        let start = Instant::now();
        loop {
            let has_ended = self.has_ended();
            let log = fs::read_to_string(log_file(dir)).unwrap_or_default();
            if log.contains(READY) && !has_ended {
                return Ok(());
            }
            if has_ended || start.elapsed() > START_TIMEOUT {
                let last = log.lines().rfind(|line| !line.trim().is_empty());
                let last = last.unwrap_or("its log is empty").to_owned();
                return Err(io::Error::other(if log.contains("already in use") {
                    format!("port {} is in use", self.port)
                } else {
                    last
                }));
            }
            sleep(POLL).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; `wait` reaps it in any case.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log_file(dir: &Path) -> PathBuf {
    dir.join("server.log")
}

fn free_port() -> Option<u16> {
    let (random, count) = (RandomState::new(), u64::from(PORTS.end - PORTS.start));
    (0..MAX_PORTS)
        .filter_map(|attempt| u16::try_from(random.hash_one(attempt) % count).ok())
        .map(|offset| PORTS.start + offset)
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
}
