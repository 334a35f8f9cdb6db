//! What every part of a locker shares: clock, randomness, connector, observers, limits and the recheck signal.

pub(crate) mod clock;
pub(crate) mod connector;
pub(crate) mod entropy;
pub(crate) mod event;
mod event_text;
pub(crate) mod identity;
pub(crate) mod injected_bug;
pub(crate) mod longest_ttl;
pub(crate) mod mutex;
pub(crate) mod node_clocks;
pub(crate) mod options;
pub(crate) mod platform;
pub(crate) mod trace;
pub(crate) mod watched;

use crate::context::clock::{Clock, SystemClock};
use crate::context::connector::{Connector, TcpConnector};
use crate::context::entropy::{BufferedEntropy, Entropy};
use crate::context::event::{Event, Observers};
use crate::context::injected_bug::InjectedBugs;
use crate::context::longest_ttl::LongestTtl;
use crate::context::mutex::Mutex;
use crate::context::node_clocks::NodeClocks;
use crate::context::watched::Watched;
use crate::error::node::NodeError;
use quorlock_core::{Moment, Name, NameSet, Wall};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How far the wall clocks of clients and nodes may differ.
pub(crate) const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

/// Whether nodes that restarted or forgot are kept from voting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// A node votes only after its memory has been known for the longest ttl and the clock tolerance.
    Strict,
    /// Every node votes at once. A restart with lost memory can then give one lock to two holders.
    Off,
}

/// What every part of a locker shares. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) entropy: Arc<dyn Entropy>,
    pub(crate) connector: Arc<dyn Connector>,
    pub(crate) observers: Observers,
    pub(crate) recheck: RecheckSignal,
    pub(crate) identities: ServerIdentities,
    /// The limit of one node's answer.
    pub(crate) node_timeout: Duration,
    /// The limit of connecting to a node, handshake included.
    pub(crate) connect_timeout: Duration,
    pub(crate) guard: RestartGuard,
    /// Whether the locker has one node only.
    pub(crate) is_single: bool,
    /// The longest ttl that our own settings allow. What nodes have recorded is in [`Context::longest`].
    pub(crate) longest_ttl: Duration,
    /// The longest ttl that the nodes have recorded.
    pub(crate) longest: LongestTtl,
    /// What the clocks of the nodes show.
    pub(crate) node_clocks: NodeClocks,
    /// Whether nodes that have no epoch get one.
    pub(crate) begins_epochs: bool,
    pub(crate) allow_eviction: bool,
    pub(crate) durable: bool,
    /// A bug that the simulator must find.
    pub(crate) injected: InjectedBugs,
}

impl Context {
    /// What the clocks of the nodes show, or ours if none is known.
    pub(crate) fn fence_clock(&self, now: Moment) -> Wall {
        self.node_clocks.wall(now).unwrap_or_else(|| self.clock.wall())
    }

    /// The longest ttl to record on a node that has no record: what others have recorded, or our own
    /// setting.
    pub(crate) fn longest_to_record(&self) -> Duration {
        match self.longest.recorded() {
            Duration::ZERO => self.longest_ttl,
            recorded => recorded,
        }
    }

    pub(crate) fn emit(&self, event: &Event) {
        self.observers.emit(event);
    }

    /// Emits an event for each of `names`; for a slot under the name of its semaphore.
    #[inline]
    pub(crate) fn emit_each(&self, names: &NameSet, event: impl Fn(Name) -> Event) {
        for name in names {
            self.emit(&event(name.topic()));
        }
    }
}

impl Default for Context {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            entropy: Arc::new(BufferedEntropy),
            connector: Arc::new(TcpConnector),
            observers: Observers::default(),
            recheck: RecheckSignal::default(),
            identities: ServerIdentities::default(),
            node_timeout: Duration::from_millis(50),
            connect_timeout: Duration::from_secs(1),
            guard: RestartGuard::Strict,
            is_single: false,
            longest_ttl: Duration::from_secs(30),
            longest: LongestTtl::default(),
            node_clocks: NodeClocks::default(),
            begins_epochs: true,
            allow_eviction: false,
            durable: false,
            injected: InjectedBugs::default(),
        }
    }
}

/// Makes every watchdog check its lock now: a node forgot, or a clock jumped.
#[derive(Clone, Debug)]
pub(crate) struct RecheckSignal(Watched<u64>);

impl Default for RecheckSignal {
    fn default() -> Self {
        Self(Watched::new(0))
    }
}

impl RecheckSignal {
    pub(crate) fn raise(&self) {
        self.0.update(|count| count + 1);
    }

    /// Receives what is raised from now on.
    pub(crate) fn listen(&self) -> RecheckReceiver {
        RecheckReceiver { signal: self.0.clone(), seen: self.0.get() }
    }
}

/// Receives rechecks. A clone receives what this one has not received yet.
#[derive(Clone, Debug)]
pub(crate) struct RecheckReceiver {
    signal: Watched<u64>,
    seen: u64,
}

impl RecheckReceiver {
    /// Waits for a recheck that was not received yet.
    ///
    /// # Cancel safety
    /// Cancel safe: a recheck that is not returned is received by the next call.
    pub(crate) async fn changed(&mut self) {
        let seen = self.seen;
        self.seen = self.signal.wait_for(|count| count != seen).await;
    }

    /// Whether there is one that was not received yet.
    #[cfg(test)]
    pub(crate) fn has_changed(&self) -> bool {
        self.signal.get() != self.seen
    }
}

/// Which server each node of a locker turned out to be, so that none votes twice.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerIdentities(Arc<Claims>);

#[derive(Debug, Default)]
struct Claims {
    servers: Mutex<BTreeMap<Arc<str>, String>>,
    epochs: Mutex<BTreeMap<Arc<str>, Vec<u8>>>,
    /// Whether two nodes have the same epoch.
    is_disputed: AtomicBool,
}

impl ServerIdentities {
    /// Records that `node` is the server `identity`; what it was before no longer counts.
    ///
    /// # Errors
    /// [`NodeError::SameServer`] if another node of the locker is that server.
    pub(crate) fn claim(&self, node: &Arc<str>, identity: &str) -> Result<(), NodeError> {
        let mut claims = self.0.servers.lock();
        if let Some((other, _)) = claims.iter().find(|(other, known)| *other != node && *known == identity) {
            return Err(NodeError::SameServer { other: other.clone() });
        }
        claims.insert(node.clone(), identity.to_owned());
        Ok(())
    }

    /// Records that `node` has the epoch with this nonce.
    pub(crate) fn claim_epoch(&self, node: &Arc<str>, nonce: &[u8]) {
        let mut epochs = self.0.epochs.lock();
        epochs.insert(node.clone(), nonce.to_owned());
        let different: BTreeSet<_> = epochs.values().collect();
        self.0.is_disputed.store(different.len() < epochs.len(), Ordering::Release);
    }

    /// Refuses a node that has the same epoch as another. Nothing says which of them is the copy, so
    /// neither votes.
    ///
    /// # Errors
    /// [`NodeError::SameEpoch`].
    pub(crate) fn check_epoch(&self, node: &Arc<str>) -> Result<(), NodeError> {
        if !self.0.is_disputed.load(Ordering::Acquire) {
            return Ok(());
        }
        let epochs = self.0.epochs.lock();
        let Some(nonce) = epochs.get(node) else { return Ok(()) };
        match epochs.iter().find(|(other, known)| *other != node && *known == nonce) {
            Some((other, _)) => Err(NodeError::SameEpoch { other: other.clone() }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_under_two_addresses_is_found() {
        let identities = ServerIdentities::default();
        let (a, b): (Arc<str>, Arc<str>) = ("a:1".into(), "b:1".into());
        identities.claim(&a, "run1").unwrap();
        assert!(matches!(identities.claim(&b, "run1"), Err(NodeError::SameServer { other }) if other == a));
        identities.claim(&a, "run2").unwrap();
        identities.claim(&b, "run1").unwrap();
    }

    #[test]
    fn of_two_nodes_with_one_epoch_neither_votes_until_one_gets_another() {
        let identities = ServerIdentities::default();
        let nodes: [Arc<str>; 3] = ["a:1".into(), "b:1".into(), "c:1".into()];
        for (node, nonce) in nodes.iter().zip(["x", "y", "x"]) {
            identities.claim_epoch(node, nonce.as_bytes());
        }
        let refused = |node: &Arc<str>| identities.check_epoch(node).is_err();
        assert_eq!([&nodes[0], &nodes[1], &nodes[2]].map(refused), [true, false, true]);
        identities.claim_epoch(&nodes[2], b"z");
        assert_eq!([&nodes[0], &nodes[1], &nodes[2]].map(refused), [false; 3]);
    }
}
