//! The lock engines that the guide recommends. Some are other tools than quorlock.

/// A lock engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    File,
    OneRedis,
    Redlock,
    Postgres,
    Etcd,
    ZooKeeper,
    Consul,
    Lease,
}

/// The description of an engine.
pub(super) struct Description {
    /// A stable word for programs.
    pub(super) key: &'static str,
    pub(super) name: &'static str,
    /// Whether quorlock supports it; otherwise it is another tool with its own command line.
    pub(super) is_quorlock: bool,
    pub(super) why: &'static str,
    pub(super) know: &'static str,
    /// Commands to start with.
    pub(super) begin: &'static [&'static str],
}

impl Engine {
    pub(super) fn description(self) -> Description {
        match self {
            Engine::File => FILE,
            Engine::OneRedis => ONE_REDIS,
            Engine::Redlock => REDLOCK,
            Engine::Postgres => POSTGRES,
            Engine::Etcd => ETCD,
            Engine::ZooKeeper => ZOOKEEPER,
            Engine::Consul => CONSUL,
            Engine::Lease => LEASE,
        }
    }
}

const FILE: Description = Description {
    key: "file",
    name: "the file node of quorlock",
    is_quorlock: true,
    why: "one machine needs no server: the kernel's own file locks decide, and they end with the process that holds\nthem.",
    know: "it locks only within this machine, and needs a directory on a local file system.",
    begin: &[
        "quorlock run --nodes file: my-job -- ./job.sh",
        "(file: is the default: no configuration is needed)",
    ],
};

const ONE_REDIS: Description = Description {
    key: "one_redis",
    name: "one Redis or Valkey server, watched",
    is_quorlock: true,
    why: "the fastest lock over a network. With one voter there are no split votes and no other clocks.",
    know: "when the server is down, no client gets a lock. It must sync every write to disk, or a restart forgets\nlocks and two clients may hold one; with durable=yes quorlock checks that. Do not fail over to a replica.",
    begin: &[
        "redis-server --appendonly yes --appendfsync always --maxmemory-policy noeviction",
        "export QUORLOCK_NODES='redis://lock1:6379?durable=yes'",
        "quorlock doctor --strict    (from your monitoring)",
    ],
};

const REDLOCK: Description = Description {
    key: "redlock",
    name: "Redlock on 5 independent Redis or Valkey servers",
    is_quorlock: true,
    why: "fast, and 2 of the 5 servers may fail without any effect on locks.",
    know: "it relies on clocks that run at nearly the same rate. A holder that pauses for longer than its ttl may work\non without the lock: send the fence with every write, and let the protected resource refuse older fences.",
    begin: &[
        "export QUORLOCK_NODES=redis://lock1,redis://lock2,redis://lock3,redis://lock4,redis://lock5",
        "quorlock init      (once, while the servers are new)",
        "quorlock doctor",
        "quorlock dev       (five servers on this machine, to try it)",
    ],
};

const POSTGRES: Description = Description {
    key: "postgres",
    name: "PostgreSQL, through quorlock",
    is_quorlock: true,
    why: "the lock is a row next to the data. A transaction that calls quorlock_check(name, fence) fails if a later\nholder has had the lock, so a pause does no harm; and there is no other server to run.",
    know: "when the primary is down, no client gets a lock until it restarts or a standby takes over. fsync must\nbe on; the doctor checks that.",
    begin: &[
        "export QUORLOCK_NODES=postgres://user@db/app",
        "quorlock init      (once, creates the schema quorlock)",
        "quorlock doctor",
        "quorlock run my-job -- ./job.sh",
    ],
};

const ETCD: Description = Description {
    key: "etcd",
    name: "etcd, through quorlock",
    is_quorlock: true,
    why: "consensus (Raft) decides who holds the lock, not clocks alone; and teams that run Kubernetes know etcd.",
    know: "a lease still ends by time, so a holder that pauses needs a fence here as well; quorlock gives one. Run an\netcd of your own: that of the cluster belongs to its API server.",
    begin: &[
        "export QUORLOCK_NODES=etcd://etcd1,etcd2,etcd3    (the whole cluster is one node)",
        "quorlock doctor",
        "quorlock run my-job -- ./job.sh",
    ],
};

const ZOOKEEPER: Description = Description {
    key: "zookeeper",
    name: "ZooKeeper, through quorlock",
    is_quorlock: true,
    why: "consensus (ZAB) decides who holds the lock, not clocks alone; 1 of 3 or 2 of 5 servers may fail.",
    know: "harder to run than the others. A lock still ends by time, so a holder that pauses needs a fence here as well;\nquorlock gives one.",
    begin: &[
        "export QUORLOCK_NODES=zk://zk1,zk2,zk3    (the whole ensemble is one node)",
        "quorlock doctor",
        "quorlock run my-job -- ./job.sh",
    ],
};

const CONSUL: Description = Description {
    key: "consul",
    name: "Consul, through quorlock",
    is_quorlock: true,
    why: "a balanced choice: consensus (Raft), moderate to run, and it may be there for service discovery already.",
    know: "the lock of a holder that died is free after two and a half times its ttl, or 20 s if that is more. A session\nstill ends by time, so a holder that pauses needs a fence here as well; quorlock gives one.",
    begin: &[
        "export QUORLOCK_NODES=consul://consul1,consul2,consul3    (the whole cluster is one node)",
        "quorlock doctor",
        "quorlock run my-job -- ./job.sh",
    ],
};

const LEASE: Description = Description {
    key: "kubernetes_lease",
    name: "a Kubernetes Lease",
    is_quorlock: false,
    why: "the cluster's API server keeps it, so there is nothing else to run; it suits one leader among pods.",
    know: "made for leader election, not for many short locks: a few requests per second at most. It tolerates clocks\nthat differ, but not clocks that run at different rates; use leaseTransitions as the fence. For a job that\nmust not overlap with itself, a CronJob with concurrencyPolicy: Forbid may be enough.",
    begin: &["kubectl get lease my-job    (acquired by client-go's leaderelection package)"],
};
