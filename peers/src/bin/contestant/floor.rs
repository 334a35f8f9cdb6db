//! The limit: blocking sockets, one write per node for the commands of all clients, then all answers.

use crate::usage::Usage;
use crate::{answer, told};
use anyhow::{Context, Result, ensure};
use peers::histogram::{BUCKETS, Histogram, bucket_of};
use peers::protocol::{Order, Outcome, Workload};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How the locks of a batch are freed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// One script call for all.
    Merged,
    /// A script call for each.
    Split,
}

/// Frees each name that holds its token; answers how many.
const SCRIPT: &str = "local n = 0 for i, k in ipairs(KEYS) do \
    if redis.call('GET', k) == ARGV[i] then n = n + redis.call('DEL', k) end end return n";

pub fn run(order: &Order, release: Release) -> Result<()> {
    ensure!(order.workload == Workload::Own, "does not wait and keeps no lock alive");
    let mut floor = Floor::connect(order, release)?;
    if order.warmup > 0.0 {
        floor.measure(order.warmup)?;
    }
    told()?;
    let outcome = floor.measure(order.seconds)?;
    answer(&outcome)
}

struct Floor {
    nodes: Vec<Socket>,
    acquires: Vec<u8>,
    releases: Vec<u8>,
    /// Answers to one batch of releases.
    release_answers: usize,
    clients: usize,
}

impl Floor {
    fn connect(order: &Order, release: Release) -> Result<Self> {
        let mut nodes = order.nodes.iter().map(|url| Socket::open(url)).collect::<Result<Vec<_>>>()?;
        let mut sha = String::new();
        for node in &mut nodes {
            sha = node.load_script()?;
        }
        let pairs: Vec<_> = (0..order.clients).map(|c| (order.name(c), format!("{c:032x}"))).collect();
        let ttl = order.ttl_ms.to_string();
        let mut acquires = Vec::new();
        for (name, token) in &pairs {
            command(&mut acquires, &["SET", name, token, "NX", "PX", &ttl]);
        }
        let batch = if release == Release::Merged { pairs.len() } else { 1 };
        let mut releases = Vec::new();
        for batch in pairs.chunks(batch) {
            let count = batch.len().to_string();
            let mut words = vec!["EVALSHA", &sha, &count];
            words.extend(batch.iter().map(|(name, _)| name.as_str()));
            words.extend(batch.iter().map(|(_, token)| token.as_str()));
            command(&mut releases, &words);
        }
        let release_answers = pairs.len().div_ceil(batch);
        Ok(Self { nodes, acquires, releases, release_answers, clients: order.clients })
    }

    fn measure(&mut self, seconds: f64) -> Result<Outcome> {
        let before = Usage::now();
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let mut waits = vec![0; BUCKETS];
        let mut rounds = 0;
        loop {
            let asked = Instant::now();
            if asked >= end {
                break;
            }
            self.exchange(|floor| (&floor.acquires, floor.clients))?;
            waits[bucket_of(asked.elapsed())] += self.clients as u64;
            self.exchange(|floor| (&floor.releases, floor.release_answers))?;
            rounds += u64::from(Instant::now() < end);
        }
        let used = Usage::now().since(before);
        Ok(Outcome {
            version: "-".to_owned(),
            seconds,
            cycles: rounds * self.clients as u64,
            failed: 0,
            least: rounds,
            most: rounds,
            cpu_us: used.cpu_us,
            acquire: Histogram::of(waits),
            allocs: Some(used.allocs),
        })
    }

    /// Writes a batch to every node, then reads all answers.
    fn exchange(&mut self, batch: fn(&Self) -> (&Vec<u8>, usize)) -> Result<()> {
        let (bytes, answers) = batch(self);
        for node in &self.nodes {
            (&node.0).write_all(bytes)?;
        }
        for node in &self.nodes {
            node.read_lines(answers)?;
        }
        Ok(())
    }
}

struct Socket(TcpStream);

impl Socket {
    fn open(url: &str) -> Result<Self> {
        let stream = TcpStream::connect(url.trim_start_matches("redis://")).context("no connection")?;
        stream.set_nodelay(true)?;
        Ok(Self(stream))
    }

    fn load_script(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        command(&mut bytes, &["SCRIPT", "LOAD", SCRIPT]);
        self.0.write_all(&bytes)?;
        let text = self.read_lines(2)?;
        Ok(text.lines().nth(1).context("no hash")?.to_owned())
    }

    /// Every answer here is a single line, and none is an error.
    fn read_lines(&self, count: usize) -> Result<String> {
        let mut text = Vec::new();
        let mut buffer = [0; 16 * 1024];
        let mut lines = 0;
        while lines < count {
            let length = (&self.0).read(&mut buffer)?;
            ensure!(length > 0, "the server closed the connection");
            lines += buffer[..length].iter().filter(|byte| **byte == b'\n').count();
            if text.len() < buffer.len() {
                text.extend_from_slice(&buffer[..length]);
            }
        }
        ensure!(
            !text.starts_with(b"-") && !text.starts_with(b"$-1"),
            "refused: {}",
            String::from_utf8_lossy(&text)
        );
        Ok(String::from_utf8(text)?)
    }
}

fn command(out: &mut Vec<u8>, words: &[&str]) {
    out.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        out.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
    }
}
