//! The members of one etcd cluster, which is one vote.

use crate::faults::proxy::{self, Proxy};
use crate::nemesis::TTL;
use crate::nemesis::engines::{Cluster, hosts};
use crate::nemesis::faults::Fault;
use crate::processes::port::Port;
use crate::rng::Rng;
use crate::servers::etcd::{Etcd, EtcdOptions, PeerPort};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use tokio::runtime::Handle;

/// A cluster whose members reach each other through proxies.
pub(crate) struct EtcdMembers {
    /// Locked while a fault lasts: one at a time.
    etcd: Mutex<Etcd>,
    ports: Vec<u16>,
    /// In front of the peer port of each member: what others read from it, and what they send to it
    /// when they have no stream to it.
    peer_links: Vec<Proxy>,
    runtime: Handle,
}

/// What an etcd cluster can be given. Its leases follow a monotonic clock of its leader, so there is
/// no fault of server clocks; a member that forgets is no member any more.
const FAULTS: [Fault; 23] = [
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
    Fault::PeerMute,
    Fault::PeerSplit,
    Fault::OutOfMemory,
    Fault::ClientPause,
    Fault::ClientCrash,
    Fault::ClientClock,
    Fault::ClientSuspend,
];

/// Half of etcd's defaults: a lock of the storm would not outlive an election otherwise.
const OPTIONS: EtcdOptions =
    EtcdOptions { heartbeat: Duration::from_millis(50), election_timeout: Duration::from_millis(500) };

impl EtcdMembers {
    /// Starts a cluster of `count` members.
    pub(crate) async fn start(count: usize) -> Self {
        let (mut peers, mut peer_links) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let port = Port::claim();
            let link = Proxy::start(port.number()).await;
            peers.push(PeerPort { advertised: link.port(), port });
            peer_links.push(link);
        }
        let starting = tokio::task::spawn_blocking(move || Etcd::start_behind(peers, OPTIONS));
        let etcd = starting.await.expect("etcd starts");
        let ports = etcd.client_ports();
        Self { etcd: Mutex::new(etcd), ports, peer_links, runtime: Handle::current() }
    }

    fn etcd(&self) -> MutexGuard<'_, Etcd> {
        self.etcd.lock().unwrap()
    }

    /// Keeps what members have read of these links, and all that comes, for `span`.
    fn hold(&self, links: &[Proxy], span: Duration) {
        let set = |fault| {
            self.runtime.block_on(async {
                for link in links {
                    link.set(fault).await;
                }
            });
        };
        set(proxy::Fault::Hold);
        thread::sleep(span);
        set(proxy::Fault::Pass);
    }
}

impl Cluster for EtcdMembers {
    fn description(&self) -> String {
        format!("{} members of one etcd cluster", self.ports.len())
    }

    fn ports(&self) -> Vec<u16> {
        self.ports.clone()
    }

    fn urls(&self, ports: &[u16]) -> Vec<String> {
        vec![format!("etcd://{}", hosts(ports))]
    }

    fn faults(&self) -> &'static [Fault] {
        &FAULTS
    }

    fn inject(&self, member: usize, fault: Fault, span: Duration, _rng: &mut Rng) -> bool {
        let mut etcd = self.etcd();
        let member = match fault {
            Fault::LeaderStop | Fault::LeaderCrash => etcd.leader(),
            _ => member,
        };
        match fault {
            Fault::Stop | Fault::LeaderStop => {
                etcd.pause(member);
                thread::sleep(span);
                etcd.resume(member);
            }
            Fault::PeerMute => self.hold(&self.peer_links[member..=member], span),
            Fault::PeerSplit => self.hold(&self.peer_links, span),
            Fault::OutOfMemory => {
                etcd.set_space_alarm(true);
                thread::sleep(span);
                etcd.set_space_alarm(false);
            }
            _ => {
                etcd.kill(member);
                thread::sleep(span);
                etcd.restart(member);
            }
        }
        true
    }

    /// Leases last for the ttl in whole seconds and one more, and are counted anew after an election.
    fn longest_orphan(&self) -> Duration {
        4 * TTL
    }

    fn locks(&self) -> usize {
        let etcd = self.etcd();
        ["quorlock/lock/", "quorlock/writer/"].iter().map(|prefix| etcd.count_keys(prefix)).sum()
    }

    /// Most outages stop the whole cluster until it has elected a leader.
    fn rest(&self) -> Duration {
        2 * TTL
    }
}
