//! The engines that the guide may answer with, described honestly: most of them are other tools.

/// What keeps locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    File,
    OneRedis,
    Redlock,
    Etcd,
    ZooKeeper,
    Consul,
    Lease,
}

/// What to know about an engine.
pub(super) struct About {
    /// A stable word for programs.
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    /// Whether this build can use it; otherwise it is another tool with its own command line.
    pub(super) is_quorlock: bool,
    pub(super) why: &'static str,
    pub(super) know: &'static str,
    /// Lines to begin with.
    pub(super) begin: &'static [&'static str],
}

impl Engine {
    pub(super) fn about(self) -> About {
        match self {
            Engine::File => FILE,
            Engine::OneRedis => ONE_REDIS,
            Engine::Redlock => REDLOCK,
            Engine::Etcd => ETCD,
            Engine::ZooKeeper => ZOOKEEPER,
            Engine::Consul => CONSUL,
            Engine::Lease => LEASE,
        }
    }
}

const FILE: About = About {
    key: "file",
    name: "the file node of quorlock",
    is_quorlock: true,
    why: "one machine needs no server: the kernel's own file locks decide, and they end with the process that\nholds them.",
    know: "it does not reach beyond this machine, and needs a directory on a local file system.",
    begin: &[
        "quorlock run --nodes file: my-job -- ./job.sh",
        "(file: is the default: no configuration is needed)",
    ],
};

const ONE_REDIS: About = About {
    key: "one_redis",
    name: "one Redis or Valkey server, watched",
    is_quorlock: true,
    why: "the fastest lock over a network, and with one voter there is no split vote and no clock of another node.",
    know: "when the server is down, nobody gets a lock. It must sync every write to disk, or a restart forgets locks\nand two may hold one; quorlock checks that with durable=yes. Never with a replica to fail over to.",
    begin: &[
        "redis-server --appendonly yes --appendfsync always --maxmemory-policy noeviction",
        "export QUORLOCK_NODES='redis://lock1:6379?durable=yes'",
        "quorlock doctor --strict    (from your monitoring)",
    ],
};

const REDLOCK: About = About {
    key: "redlock",
    name: "Redlock on 5 independent Redis or Valkey servers",
    is_quorlock: true,
    why: "fast, and 2 of the 5 servers may fail without anybody noticing.",
    know: "it relies on clocks that run at nearly the same rate. A holder that pauses past its ttl can believe in a\nlock that is no longer its own: send the fence with every write, and let what is protected refuse older ones.",
    begin: &[
        "export QUORLOCK_NODES=redis://lock1,redis://lock2,redis://lock3,redis://lock4,redis://lock5",
        "quorlock init      (once, while the servers are new)",
        "quorlock doctor",
        "quorlock dev       (five servers on this machine, to try it)",
    ],
};

const ETCD: About = About {
    key: "etcd",
    name: "etcd, through quorlock",
    is_quorlock: true,
    why: "consensus (Raft) decides who holds the lock, not clocks alone; and who runs Kubernetes knows how to run etcd.",
    know: "a lease still ends by time: a holder that pauses needs a fence here as well, and\nquorlock gives one. Run an etcd of your own: the one of the cluster belongs to its API server.",
    begin: &[
        "export QUORLOCK_NODES=etcd://etcd1,etcd2,etcd3    (the cluster is one node, however many members it has)",
        "quorlock doctor",
        "quorlock run my-job -- ./job.sh",
    ],
};

const ZOOKEEPER: About = About {
    key: "zookeeper",
    name: "ZooKeeper",
    is_quorlock: false,
    why: "consensus (ZAB) decides who holds the lock, waiters queue in order, and the lock ends with the holder's session.",
    know: "harder to run than the others, and a session ends by time, too: use the node's zxid as the fence. There is no\ncommand that runs a job under a lock; use Apache Curator (InterProcessMutex) or kazoo.",
    begin: &["python: kazoo.client.KazooClient(hosts='zk1:2181,zk2:2181,zk3:2181').Lock('/locks/my-job')"],
};

const CONSUL: About = About {
    key: "consul",
    name: "Consul",
    is_quorlock: false,
    why: "a balanced choice: consensus (Raft), moderate to run, and one command runs a job under a lock.",
    know: "it has a lock delay of 15 s after a holder died, by default; use the key's LockIndex as the fence.",
    begin: &["consul lock locks/my-job ./job.sh"],
};

const LEASE: About = About {
    key: "kubernetes_lease",
    name: "a Kubernetes Lease",
    is_quorlock: false,
    why: "the cluster's API server keeps it already, so there is nothing to run; right for one leader among pods.",
    know: "made for leader election, not for many short locks: some requests per second at most. It bears\nclocks that differ, not clocks that run at different rates; use leaseTransitions as the fence. For a job that must not overlap with itself, a\nCronJob with concurrencyPolicy: Forbid may be all you need.",
    begin: &["kubectl get lease my-job    (taken by client-go's leaderelection package)"],
};
