//! The members of one ZooKeeper ensemble, which is one vote.

use crate::faults::proxy::{self, Proxy};
use crate::nemesis::engines::{Cluster, hosts};
use crate::nemesis::faults::Fault;
use crate::nemesis::{NODE_TIMEOUT, TTL};
use crate::processes::port::Port;
use crate::rng::Rng;
use crate::servers::zookeeper::{PeerPorts, ZooKeeper};
use quorlock::Locker;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

/// An ensemble whose members reach each other through proxies.
pub(crate) struct ZooKeeperMembers {
    /// Locked while a fault lasts: one at a time.
    ensemble: Mutex<ZooKeeper>,
    ports: Vec<u16>,
    /// In front of the two ports of each member for the others.
    peer_links: Vec<[Proxy; 2]>,
    runtime: Handle,
}

/// What a ZooKeeper ensemble can be given. A member that forgets is no member any more. A client whose boot clock
/// jumps while no time passes breaks the assumption on clocks: other clients judge by theirs when its lock is over.
const FAULTS: [Fault; 21] = [
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
    Fault::ClientPause,
    Fault::ClientCrash,
    Fault::ClientClock,
];

/// A sixth of the usual: members notice within four of these that another one is gone.
const TICK: Duration = Duration::from_millis(300);
/// How long listing what is held may take after a storm.
const LISTING: Duration = Duration::from_secs(60);

impl ZooKeeperMembers {
    /// Starts an ensemble of `count` members.
    pub(crate) async fn start(count: usize) -> Self {
        let (mut peers, mut peer_links) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (quorum, election) = (Port::claim(), Port::claim());
            let links = [Proxy::start(quorum.number()).await, Proxy::start(election.number()).await];
            peers.push(PeerPorts { advertised: (links[0].port(), links[1].port()), quorum, election });
            peer_links.push(links);
        }
        let starting = tokio::task::spawn_blocking(move || ZooKeeper::start_behind(peers, TICK));
        let ensemble = starting.await.expect("ZooKeeper starts");
        let ports = ensemble.client_ports();
        Self { ensemble: Mutex::new(ensemble), ports, peer_links, runtime: Handle::current() }
    }

    fn ensemble(&self) -> MutexGuard<'_, ZooKeeper> {
        self.ensemble.lock().unwrap()
    }

    /// Keeps what members have read of these links, and all that comes, for `span`.
    fn hold(&self, links: &[[Proxy; 2]], span: Duration) {
        let set = |fault| {
            self.runtime.block_on(async {
                for link in links.iter().flatten() {
                    link.set(fault).await;
                }
            });
        };
        set(proxy::Fault::Hold);
        thread::sleep(span);
        set(proxy::Fault::Pass);
    }
}

impl Cluster for ZooKeeperMembers {
    fn description(&self) -> String {
        format!("{} members of one ZooKeeper ensemble", self.ports.len())
    }

    fn ports(&self) -> Vec<u16> {
        self.ports.clone()
    }

    fn urls(&self, ports: &[u16]) -> Vec<String> {
        vec![format!("zk://{}", hosts(ports))]
    }

    fn faults(&self) -> &'static [Fault] {
        &FAULTS
    }

    fn inject(&self, member: usize, fault: Fault, span: Duration, _rng: &mut Rng) -> bool {
        let mut ensemble = self.ensemble();
        let member = match fault {
            Fault::LeaderStop | Fault::LeaderCrash => ensemble.leader(),
            _ => member,
        };
        match fault {
            Fault::Stop | Fault::LeaderStop => {
                ensemble.pause(member);
                thread::sleep(span);
                ensemble.resume(member);
            }
            Fault::PeerMute => self.hold(&self.peer_links[member..=member], span),
            Fault::PeerSplit => self.hold(&self.peer_links, span),
            _ => {
                ensemble.kill(member);
                thread::sleep(span);
                ensemble.restart(member);
            }
        }
        true
    }

    /// A new client sees an old lock as over a second late, and counts its ttl anew after an election.
    fn longest_orphan(&self) -> Duration {
        3 * TTL
    }

    /// What is over stays in its znode until another client takes the name, so only a client can count.
    fn locks(&self) -> usize {
        let urls = self.urls(&self.ports);
        let count = async move {
            let locker = Locker::builder().nodes(urls).ttl(20 * TTL).node_timeout(20 * NODE_TIMEOUT).build();
            let locker = locker.expect("a good address");
            let listed = tokio::time::timeout(LISTING, async {
                loop {
                    if let Ok(listing) = locker.list().await {
                        return listing.held.len();
                    }
                }
            });
            listed.await.expect("the ensemble lists its locks")
        };
        let counted = thread::spawn(|| {
            let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(count)
        });
        counted.join().expect("locks are counted")
    }

    /// Most outages stop the whole ensemble until it has elected a leader.
    fn rest(&self) -> Duration {
        3 * TTL
    }
}
