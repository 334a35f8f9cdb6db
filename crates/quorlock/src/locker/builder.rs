//! Configuration: everything that can be wrong with it is found in `build`.

use crate::context::clock::Clock;
use crate::context::entropy::Entropy;
use crate::context::event::{Observer, Observers};
use crate::context::identity;
#[cfg(feature = "simulation")]
use crate::context::injected_bug::InjectedBugs;
use crate::context::options::{
    Options, TtlRules, check_attempts, check_longest, check_margin, check_max_hold, signature,
};
use crate::context::{Context, RestartGuard};
use crate::error::ConfigError;
use crate::locker::checks::{check_timeout, default_connect_timeout, default_timeout, open_all};
use crate::locker::{Locker, NODES_VARIABLE};
use crate::node::{Node, NodeUrl, split_list};
use crate::quorum::Nodes;
use quorlock_core::{Drift, Quorum};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The settings of a [`Locker`]. Each has a sane default; the nodes have none.
///
/// [`Builder::build`] checks them all: nothing else that configures a locker can fail. `build_blocking`
/// does the same for code without async.
///
/// ```
/// use quorlock::Locker;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), quorlock::ConfigError> {
/// let locker = Locker::builder()
///     .nodes(["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"])
///     .ttl(Duration::from_secs(10))
///     .wait_timeout(Duration::from_secs(5))
///     .build()?;
/// # Ok(()) }
/// ```
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    urls: Vec<String>,
    nodes: Vec<Arc<dyn Node>>,
    observers: Vec<Arc<dyn Observer>>,
    #[cfg(feature = "metrics")]
    node_watch: Option<crate::metrics::NodeWatch>,
    ctx: Context,
    guard: Option<RestartGuard>,
    node_timeout: Option<Duration>,
    connect_timeout: Option<Duration>,
    drift: f64,
    ttl: Duration,
    wait: Duration,
    attempts: u32,
    watchdog: bool,
    fences: bool,
    max_hold: Option<Duration>,
    loss_margin: Option<Duration>,
    reason: Option<Arc<str>>,
    who: Option<Arc<str>>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            nodes: Vec::new(),
            observers: Vec::new(),
            #[cfg(feature = "metrics")]
            node_watch: None,
            ctx: Context::default(),
            guard: None,
            node_timeout: None,
            connect_timeout: None,
            drift: 0.01,
            ttl: Duration::from_secs(10),
            wait: Options::DEFAULT_WAIT,
            attempts: Options::DEFAULT_ATTEMPTS,
            watchdog: true,
            fences: true,
            max_hold: None,
            loss_margin: None,
            reason: None,
            who: None,
        }
    }
}

impl Builder {
    /// A configuration with the nodes that `QUORLOCK_NODES` names, separated by commas.
    ///
    /// # Errors
    /// [`ConfigError::NoEnvironment`] if it is not set or empty.
    pub fn from_env() -> Result<Self, ConfigError> {
        let urls = std::env::var(NODES_VARIABLE).unwrap_or_default();
        let urls = split_list(&urls);
        if urls.is_empty() {
            return Err(ConfigError::NoEnvironment { variable: NODES_VARIABLE });
        }
        Ok(Self::default().nodes(urls))
    }

    /// Adds nodes by their URLs: `redis://[user:password@]host[:port][/db]`, `rediss://` (TLS),
    /// `unix://path`, `valkey://`, `etcd://host,host,host` (a cluster), `file:` (this machine, no server)
    /// or `memory:` (this process, for tests); see [`NodeUrl`](crate::node::NodeUrl).
    ///
    /// One node is a single-instance lock; 3 or 5 independent servers are Redlock. An etcd cluster is one
    /// node: its own consensus does the rest.
    pub fn nodes<U: Into<String>>(mut self, urls: impl IntoIterator<Item = U>) -> Self {
        self.urls.extend(urls.into_iter().map(Into::into));
        self
    }

    /// Adds a node of your own making. It cannot be mixed with nodes given by URL.
    pub fn node(mut self, node: Arc<dyn Node>) -> Self {
        self.nodes.push(node);
        self
    }

    /// How long the nodes keep a lock without hearing from its holder (default 10 s).
    ///
    /// Without the watchdog choose at least twice the time that the work takes; see
    /// [`advised_ttl`](crate::advised_ttl).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// The longest ttl that any client of these nodes uses (default 30 s). A node that restarted does not
    /// vote for that time and 10 s more.
    ///
    /// Nodes record it when they are first used, and what they have recorded counts from then on: a
    /// longer ttl is refused there until [`Locker::raise_longest_ttl`] has recorded it on all of them.
    pub fn longest_ttl(mut self, longest: Duration) -> Self {
        self.ctx.longest_ttl = longest;
        self
    }

    /// How long [`Lock::acquire`](crate::Lock::acquire) waits at most (default 10 s).
    pub fn wait_timeout(mut self, limit: Duration) -> Self {
        self.wait = limit;
        self
    }

    /// How many attempts [`Lock::acquire`](crate::Lock::acquire) makes at most (default 10 000).
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// How much faster a node's clock may run than ours (default 0.01; 0.001 with good NTP).
    pub fn drift_factor(mut self, factor: f64) -> Self {
        self.drift = factor;
        self
    }

    /// How long one node may take to answer. Far below the ttl, so that a dead node costs little.
    ///
    /// Default: 50 ms; for `file:` and `etcd:`, whose answers may wait for a slow disk, a twentieth of
    /// the ttl up to 500 ms.
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = Some(timeout);
        self
    }

    /// How long connecting to one node may take (default 1 s, or ten times a longer
    /// [node timeout](Builder::node_timeout) that was set).
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Whether nodes that restarted or forgot are kept from voting. Default: strict with two or more
    /// nodes, off with one.
    pub fn restart_guard(mut self, guard: RestartGuard) -> Self {
        self.guard = Some(guard);
        self
    }

    /// Declares that all nodes sync every write to disk (`appendonly yes`, `appendfsync always`), so that a
    /// restart loses nothing and needs no wait. Nodes that do not are refused. Per node: `?durable=yes`.
    pub fn durable(mut self, durable: bool) -> Self {
        self.ctx.durable = durable;
        self
    }

    /// Whether nodes that are new or have forgotten are marked, so that they vote once every lock that
    /// they may have forgotten is over (default on). Off for programs that only inspect: they leave
    /// nothing behind on any node.
    pub fn begin_epochs(mut self, on: bool) -> Self {
        self.ctx.begins_epochs = on;
        self
    }

    /// Accepts nodes that may drop locks when their memory is full. Not advised.
    pub fn allow_eviction(mut self, allow: bool) -> Self {
        self.ctx.allow_eviction = allow;
        self
    }

    /// Whether held locks are extended in the background (default on).
    pub fn watchdog(mut self, on: bool) -> Self {
        self.watchdog = on;
        self
    }

    /// Whether locks get a fence (default on). Without, [`Guard::fence`](crate::Guard::fence) is 0, a
    /// holder that was paused cannot be distinguished from the next one, and votes cost the servers
    /// somewhat less. Such locks are not [listed](Locker::list), because servers know names by their
    /// counters.
    pub fn fences(mut self, on: bool) -> Self {
        self.fences = on;
        self
    }

    /// How long a lock may be held at most, however often it is extended (default: no limit).
    pub fn max_hold(mut self, hold: Duration) -> Self {
        self.max_hold = Some(hold);
        self
    }

    /// How long before the deadline a loss is announced (default 2 % of the ttl).
    ///
    /// With several nodes at least 50 ms, or a third of a shorter ttl: a lock cannot be extended later.
    pub fn loss_margin(mut self, margin: Duration) -> Self {
        self.loss_margin = Some(margin);
        self
    }

    /// Why locks are taken, for people who ask who holds them.
    pub fn reason(mut self, reason: impl Into<Arc<str>>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    /// The owner of locks, for people who ask who holds them (default `user@host`).
    pub fn owner(mut self, who: impl Into<Arc<str>>) -> Self {
        self.who = Some(who.into());
        self
    }

    /// Notifies `observer` of what happens to locks and nodes.
    pub fn observer(mut self, observer: impl Observer) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Feeds the `metrics` facade with everything that happens to locks and nodes, and with the health of
    /// the nodes; see [`metrics`](crate::metrics).
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, metrics: crate::metrics::Metrics) -> Self {
        let watch = metrics.node_watch();
        self.node_watch = Some(watch.clone());
        self.observer(metrics).observer(watch)
    }

    /// Replaces the clock, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.ctx.clock = clock;
        self
    }

    /// Replaces the source of randomness, for tests.
    pub fn entropy(mut self, entropy: Arc<dyn Entropy>) -> Self {
        self.ctx.entropy = entropy;
        self
    }

    /// Replaces how connections to servers are opened, for the simulator.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn connector(mut self, connector: Arc<dyn crate::Connector>) -> Self {
        self.ctx.connector = connector;
        self
    }

    /// Switches a bug on that the simulator must find.
    #[cfg(feature = "simulation")]
    #[doc(hidden)]
    pub fn inject_bug(mut self, bug: crate::InjectedBug) -> Self {
        self.ctx.injected = InjectedBugs::only(bug);
        self
    }

    /// Checks everything and makes the locker. Connects to no node yet.
    ///
    /// # Errors
    /// [`ConfigError`], which names the value that is wrong and what is allowed.
    pub fn build(self) -> Result<Locker, ConfigError> {
        let urls = self.urls.iter().map(|url| url.parse()).collect::<Result<Vec<NodeUrl>, _>>()?;
        let node_timeout = self.node_timeout.unwrap_or_else(|| default_timeout(&urls, self.ttl));
        check_timeout("a node timeout", node_timeout)?;
        let connect_timeout =
            self.connect_timeout.unwrap_or_else(|| default_connect_timeout(self.node_timeout));
        check_timeout("a connect timeout", connect_timeout)?;
        check_longest(self.ctx.longest_ttl)?;
        let count = urls.len() + self.nodes.len();
        let rules = TtlRules {
            drift: Drift::new(self.drift)?,
            node_timeout,
            longest: self.ctx.longest_ttl,
            is_single: count == 1,
        };
        let ttl = rules.check(self.ttl)?;
        let who: Arc<str> = self.who.unwrap_or_else(|| identity::who().into());
        let options = Options {
            ttl,
            wait: self.wait,
            attempts: check_attempts(self.attempts)?,
            watchdog: self.watchdog,
            fences: self.fences,
            max_hold: self.max_hold.map(check_max_hold).transpose()?,
            loss_margin: self.loss_margin.map(|margin| check_margin(margin, ttl)).transpose()?,
            signature: signature(&who, self.reason.as_deref()),
            who,
            reason: self.reason,
            tied: true,
            cancel: None,
            invalid: None,
        };
        let default_guard = if count > 1 { RestartGuard::Strict } else { RestartGuard::Off };
        let ctx = Context {
            node_timeout,
            connect_timeout,
            guard: self.guard.unwrap_or(default_guard),
            is_single: count == 1,
            observers: Observers::new(self.observers),
            ..self.ctx
        };
        let nodes = open_all(&urls, self.nodes, &ctx)?;
        let quorum = Quorum::of(nodes.len())?;
        ctx.longest.set_quorum(quorum);
        let nodes = Nodes::new(nodes, quorum, ctx);
        #[cfg(feature = "metrics")]
        if let Some(watch) = &self.node_watch {
            watch.set_nodes(&nodes.all);
        }
        Ok(Locker::new(nodes, options, rules))
    }
}

impl fmt::Debug for Builder {
    /// URLs may carry passwords, so only their number is shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.urls.len() + self.nodes.len();
        f.debug_struct("Builder").field("nodes", &nodes).field("ttl", &self.ttl).finish_non_exhaustive()
    }
}
