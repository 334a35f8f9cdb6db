//! Independent Redis or Valkey servers: each is one vote.

use crate::nemesis::engines::Cluster;
use crate::nemesis::faults::Fault;
use crate::nemesis::{NAMES, TTL, slot_names};
use crate::processes::clockshim::ClockShim;
use crate::rng::Rng;
use crate::servers::builder::{Binary, Fsync};
use crate::servers::connection::{Connection, Reply};
use crate::servers::server::Server;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// The servers of a storm, each of which can be given faults.
pub(crate) struct RedisServers {
    binary: Binary,
    servers: Vec<FaultyServer>,
}

struct FaultyServer {
    state: Mutex<State>,
    memory: Memory,
    port: u16,
}

/// What a server remembers over a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// Everything: it syncs every write, and clients know it as durable.
    Synced,
    /// Nothing.
    None,
    /// All but the end, because the machine lost power: it syncs once a second.
    Torn,
}

struct State {
    server: Server,
    shim: ClockShim,
    /// How far its clock is ahead.
    ahead_ms: i64,
}

/// What these servers can be given: all but what needs a leader.
const FAULTS: [Fault; 25] = [
    Fault::Delay,
    Fault::Hold,
    Fault::HoldReplies,
    Fault::Swallow,
    Fault::SwallowReplies,
    Fault::Garbage,
    Fault::Huge,
    Fault::DuplicateReplies,
    Fault::DuplicateRequests,
    Fault::Drip,
    Fault::Refuse,
    Fault::Cut,
    Fault::Stop,
    Fault::Crash,
    Fault::Amnesia,
    Fault::PowerLoss,
    Fault::Flush,
    Fault::Evict,
    Fault::OutOfMemory,
    Fault::ServerClock,
    Fault::ServerClockAhead,
    Fault::ClientPause,
    Fault::ClientCrash,
    Fault::ClientClock,
    Fault::ClientSuspend,
];

/// How long to try to have a lock evicted.
const EVICT_TIMEOUT: Duration = Duration::from_secs(1);

impl RedisServers {
    /// Starts `count` servers.
    pub(crate) fn start(binary: Binary, count: usize) -> Self {
        Self { binary, servers: (0..count).map(|number| FaultyServer::start(binary, number)).collect() }
    }
}

impl Cluster for RedisServers {
    fn description(&self) -> String {
        let Self { binary, servers } = self;
        let kinds = "in turn with a synced log, without a log, with a log that is torn";
        format!("{} {binary:?}: {kinds}", servers.len())
    }

    fn ports(&self) -> Vec<u16> {
        self.servers.iter().map(|server| server.port).collect()
    }

    fn urls(&self, ports: &[u16]) -> Vec<String> {
        self.servers.iter().zip(ports).map(|(server, port)| server.url(*port)).collect()
    }

    fn faults(&self) -> &'static [Fault] {
        &FAULTS
    }

    fn suits(&self, member: usize, fault: Fault) -> bool {
        let memory = self.servers[member].memory;
        match fault {
            Fault::Crash => memory == Memory::Synced,
            Fault::Amnesia => memory == Memory::None,
            Fault::PowerLoss => memory == Memory::Torn,
            _ => true,
        }
    }

    fn inject(&self, member: usize, fault: Fault, span: Duration, rng: &mut Rng) -> bool {
        self.servers[member].inject(fault, span, rng)
    }

    fn longest_orphan(&self) -> Duration {
        TTL
    }

    fn locks(&self) -> usize {
        let servers =
            self.servers.iter().map(|server| server.state.lock().unwrap().server.cli(&["KEYS", "*"]));
        servers.map(|keys| keys.lines().filter(|key| is_lock(key)).count()).sum()
    }

    /// The others vote meanwhile.
    fn rest(&self) -> Duration {
        Duration::ZERO
    }
}

impl FaultyServer {
    /// Starts a server; its kind of memory follows from its number.
    fn start(binary: Binary, number: usize) -> Self {
        let shim = ClockShim::new();
        let options = Server::builder().binary(binary).clock(&shim);
        let (memory, options) = match number % 3 {
            0 => (Memory::Synced, options.aof(Fsync::Always)),
            1 => (Memory::None, options),
            _ => (Memory::Torn, options.aof(Fsync::EverySecond)),
        };
        let server = options.start();
        let port = server.port();
        let state = Mutex::new(State { server, shim, ahead_ms: 0 });
        Self { state, memory, port }
    }

    /// The address of the server through `port`, with `durable` if clients may rely on it.
    fn url(&self, port: u16) -> String {
        let durable = if self.memory == Memory::Synced { "/?durable=yes" } else { "" };
        format!("redis://127.0.0.1:{port}{durable}")
    }

    fn inject(&self, fault: Fault, span: Duration, rng: &mut Rng) -> bool {
        let mut state = self.state.lock().unwrap();
        match fault {
            Fault::Stop => {
                state.server.pause();
                thread::sleep(span);
                state.server.resume();
            }
            Fault::Flush => state.server.flushall(),
            Fault::Evict => return evict(&state.server),
            Fault::OutOfMemory => {
                state.server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
                thread::sleep(span);
                state.server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
            }
            Fault::ServerClock => state.adjust(rng),
            Fault::ServerClockAhead => return state.jump_ahead(rng),
            _ => {
                state.server.kill();
                if fault == Fault::PowerLoss {
                    // A few commands, or about as many as come in a second.
                    let most = *rng.pick(&[600, 30_000]);
                    state.server.cut_aof(1 + rng.below(most));
                }
                thread::sleep(span);
                state.server.restart();
            }
        }
        true
    }
}

impl State {
    /// Corrects the clock, or sets it a little back; or ahead by less than half the margin of a
    /// lease.
    fn adjust(&mut self, rng: &mut Rng) {
        let right = -i64::try_from(rng.below(300)).unwrap();
        let small = self.ahead_ms + i64::try_from(rng.below(6)).unwrap();
        self.set_clock(if right < self.ahead_ms { right } else { small });
    }

    /// Beyond the ttl, so that every lock is over; within the tolerance of 5 s, so that the
    /// quarantine holds.
    fn jump_ahead(&mut self, rng: &mut Rng) -> bool {
        let is_right = self.ahead_ms < 100;
        if is_right {
            self.set_clock(300 + i64::try_from(rng.below(2_700)).unwrap());
        }
        is_right
    }

    fn set_clock(&mut self, ahead_ms: i64) {
        let by = Duration::from_millis(ahead_ms.abs_diff(self.ahead_ms));
        if ahead_ms > self.ahead_ms {
            self.shim.jump_wall(by)
        } else {
            self.shim.jump_wall_back(by)
        }
        self.ahead_ms = ahead_ms;
    }
}

/// Sets a policy that prefers what is over soonest, and a limit just below what is used, until a
/// lock was evicted.
fn evict(server: &Server) -> bool {
    let mut connection = server.connect().unwrap();
    let counters = count(&mut connection, fence_key);
    let before = field(&mut connection, "stats", "evicted_keys");
    set(&mut connection, "maxmemory-samples", "64");
    set(&mut connection, "maxmemory-policy", "volatile-ttl");
    let start = Instant::now();
    let (mut is_evicted, mut shortfall) = (false, 0);
    while !is_evicted && start.elapsed() < EVICT_TIMEOUT {
        if count(&mut connection, lock_key) == Reply::Integer(0) {
            thread::sleep(TTL / 1_000);
            continue;
        }
        // The reported memory includes the report itself, so the limit goes down step by step: a
        // lock has some 200 bytes.
        shortfall += 128;
        let limit = field(&mut connection, "memory", "used_memory").saturating_sub(shortfall);
        set(&mut connection, "maxmemory", &limit.to_string());
        // Every command checks the limit before it runs.
        is_evicted = field(&mut connection, "stats", "evicted_keys") > before;
        set(&mut connection, "maxmemory", "0");
    }
    set(&mut connection, "maxmemory-policy", "noeviction");
    if count(&mut connection, fence_key) != counters {
        // Counters were evicted, too, which no promise covers unless clients can see that the
        // server forgot.
        server.flushall();
    }
    is_evicted
}

fn set(connection: &mut Connection, option: &str, value: &str) {
    let reply = connection.ask(&["CONFIG", "SET", option, value]).unwrap();
    assert_eq!(reply, Reply::Text("OK".to_owned()), "{option}");
}

/// How many names have the key that `key` makes of them.
fn count(connection: &mut Connection, key: fn(&str) -> String) -> Reply {
    let keys: Vec<String> = names().iter().map(|name| key(name)).collect();
    let command: Vec<&str> = ["EXISTS"].into_iter().chain(keys.iter().map(String::as_str)).collect();
    connection.ask(&command).unwrap()
}

/// All that clients lock.
fn names() -> Vec<String> {
    NAMES.iter().map(|name| (*name).to_owned()).chain(slot_names()).collect()
}

/// Where the library keeps the lock of a name.
fn lock_key(name: &str) -> String {
    name.to_owned()
}

/// Where the library keeps the fence counter of a name.
fn fence_key(name: &str) -> String {
    format!("quorlock:fence:{{{name}}}")
}

/// Whether it belongs to a lock of any library: most use the name itself, rueidislock a prefix and the
/// number of a vote. This one keeps the labels of readers, and a mark of waiting writers, under other keys.
fn is_lock(key: &str) -> bool {
    let locked = key.strip_prefix("rueidislock:0:").unwrap_or(key);
    let of_lock = ["quorlock:readers:", "quorlock:writer:"];
    names().iter().any(|name| name == locked) || of_lock.iter().any(|prefix| key.starts_with(prefix))
}

/// A number from the INFO of the server.
fn field(connection: &mut Connection, section: &str, name: &str) -> u64 {
    let info = connection.ask(&["INFO", section]).unwrap().to_string();
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.expect("the server reports it").trim().parse().unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eviction_takes_a_lock_and_leaves_the_counters() {
        for binary in [Binary::Redis, Binary::Valkey].into_iter().filter(|binary| binary.is_here()) {
            let server = Server::builder().binary(binary).start();
            let names = names();
            for name in &names {
                server.cli(&["SET", name, &"x".repeat(80), "PX", "60000"]);
                server.cli(&["ZADD", &fence_key(name), "1", "f"]);
                server.cli(&["EXPIRE", &fence_key(name), "604800"]);
            }
            assert!(evict(&server));
            let mut connection = server.connect().unwrap();
            assert!(count(&mut connection, lock_key) != Reply::Integer(names.len() as i64));
            assert_eq!(count(&mut connection, fence_key), Reply::Integer(names.len() as i64));
        }
    }
}
