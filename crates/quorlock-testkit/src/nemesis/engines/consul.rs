//! The servers of one Consul cluster, which is one vote.

use crate::nemesis::TTL;
use crate::nemesis::engines::{Cluster, hosts};
use crate::nemesis::faults::Fault;
use crate::rng::Rng;
use crate::servers::consul::Consul;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// A cluster whose servers are killed and stopped.
pub(crate) struct ConsulServers {
    /// Locked while a fault lasts: one at a time.
    consul: Mutex<Consul>,
    ports: Vec<u16>,
}

/// What a Consul cluster can be given. Its sessions follow a monotonic clock of its leader, so there is no fault of
/// server clocks; a server that forgets is no server any more.
const FAULTS: [Fault; 20] = [
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
    Fault::LeaderStop,
    Fault::LeaderCrash,
    Fault::ClientPause,
    Fault::ClientCrash,
    Fault::ClientClock,
    Fault::ClientSuspend,
];

impl ConsulServers {
    /// Starts a cluster of `count` servers.
    pub(crate) async fn start(count: usize) -> Self {
        let starting = tokio::task::spawn_blocking(move || Consul::start(count));
        let consul = starting.await.expect("consul starts");
        let ports = consul.client_ports();
        Self { consul: Mutex::new(consul), ports }
    }

    fn consul(&self) -> MutexGuard<'_, Consul> {
        self.consul.lock().unwrap()
    }
}

impl Cluster for ConsulServers {
    fn description(&self) -> String {
        format!("{} servers of one Consul cluster", self.ports.len())
    }

    fn ports(&self) -> Vec<u16> {
        self.ports.clone()
    }

    fn urls(&self, ports: &[u16]) -> Vec<String> {
        vec![format!("consul://{}", hosts(ports))]
    }

    fn faults(&self) -> &'static [Fault] {
        &FAULTS
    }

    fn inject(&self, member: usize, fault: Fault, span: Duration, _rng: &mut Rng) -> bool {
        let mut consul = self.consul();
        let member = match fault {
            Fault::LeaderStop | Fault::LeaderCrash => consul.leader(),
            _ => member,
        };
        match fault {
            Fault::Stop | Fault::LeaderStop => {
                consul.pause(member);
                thread::sleep(span);
                consul.resume(member);
            }
            _ => {
                consul.kill(member);
                thread::sleep(span);
                consul.restart(member);
            }
        }
        true
    }

    /// A session lasts for 10 s at least, and Consul ends it after twice that.
    fn longest_orphan(&self) -> Duration {
        22 * TTL
    }

    fn locks(&self) -> usize {
        let keys = self.consul().keys("quorlock/lock/");
        keys.iter().filter(|key| key.ends_with("/lock") || key.contains("/readers/")).count()
    }

    /// Most outages stop the whole cluster until it has elected a leader.
    fn rest(&self) -> Duration {
        2 * TTL
    }
}
