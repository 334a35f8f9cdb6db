//! The handle to nodes and configuration that every lock comes from.

pub(crate) mod builder;
pub(crate) mod checks;
pub(crate) mod election;
pub(crate) mod lock;
pub(crate) mod semaphore;

use crate::acquire::name_queue::NameQueues;
use crate::context::mutex::Mutex;
use crate::context::options::{Options, ShardedOptions, TtlRules, check_longest};
use crate::error::{ConfigError, ExtendError, NoQuorum, NodeOutcome, NodeReport};
use crate::hold::guard::Guard;
use crate::hold::handle::LockHandle;
use crate::hold::keeper::Keeper;
use crate::inspect::examine::{NodeExamination, examine};
use crate::inspect::list::{ListError, Listing, list, semaphores};
use crate::inspect::slots::SlotsInspection;
use crate::locker::builder::Builder;
use crate::locker::election::Election;
use crate::locker::lock::Lock;
use crate::locker::semaphore::Semaphore;
use crate::node::{BoxFuture, Command, Node, NodeError, NodeHealth};
use crate::quorum::Nodes;
use quorlock_core::{FenceClock, Mode, Moment, Name, NameError, NameSet, Quorum};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// The environment variable that names the nodes.
pub(crate) const NODES_VARIABLE: &str = "QUORLOCK_NODES";

/// Nodes and configuration: where locks come from. Cheap to clone; make one and share it.
///
/// Connections are made when first needed and kept. All locks of a locker share them.
#[derive(Clone, Debug)]
pub struct Locker(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// What each lock begins with.
    options: ShardedOptions,
    rules: TtlRules,
    queues: NameQueues,
    keeper: Arc<Keeper>,
}

impl Locker {
    /// Starts a configuration.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A locker with default settings on the nodes that `QUORLOCK_NODES` names, separated by commas.
    ///
    /// # Errors
    /// [`ConfigError`] if the variable is missing or its nodes cannot be used.
    pub fn from_env() -> Result<Self, ConfigError> {
        Builder::from_env()?.build()
    }

    pub(crate) fn new(nodes: Nodes, options: Options, rules: TtlRules) -> Self {
        let (keeper, options) = (Arc::new(Keeper::new(nodes)), ShardedOptions::new(options));
        Self(Arc::new(Shared { options, rules, queues: NameQueues::default(), keeper }))
    }

    /// The lock called `name`. It is not taken yet.
    ///
    /// # Errors
    /// [`NameError`] if it cannot be a name: empty, over 512 bytes, control characters, or a reserved prefix.
    pub fn named(&self, name: impl AsRef<str>) -> Result<Lock, NameError> {
        Ok(self.lock(Name::new(name)?.into()))
    }

    /// The lock that holds all `names` together, or none of them. It is not taken yet.
    ///
    /// One attempt asks for all names at the same moment, and whatever it does not get for all of them it
    /// gives back: no client holds some names while it waits for others, so there is no deadlock, whatever
    /// the order of the names. There is one fence for all, above the fences that each name had before.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let locker = quorlock::Locker::builder().nodes(["memory:"]).build()?;
    /// let both = locker.all(["account:1", "account:2"])?.acquire().await?;
    /// assert_eq!(both.names().len(), 2);
    /// assert!(locker.named("account:1")?.try_acquire().await.is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ConfigError`] if there is no name, if there are over 16, if one is given twice, or if one cannot
    /// be a name.
    pub fn all(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Lock, ConfigError> {
        let names: Result<Vec<Name>, NameError> = names.into_iter().map(Name::new).collect();
        Ok(self.lock(NameSet::new(names?)?))
    }

    /// The lock on `names` as nodes store them, with those of a semaphore's slots ([`Name::of_slot`]): for a
    /// program that knows only names and a token, to inspect the lock, extend it and release it.
    pub fn stored(&self, names: impl Into<NameSet>) -> Lock {
        self.lock(names.into())
    }

    /// The semaphore called `name`, with `slots` slots: at most that many clients hold a permit. All clients
    /// must use the same number.
    ///
    /// # Errors
    /// [`ConfigError`] if it cannot be a name, is longer than 490 bytes, or if there are no slots or over
    /// 1024.
    pub fn semaphore(&self, name: impl AsRef<str>, slots: u32) -> Result<Semaphore, ConfigError> {
        Semaphore::new(self.named(name)?, slots)
    }

    /// The lock on slot `slot` of the semaphore called `name`: to inspect it, or to extend and release it by
    /// its token. To take a permit call [`Semaphore::acquire`], which checks how many slots others count.
    ///
    /// # Errors
    /// As [`Locker::semaphore`].
    pub fn slot(&self, name: impl AsRef<str>, slot: u32) -> Result<Lock, ConfigError> {
        let semaphore = self.semaphore(name, slot.saturating_add(1))?;
        Ok(self.lock(Name::of_slot(semaphore.name(), slot).into()))
    }

    /// The election called `name`: one of its candidates leads at a time.
    ///
    /// # Errors
    /// As [`Locker::named`].
    pub fn election(&self, name: impl AsRef<str>) -> Result<Election, NameError> {
        self.named(name).map(Election::new)
    }

    /// Takes over a lock that another process gave away with
    /// [`Guard::into_handle`](crate::Guard::into_handle). The nodes decide whether it is still held.
    /// Adopt a handle once: see [`LockHandle`].
    ///
    /// # Errors
    /// [`ExtendError`] if a majority no longer has it, or too few nodes answer.
    ///
    /// # Cancel safety
    /// Cancel safe: dropped half-way, the lock stays as the handle describes it.
    pub async fn adopt(&self, handle: &LockHandle) -> Result<Guard, ExtendError> {
        let lock = self.lock(handle.names().clone());
        let lock = if handle.mode() == Mode::Shared { lock.shared() } else { lock };
        lock.ttl(handle.ttl()).adopt(handle).await
    }

    /// Connects, and waits until a majority of nodes can answer or every node has been tried.
    ///
    /// Never needed: the first call does it. Useful at the start of a service.
    ///
    /// # Cancel safety
    /// Cancel safe.
    ///
    /// # Errors
    /// [`NoQuorum`] if too few nodes can vote: each one's cause is in it. The locker goes on trying to
    /// reach them.
    pub async fn connect(&self) -> Result<(), NoQuorum> {
        let nodes = &self.0.keeper.nodes;
        nodes.wait_connected().await;
        let health = nodes.all.iter().map(|node| (node.id(), node.health().trouble));
        let report = |(node, trouble): (&str, Option<NodeError>)| NodeReport {
            node: node.into(),
            outcome: trouble.map_or(NodeOutcome::Yes, NodeOutcome::Failed),
        };
        NoQuorum::check(nodes.quorum, health.map(report).collect())
    }

    /// Waits until every node has answered everything that was sent to it so far, or its node timeout has
    /// passed.
    ///
    /// For programs that end soon: a release returns as soon as a majority has released, and commands not
    /// yet sent to the other nodes would be lost with the process.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed anywhere.
    pub async fn flush(&self) {
        // Nodes answer in order, so the answer to a last harmless command comes after all others.
        let Ok(name) = Name::new("flush") else { return };
        let mut round = Box::pin(self.0.keeper.nodes.ask(Command::Inspect { name }));
        while round.as_mut().next().await.is_some() {}
    }

    /// Declares all nodes fresh: nothing that they may have forgotten matters, so they may vote at once.
    ///
    /// For new nodes only. On nodes that restarted while locks were held this can give one lock to two
    /// holders.
    ///
    /// # Cancel safety
    /// Dropped half-way, some nodes may have been declared fresh.
    pub async fn init_fresh_nodes(&self) -> Vec<NodeReport> {
        self.on_each_node(|node| Box::pin(async move { node.init().await })).await
    }

    /// Records on all nodes that clients may use a ttl of up to `longest` from now on.
    ///
    /// Use the longer ttl only once this has succeeded on every node: a node that forgets learns from any
    /// other how long it must not vote. Nodes go on voting. A node that does not vote yet refuses, with
    /// the time that it needs.
    ///
    /// # Errors
    /// [`ConfigError`] if `longest` is above 7 days.
    ///
    /// # Cancel safety
    /// Dropped half-way, some nodes may have recorded it, which does no harm.
    pub async fn raise_longest_ttl(&self, longest: Duration) -> Result<Vec<NodeReport>, ConfigError> {
        check_longest(longest)?;
        let act = move |node: Arc<dyn Node>| -> BoxFuture<'static, _> {
            Box::pin(async move { node.raise_longest_ttl(longest).await })
        };
        Ok(self.on_each_node(act).await)
    }

    /// Runs `act` on all nodes, once each has been connected to or given up, so that what they have
    /// recorded is known. The results are in the order of configuration.
    async fn on_each_node(
        &self,
        act: impl Fn(Arc<dyn Node>) -> BoxFuture<'static, Result<(), NodeError>>,
    ) -> Vec<NodeReport> {
        let nodes = &self.0.keeper.nodes.all;
        let settling: JoinSet<()> =
            nodes.iter().cloned().map(|node| async move { node.wait_connected().await }).collect();
        settling.join_all().await;
        let mut acts = JoinSet::new();
        for (number, node) in nodes.iter().enumerate() {
            let (id, act) = (node.id().into(), act(node.clone()));
            acts.spawn(async move { (number, NodeReport { node: id, outcome: act.await.into() }) });
        }
        let mut results = acts.join_all().await;
        results.sort_by_key(|(number, ..)| *number);
        results.into_iter().map(|(_, report)| report).collect()
    }

    /// Which locks are held, by any client, as a majority of nodes reports.
    ///
    /// Asks the nodes for the names that they know and inspects each, 64 at a time. Each node returns at
    /// most [`Names::MOST`](crate::node::Names::MOST) names and has 10 s for that (a server 5 s, on a
    /// connection of its own), and no more are inspected. [`Listing::complete`] says whether these were
    /// all.
    ///
    /// Nodes know names by their fences, so locks that other programs took without quorlock are not
    /// listed, though [`Lock::inspect`] finds them by name. A server must allow `SCAN`.
    ///
    /// # Errors
    /// [`ListError`] if fewer than a quorum answered.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed anywhere.
    pub async fn list(&self) -> Result<Listing, ListError> {
        self.0.keeper.nodes.wait_connected().await;
        list(&self.0.keeper.nodes).await
    }

    /// The semaphores of which a slot is taken, with the number of slots that the nodes have recorded, and
    /// whether their clients agree on it.
    ///
    /// # Errors
    /// [`ListError`] if fewer than a quorum answered.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is changed anywhere.
    pub async fn list_semaphores(&self) -> Result<Vec<SlotsInspection>, ListError> {
        self.0.keeper.nodes.wait_connected().await;
        semaphores(&self.0.keeper.nodes).await
    }

    /// Examines each node: what it is, how it is set up, and what we may do there.
    ///
    /// Asks all nodes at the same time, each on a connection of its own that does not delay votes, with
    /// one connect timeout to connect and another to answer. Nothing that a node keeps is changed, its
    /// epoch included: permissions are tried on keys that do not exist and are not made. On the file node
    /// one small file is written, synced and removed.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn examine(&self) -> Vec<NodeExamination> {
        examine(&self.0.keeper.nodes).await
    }

    /// What is known about each node right now, without asking any.
    pub fn health(&self) -> Vec<NodeHealth> {
        let nodes = self.0.keeper.nodes.all.iter();
        nodes.map(|node| NodeHealth { node: node.id().into(), health: node.health() }).collect()
    }

    /// Now, on the boot clock that its leases are counted on.
    pub fn now(&self) -> Moment {
        self.0.keeper.nodes.ctx.clock.now()
    }

    /// How many nodes decide.
    pub fn quorum(&self) -> Quorum {
        self.0.keeper.nodes.quorum
    }

    fn lock(&self, names: NameSet) -> Lock {
        let options = self.0.options.of(names.first());
        Lock::new(self.clone(), names, options)
    }

    pub(crate) fn nodes(&self) -> &Nodes {
        &self.0.keeper.nodes
    }

    pub(crate) fn fences(&self) -> &Mutex<FenceClock> {
        &self.0.keeper.fences
    }

    pub(crate) fn queues(&self) -> &NameQueues {
        &self.0.queues
    }

    pub(crate) fn keeper(&self) -> &Arc<Keeper> {
        &self.0.keeper
    }

    pub(crate) fn rules(&self) -> TtlRules {
        self.0.rules
    }
}
