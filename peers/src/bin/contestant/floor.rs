//! The limit: one write per node for the commands of all clients, then all answers; on blocking sockets or on tokio.

use crate::usage::Usage;
use crate::{answer, told};
use anyhow::{Context, Result, ensure};
use peers::histogram::{BUCKETS, Histogram, bucket_of};
use peers::protocol::{Order, Outcome, Workload};
use rustix::event::{PollFd, PollFlags, poll};
use std::future::poll_fn;
use std::io::{Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpStream;
use std::pin::Pin;
use std::task::{Context as Task, Poll};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::{AsyncRead, AsyncWriteExt, ReadBuf};

/// Which limit is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One script call frees all locks of a batch.
    Merged,
    /// A script call for each.
    Split,
    /// The same, and a majority of answers is enough.
    Quorum,
    /// One script call for all, a majority is enough, and the votes are those of quorlock as it comes: they raise a fence and
    /// read whether the server remembers.
    Fenced,
    /// The same on tokio, with one task for all nodes: no task per connection, no timer, no lock.
    Async,
}

impl Kind {
    /// Whether the votes are those of quorlock as it comes.
    fn is_fenced(self) -> bool {
        matches!(self, Kind::Fenced | Kind::Async)
    }
}

/// Frees each name that holds its token; answers how many.
const SCRIPT: &str = "local n = 0 for i, k in ipairs(KEYS) do \
    if redis.call('GET', k) == ARGV[i] then n = n + redis.call('DEL', k) end end return n";

pub async fn run(order: Order, kind: Kind) -> Result<()> {
    ensure!(order.workload == Workload::Own, "does not wait and keeps no lock alive");
    // In a task, as the clients of the other contestants.
    tokio::spawn(async move {
        let mut floor = Floor::connect(&order, kind)?;
        if order.warmup > 0.0 {
            floor.measure(order.warmup).await?;
        }
        told()?;
        let outcome = floor.measure(order.seconds).await?;
        answer(&outcome)
    })
    .await?
}

struct Floor {
    nodes: Vec<Socket>,
    kind: Kind,
    clients: Vec<Client>,
    ttl: String,
    /// The hash of the script.
    sha: String,
    acquires: Batch,
    releases: Batch,
    /// So many nodes must answer.
    enough: usize,
}

struct Client {
    name: String,
    token: String,
}

/// What is sent to every node in one write.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// How many lines the answers have.
    answers: usize,
}

impl Floor {
    fn connect(order: &Order, kind: Kind) -> Result<Self> {
        let mut nodes = order.nodes.iter().map(|url| Socket::open(url)).collect::<Result<Vec<_>>>()?;
        let mut sha = String::new();
        for node in &mut nodes {
            sha = node.load_script()?;
            if kind == Kind::Async {
                node.become_async()?;
            }
        }
        let client = |number| Client { name: order.name(number), token: format!("{number:032x}") };
        let enough = match kind {
            Kind::Merged | Kind::Split => nodes.len(),
            Kind::Quorum | Kind::Fenced | Kind::Async => nodes.len() / 2 + 1,
        };
        let mut floor = Self {
            nodes,
            kind,
            clients: (0..order.clients).map(client).collect(),
            ttl: order.ttl_ms.to_string(),
            sha,
            acquires: Batch::default(),
            releases: Batch::default(),
            enough,
        };
        floor.encode(None);
        Ok(floor)
    }

    /// Encodes the commands of one round, with a `fence` if they have one.
    fn encode(&mut self, fence: Option<&str>) {
        let value = |client: &Client| match fence {
            // As long as what quorlock stores.
            Some(fence) => format!("{} {fence} somebody@somewhere 12345 {fence}", client.token),
            None => client.token.clone(),
        };
        let values: Vec<String> = self.clients.iter().map(value).collect();
        self.acquires.clear();
        for (client, value) in self.clients.iter().zip(&values) {
            self.acquires.push(&["SET", &client.name, value, "NX", "PX", &self.ttl], 1);
            if let Some(fence) = fence {
                let key = format!("quorlock:fence:{{{}}}", client.name);
                self.acquires.push(&["ZADD", &key, "GT", "CH", fence, "f"], 1);
            }
        }
        if fence.is_some() {
            self.acquires.push(&["GETRANGE", "quorlock:epoch", "0", "-1"], 2);
        }
        let batch = match self.kind {
            Kind::Merged | Kind::Fenced | Kind::Async => self.clients.len(),
            Kind::Split | Kind::Quorum => 1,
        };
        self.releases.clear();
        for (clients, values) in self.clients.chunks(batch).zip(values.chunks(batch)) {
            let count = clients.len().to_string();
            let mut words = vec!["EVALSHA", &self.sha, &count];
            words.extend(clients.iter().map(|client| client.name.as_str()));
            words.extend(values.iter().map(String::as_str));
            self.releases.push(&words, 1);
        }
    }

    async fn measure(&mut self, seconds: f64) -> Result<Outcome> {
        let before = Usage::now();
        let end = Instant::now() + Duration::from_secs_f64(seconds);
        let mut waits = vec![0; BUCKETS];
        let mut rounds = 0;
        loop {
            let asked = Instant::now();
            if asked >= end {
                break;
            }
            if self.kind.is_fenced() {
                let wall = SystemTime::now().duration_since(UNIX_EPOCH)?;
                self.encode(Some(&wall.as_micros().to_string()));
            }
            self.exchange(|floor| &floor.acquires).await?;
            waits[bucket_of(asked.elapsed())] += self.clients.len() as u64;
            self.exchange(|floor| &floor.releases).await?;
            rounds += u64::from(Instant::now() < end);
        }
        let used = Usage::now().since(before);
        Ok(Outcome {
            version: "-".to_owned(),
            seconds,
            cycles: rounds * self.clients.len() as u64,
            handoffs: None,
            failed: 0,
            least: rounds,
            most: rounds,
            cpu_us: used.cpu_us,
            acquire: Histogram::of(waits),
            allocs: Some(used.allocs),
        })
    }

    /// Writes a batch to every node, then reads the answers of all, or of those that are enough.
    async fn exchange(&mut self, batch: fn(&Self) -> &Batch) -> Result<()> {
        let (bytes, answers) = (batch(self).bytes.clone(), batch(self).answers);
        for node in &mut self.nodes {
            node.write_all(&bytes).await?;
        }
        self.nodes.iter_mut().for_each(|node| node.owed += answers);
        if self.enough == self.nodes.len() && self.kind != Kind::Async {
            return self.nodes.iter_mut().try_for_each(Socket::read_all);
        }
        while self.nodes.iter().filter(|node| node.owed == 0).count() < self.enough {
            let mut silent: Vec<&mut Socket> = self.nodes.iter_mut().filter(|node| node.owed > 0).collect();
            if self.kind == Kind::Async {
                poll_fn(|task| poll_read(&mut silent, task)).await?;
                continue;
            }
            for node in readable(&mut silent)? {
                silent[node].read_some()?;
            }
        }
        Ok(())
    }
}

impl Batch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.answers = 0;
    }

    /// Adds a command whose answer has so many lines.
    fn push(&mut self, words: &[&str], lines: usize) {
        command(&mut self.bytes, words);
        self.answers += lines;
    }
}

/// Waits until one of `nodes` at least has something to read; which ones.
fn readable(nodes: &mut [&mut Socket]) -> Result<Vec<usize>> {
    let mut polled: Vec<_> =
        nodes.iter().filter_map(|node| Some(PollFd::new(node.stream.blocking()?, PollFlags::IN))).collect();
    poll(&mut polled, None)?;
    let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
    Ok(polled.iter().enumerate().filter(|(_, fd)| is_ready(fd)).map(|(node, _)| node).collect())
}

/// Reads what has come from `nodes`; ready once that was something.
fn poll_read(nodes: &mut [&mut Socket], task: &mut Task<'_>) -> Poll<Result<()>> {
    let mut has_come = false;
    for node in nodes {
        let Stream::Async(stream) = &mut node.stream else { continue };
        let mut buffer = [MaybeUninit::uninit(); 16 * 1024];
        let mut read = ReadBuf::uninit(&mut buffer);
        if Pin::new(stream).poll_read(task, &mut read)?.is_ready() {
            node.count(read.filled())?;
            has_come = true;
        }
    }
    if has_come { Poll::Ready(Ok(())) } else { Poll::Pending }
}

struct Socket {
    stream: Stream,
    /// Lines of answers that have not come.
    owed: usize,
}

enum Stream {
    Blocking(TcpStream),
    Async(tokio::net::TcpStream),
}

impl Stream {
    fn blocking(&self) -> Option<&TcpStream> {
        match self {
            Stream::Blocking(stream) => Some(stream),
            Stream::Async(_) => None,
        }
    }
}

impl Socket {
    fn open(url: &str) -> Result<Self> {
        let stream = TcpStream::connect(url.trim_start_matches("redis://")).context("no connection")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: Stream::Blocking(stream), owed: 0 })
    }

    fn become_async(&mut self) -> Result<()> {
        let stream = self.stream.blocking().context("it is")?.try_clone()?;
        stream.set_nonblocking(true)?;
        self.stream = Stream::Async(tokio::net::TcpStream::from_std(stream)?);
        Ok(())
    }

    fn load_script(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        command(&mut bytes, &["SCRIPT", "LOAD", SCRIPT]);
        self.stream.blocking().context("it is used later")?.write_all(&bytes)?;
        self.owed = 2;
        let mut text = String::new();
        while self.owed > 0 {
            text += &self.read_some()?;
        }
        Ok(text.lines().nth(1).context("no hash")?.to_owned())
    }

    async fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.stream {
            Stream::Blocking(stream) => stream.write_all(bytes)?,
            Stream::Async(stream) => stream.write_all(bytes).await?,
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result<()> {
        while self.owed > 0 {
            self.read_some()?;
        }
        Ok(())
    }

    /// Reads what has come, or waits for it.
    fn read_some(&mut self) -> Result<String> {
        let mut buffer = [0; 16 * 1024];
        let length = self.stream.blocking().context("it would not wait")?.read(&mut buffer)?;
        self.count(&buffer[..length])
    }

    /// Counts what was read, which is returned. Nothing may begin like an error or a refusal.
    fn count(&mut self, read: &[u8]) -> Result<String> {
        ensure!(!read.is_empty(), "the server closed the connection");
        let text = std::str::from_utf8(read)?;
        ensure!(!text.starts_with('-') && !text.starts_with("$-1"), "refused: {text}");
        let lines = text.bytes().filter(|byte| *byte == b'\n').count();
        self.owed = self.owed.checked_sub(lines).context("an answer to no question")?;
        Ok(text.to_owned())
    }
}

fn command(out: &mut Vec<u8>, words: &[&str]) {
    out.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        out.extend(format!("${}\r\n{word}\r\n", word.len()).bytes());
    }
}
