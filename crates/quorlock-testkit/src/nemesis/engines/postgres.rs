//! A PostgreSQL server with standbys: one of them is the primary, and the primary is the vote.

use crate::nemesis::TTL;
use crate::nemesis::engines::{Cluster, hosts};
use crate::nemesis::faults::Fault;
use crate::rng::Rng;
use crate::servers::postgres::Postgres;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// The servers of one database. Each keeps its port whatever it is.
pub(crate) struct PostgresServers {
    /// Locked while a fault lasts: one at a time.
    state: Mutex<State>,
    ports: Vec<u16>,
}

struct State {
    servers: Vec<Postgres>,
    primary: usize,
}

/// What a database can be given. Its clock is that of the machine, so there is no fault of server clocks.
const FAULTS: [Fault; 19] = [
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
    Fault::Failover,
    Fault::ClientPause,
    Fault::ClientCrash,
    Fault::ClientClock,
    Fault::ClientSuspend,
];

impl PostgresServers {
    /// Starts a primary and `count - 1` standbys.
    pub(crate) async fn start(count: usize) -> Self {
        let starting = tokio::task::spawn_blocking(move || {
            let mut servers = vec![Postgres::start()];
            servers.extend((1..count).map(|_| servers[0].start_standby()).collect::<Vec<_>>());
            servers
        });
        let servers = starting.await.expect("postgres starts");
        let ports = servers.iter().map(Postgres::port).collect();
        Self { state: Mutex::new(State { servers, primary: 0 }), ports }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl State {
    /// Kills the primary, promotes the next server, and makes the others its standbys.
    fn fail_over(&mut self, span: Duration) {
        let old = self.primary;
        self.servers[old].kill();
        thread::sleep(span);
        self.primary = (old + 1) % self.servers.len();
        self.servers[self.primary].promote();
        for number in (0..self.servers.len()).filter(|number| *number != self.primary) {
            let (standby, primary) = match number < self.primary {
                true => {
                    let (low, high) = self.servers.split_at_mut(self.primary);
                    (&mut low[number], &high[0])
                }
                false => {
                    let (low, high) = self.servers.split_at_mut(number);
                    (&mut high[0], &low[self.primary])
                }
            };
            standby.follow(primary);
        }
    }
}

impl Cluster for PostgresServers {
    fn description(&self) -> String {
        format!("a PostgreSQL server with {} standbys", self.ports.len() - 1)
    }

    fn ports(&self) -> Vec<u16> {
        self.ports.clone()
    }

    fn urls(&self, ports: &[u16]) -> Vec<String> {
        vec![format!("postgres://postgres@{}/postgres", hosts(ports))]
    }

    fn faults(&self) -> &'static [Fault] {
        &FAULTS
    }

    fn inject(&self, _member: usize, fault: Fault, span: Duration, _rng: &mut Rng) -> bool {
        let mut state = self.state();
        // A standby does nothing that clients see.
        let primary = state.primary;
        match fault {
            Fault::Failover => state.fail_over(span),
            Fault::Stop => {
                state.servers[primary].pause();
                thread::sleep(span);
                state.servers[primary].resume();
            }
            _ => {
                state.servers[primary].kill();
                thread::sleep(span);
                state.servers[primary].restart();
            }
        }
        true
    }

    fn longest_orphan(&self) -> Duration {
        TTL
    }

    fn locks(&self) -> usize {
        let state = self.state();
        let held =
            "SELECT count(*) FROM quorlock.lock WHERE greatest(ends, no_readers_until) > clock_timestamp()";
        state.servers[state.primary].sql(held).parse().unwrap()
    }

    /// All clients must connect again.
    fn rest(&self) -> Duration {
        2 * TTL
    }
}
