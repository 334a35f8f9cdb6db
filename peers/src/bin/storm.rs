//! Puts the rslock crate behind the protocol of a storm's client; see README.md.
//!
//! usage: storm ID SEED RESOURCE TTL_MS NODE_TIMEOUT_MS WAIT_MS URL...

use rslock::{Lock, LockManager};
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const NAMES: [&str; 3] = ["a", "b", "c"];
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

static IS_RECOVERING: AtomicBool = AtomicBool::new(false);

fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [id, seed, resource, ttl, _node_timeout, _wait, urls @ ..] = &words[..] else {
        anyhow::bail!("usage: storm ID SEED RESOURCE TTL_MS NODE_TIMEOUT_MS WAIT_MS URL...");
    };
    std::thread::spawn(follow_orders);
    let mut client = Client {
        id: id.clone(),
        random: Random(seed.parse()?),
        ttl: Duration::from_millis(ttl.parse()?),
        values: Resource::open(resource)?,
        // Its own retries: 3 tries, up to 200 ms apart. Its connections have a limit of 500 ms.
        locks: LockManager::new(urls.to_vec()),
        writes: 0,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(client.run())
}

/// Ends the process with its input.
fn follow_orders() {
    for _ in std::io::stdin().lines().map_while(Result::ok) {
        IS_RECOVERING.store(true, Ordering::Relaxed);
    }
    std::process::exit(0);
}

struct Client {
    id: String,
    random: Random,
    ttl: Duration,
    values: Resource,
    locks: LockManager,
    writes: u64,
}

/// A lock, and until when the library says that it is held, on the monotonic clock.
struct Held {
    lock: Lock,
    until: Duration,
}

impl Held {
    /// The library says for how long from its return on.
    fn new(lock: Lock) -> (Self, Duration) {
        let noted = now();
        let until = noted + Duration::from_millis(lock.validity_time as u64);
        (Self { lock, until }, noted)
    }

    fn is_over(&self) -> bool {
        now() >= self.until
    }
}

impl Client {
    async fn run(&mut self) -> anyhow::Result<()> {
        while !IS_RECOVERING.load(Ordering::Relaxed) {
            let name = NAMES[self.random.below(NAMES.len() as u64) as usize];
            if let Some(held) = self.acquire(name).await {
                let held = self.work_under(name, held).await?;
                self.release(held).await;
            }
            sleep(self.random.up_to(Duration::from_millis(10))).await;
        }
        for name in NAMES {
            self.recover(name).await;
        }
        report("done".to_owned());
        std::future::pending().await
    }

    async fn acquire(&mut self, name: &str) -> Option<Held> {
        let called = now();
        report(format!("calling acquire {}", called.as_micros()));
        let granted = self.locks.lock(name, self.ttl).await;
        report(format!("returned {}", now().as_micros()));
        let Ok(lock) = granted else {
            report("refused".to_owned());
            return None;
        };
        let (held, noted) = Held::new(lock);
        let times = [called, noted, held.until].map(|time| time.as_micros().to_string()).join(" ");
        report(format!("granted {name} 0 - {times}"));
        Some(held)
    }

    /// Reads, thinks, writes, again and again, while the library says that the lock is held. Mostly
    /// short; now and then beyond the ttl. Returns the lock as it was last extended.
    async fn work_under(&mut self, name: &str, mut held: Held) -> anyhow::Result<Held> {
        let (longest, step) = match self.random.below(100) < 2 {
            true => (2 * self.ttl, Duration::from_millis(80)),
            false => (Duration::from_millis(15), Duration::from_millis(5)),
        };
        let until = Instant::now() + Duration::from_millis(1) + self.random.up_to(longest);
        while Instant::now() < until && !held.is_over() {
            let parent = self.values.read(name)?;
            sleep(self.random.up_to(step)).await;
            if held.is_over() {
                // It writes all the same: a program cannot check and write in one step.
                report("late".to_owned());
            }
            self.writes += 1;
            self.values.write(name, &format!("{}.{}<{parent}", self.id, self.writes))?;
            if Instant::now() < until && held.until.saturating_sub(now()) < self.ttl / 2 {
                report(format!("calling extend {}", now().as_micros()));
                let extended = self.locks.extend(&held.lock, self.ttl).await;
                report(format!("returned {}", now().as_micros()));
                // A failed extension has released the lock.
                let Ok(lock) = extended else { break };
                let noted;
                (held, noted) = Held::new(lock);
                report(format!("extended {} {}", noted.as_micros(), held.until.as_micros()));
            }
        }
        Ok(held)
    }

    async fn release(&mut self, held: Held) {
        report(format!("releasing {} {}", now().as_micros(), held.is_over()));
        report(format!("calling release {}", now().as_micros()));
        held.lock.release().await;
        report(format!("returned {}", now().as_micros()));
    }

    async fn recover(&mut self, name: &str) {
        let start = Instant::now();
        let mut held = self.acquire(name).await;
        while held.is_none() && start.elapsed() < RECOVERY_LIMIT {
            held = self.acquire(name).await;
        }
        report(format!("recovered {name} {}", held.is_some()));
        if let Some(held) = held {
            self.release(held).await;
        }
    }
}

/// What the locks protect: a value for each name on a server that is always up.
struct Resource(BufReader<UnixStream>);

impl Resource {
    fn open(socket: &str) -> anyhow::Result<Self> {
        Ok(Self(BufReader::new(UnixStream::connect(socket)?)))
    }

    /// The ID of the last write.
    fn read(&mut self, name: &str) -> anyhow::Result<String> {
        let value = self.ask(&["GET", &format!("plain:{name}")])?;
        Ok(value.split('<').next().unwrap_or_default().to_owned())
    }

    fn write(&mut self, name: &str, value: &str) -> anyhow::Result<()> {
        self.ask(&["SET", &format!("plain:{name}"), value]).map(drop)
    }

    fn ask(&mut self, words: &[&str]) -> anyhow::Result<String> {
        let mut request = format!("*{}\r\n", words.len());
        words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
        self.0.get_mut().write_all(request.as_bytes())?;
        let mut head = String::new();
        self.0.read_line(&mut head)?;
        let Some(length) = head.strip_prefix('$').and_then(|length| length.trim().parse::<usize>().ok())
        else {
            return Ok(String::new());
        };
        let mut text = vec![0; length + 2];
        self.0.read_exact(&mut text)?;
        text.truncate(length);
        Ok(String::from_utf8(text)?)
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }

    fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_micros(self.below(most.as_micros() as u64 + 1))
    }
}

/// The monotonic clock: the same in all processes of a machine.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn report(line: String) {
    println!("{line}");
}
