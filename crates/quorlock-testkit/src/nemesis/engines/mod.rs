//! The clusters that a storm can run on: how each is started, reached and disturbed.

mod consul;
mod etcd;
mod postgres;
mod redis;
mod zookeeper;

use crate::nemesis::Setting;
use crate::nemesis::faults::Fault;
use crate::rng::Rng;
use crate::servers::builder::Binary;
use crate::servers::consul::Consul;
use crate::servers::etcd::Etcd;
use crate::servers::postgres::Postgres;
use crate::servers::zookeeper::ZooKeeper;
use consul::ConsulServers;
use etcd::EtcdMembers;
use postgres::PostgresServers;
use redis::RedisServers;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use zookeeper::ZooKeeperMembers;

/// What the nodes of a storm are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Independent Redis or Valkey servers.
    #[default]
    Redis,
    /// The members of one etcd cluster.
    Etcd,
    /// The members of one ZooKeeper ensemble.
    ZooKeeper,
    /// A PostgreSQL server, a standby, and one in reserve.
    Postgres,
    /// The servers of one Consul cluster.
    Consul,
}

/// A cluster under test. It ends when it is dropped.
pub(crate) trait Cluster: Send + Sync {
    /// What it consists of, for the report.
    fn description(&self) -> String;

    /// Where its members listen for clients.
    fn ports(&self) -> Vec<u16>;

    /// The addresses for a client that reaches each member through the port of a proxy.
    fn urls(&self, ports: &[u16]) -> Vec<String>;

    /// The kinds of faults that a storm on it must have.
    fn faults(&self) -> &'static [Fault];

    /// Whether this fault of a server can be injected into this member.
    fn suits(&self, _member: usize, _fault: Fault) -> bool {
        true
    }

    /// Injects a fault of a server, for `span` if it lasts. Blocks until it is over, outside of the
    /// runtime's own threads. `false` if there was nothing to do.
    fn inject(&self, member: usize, fault: Fault, span: Duration, rng: &mut Rng) -> bool;

    /// How long it keeps the lock of a client that died, at most.
    fn longest_orphan(&self) -> Duration;

    /// How many locks its members keep, of any client and any library. Blocks.
    fn locks(&self) -> usize;

    /// How long it is left alone after an outage, so that clients get locks between two of them.
    fn rest(&self) -> Duration;
}

/// The members of one cluster, for its address.
fn hosts(ports: &[u16]) -> String {
    ports.iter().map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
}

impl Engine {
    /// Starts the cluster of `setting`.
    pub(crate) async fn start(setting: &Setting) -> Arc<dyn Cluster> {
        match setting.engine {
            Engine::Redis => Arc::new(RedisServers::start(setting.binary, setting.nodes)),
            Engine::Etcd => Arc::new(EtcdMembers::start(setting.nodes).await),
            Engine::ZooKeeper => Arc::new(ZooKeeperMembers::start(setting.nodes).await),
            Engine::Postgres => Arc::new(PostgresServers::start(setting.nodes).await),
            Engine::Consul => Arc::new(ConsulServers::start(setting.nodes).await),
        }
    }

    /// How many nodes a storm has unless another number is given.
    pub fn usual_nodes(self) -> usize {
        match self {
            Engine::Redis => 5,
            Engine::Etcd | Engine::Postgres | Engine::ZooKeeper | Engine::Consul => 3,
        }
    }

    /// How many clients a storm has unless another number is given.
    pub fn usual_clients(self) -> usize {
        match self {
            Engine::Redis | Engine::Consul => 6,
            Engine::Etcd | Engine::Postgres | Engine::ZooKeeper => 10,
        }
    }

    /// How many names its clients lock. Where the lock of a dead client stays for seconds, more are
    /// needed for the same number of acquisitions.
    pub(crate) fn names(self) -> usize {
        match self {
            Engine::Redis => 3,
            Engine::Etcd | Engine::Postgres | Engine::ZooKeeper | Engine::Consul => 6,
        }
    }

    /// How many acquisitions are expected of a minute, on any machine.
    pub(crate) fn acquisitions_per_minute(self) -> u64 {
        match self {
            Engine::Redis | Engine::Etcd | Engine::ZooKeeper => 1_000,
            // One server decides, so each of its outages stops every client.
            Engine::Postgres => 500,
            // The lock of a client that was killed or paused stays for up to 20 s.
            Engine::Consul => 150,
        }
    }

    /// What is missing on this machine; `None` if the engine is installed.
    pub fn missing(self, binary: Binary) -> Option<String> {
        let server =
            binary.find().is_none().then(|| format!("no {binary:?} server here, see scripts/setup-tests"));
        let etcd = || (!Etcd::is_here()).then(|| "no etcd here: apt-get install etcd-server".to_owned());
        let zookeeper =
            || (!ZooKeeper::is_here()).then(|| "no ZooKeeper here: apt-get install zookeeper".to_owned());
        let consul =
            || Consul::find().is_none().then(|| "no consul here, see scripts/setup-tests".to_owned());
        match self {
            Engine::Redis => server,
            // The protected values are on a Redis server in any storm.
            Engine::Etcd => server.or_else(etcd),
            Engine::ZooKeeper => server.or_else(zookeeper),
            Engine::Postgres => server.or_else(|| {
                (!Postgres::is_here()).then(|| "no PostgreSQL here: apt-get install postgresql".to_owned())
            }),
            Engine::Consul => server.or_else(consul),
        }
    }
}

impl FromStr for Engine {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "redis" => Ok(Engine::Redis),
            "etcd" => Ok(Engine::Etcd),
            "postgres" => Ok(Engine::Postgres),
            "zookeeper" => Ok(Engine::ZooKeeper),
            "consul" => Ok(Engine::Consul),
            _ => {
                Err(format!("unknown engine `{name}`; there are redis, etcd, postgres, zookeeper and consul"))
            }
        }
    }
}
