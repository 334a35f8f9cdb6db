//! What an examination of the nodes found, before it is diagnosed.

use super::node_state::{self, NodeState};
use crate::settings::Settings;
use quorlock::node::{DatabaseFacts, DirectoryFacts, Facts, ServerFacts, StoreFacts};
use quorlock::{Locker, NodeExamination, Quorum, RestartGuard, SlotsInspection};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How much longer than the longest ttl a restarted node does not vote.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);

/// All nodes as they were found.
#[derive(Debug)]
pub(super) struct Snapshot<'a> {
    pub(super) settings: &'a Settings,
    pub(super) guard: RestartGuard,
    pub(super) quorum: Quorum,
    pub(super) nodes: Vec<NodeSnapshot>,
    /// The semaphores of which a slot is taken; none if they cannot be listed.
    pub(super) semaphores: Vec<SlotsInspection>,
}

/// One node as it was found.
#[derive(Debug)]
pub(super) struct NodeSnapshot {
    pub(super) state: NodeState,
    pub(super) examination: NodeExamination,
    /// How fast its clock runs, if that was measured.
    pub(super) rate: Option<ClockRate>,
}

/// How much faster than ours a clock runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ClockRate {
    /// As a fraction: 0.01 gains 10 ms a second.
    pub(super) gain: f64,
    /// The error of the measurement.
    pub(super) within: f64,
}

impl<'a> Snapshot<'a> {
    /// Examines all nodes; twice, `clocks` apart, if that is given.
    pub(super) async fn new(locker: &Locker, settings: &'a Settings, clocks: Option<Duration>) -> Self {
        let guard = node_state::restart_guard(settings);
        let start = Instant::now();
        let examined = locker.examine().await;
        let mut nodes: Vec<NodeSnapshot> = examined
            .into_iter()
            .map(|examination| NodeSnapshot {
                state: NodeState::of(&examination, guard),
                examination,
                rate: None,
            })
            .collect();
        if let Some(apart) = clocks {
            sleep(apart).await;
            let passed = start.elapsed();
            for (node, again) in nodes.iter_mut().zip(locker.examine().await) {
                node.rate = ClockRate::between(&node.examination, &again, passed);
            }
        }
        // Without a majority there is nothing to list, and waiting for it takes time.
        let voters = nodes.iter().filter(|node| node.state.can_vote()).count();
        let semaphores = match voters >= locker.quorum().needed() {
            true => locker.list_semaphores().await.unwrap_or_default(),
            false => Vec::new(),
        };
        Self { settings, guard, quorum: locker.quorum(), nodes, semaphores }
    }

    pub(super) fn voters(&self) -> usize {
        self.nodes.iter().filter(|node| node.state.can_vote()).count()
    }

    /// How many of the nodes that can vote may still fail.
    pub(super) fn may_fail(&self) -> usize {
        self.voters().saturating_sub(self.quorum.needed())
    }

    /// How long a node does not vote after a restart.
    pub(super) fn quarantine(&self) -> Duration {
        self.settings.longest_ttl.value + CLOCK_TOLERANCE
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = (&NodeSnapshot, &ServerFacts)> {
        self.nodes.iter().filter_map(|node| Some((node, node.server()?)))
    }

    /// The store with its own consensus (etcd), if locks are kept there. It is then the only node.
    pub(super) fn store(&self) -> Option<&StoreFacts> {
        self.nodes.first()?.store()
    }

    /// The longest round trip of the nodes that can vote; for a directory, the time of a sync.
    pub(super) fn latency(&self) -> Duration {
        let voting = self.nodes.iter().filter(|node| node.state.can_vote());
        let times = voting.filter_map(|node| match node.directory() {
            Some(directory) => Some(directory.sync),
            None => node.round_trip(),
        });
        times.max().unwrap_or_default()
    }

    /// How long one node may take to answer.
    pub(super) fn node_timeout(&self) -> Duration {
        let (least, most) = (Duration::from_millis(50), Duration::from_millis(500));
        let on_disk = |node: &NodeSnapshot| {
            node.directory().is_some() || node.store().is_some() || node.database().is_some()
        };
        let default = if self.nodes.iter().any(on_disk) {
            (self.settings.ttl.value / 20).clamp(least, most)
        } else {
            least
        };
        self.settings.node_timeout.value.unwrap_or(default)
    }
}

impl NodeSnapshot {
    pub(super) fn name(&self) -> &str {
        &self.examination.node
    }

    pub(super) fn server(&self) -> Option<&ServerFacts> {
        match &self.examination.found {
            Ok(Facts::Server(facts)) => Some(facts),
            _ => None,
        }
    }

    pub(super) fn store(&self) -> Option<&StoreFacts> {
        match &self.examination.found {
            Ok(Facts::Store(facts)) => Some(facts),
            _ => None,
        }
    }

    pub(super) fn database(&self) -> Option<&DatabaseFacts> {
        match &self.examination.found {
            Ok(Facts::Database(facts)) => Some(facts),
            _ => None,
        }
    }

    /// How long it takes to answer over a network.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        match (self.store(), self.database()) {
            (Some(store), _) => Some(store.round_trip),
            (_, Some(database)) => Some(database.round_trip),
            _ => self.server()?.round_trip,
        }
    }

    pub(super) fn directory(&self) -> Option<&DirectoryFacts> {
        match &self.examination.found {
            Ok(Facts::Directory(facts)) => Some(facts),
            _ => None,
        }
    }
}

impl ClockRate {
    /// From two examinations. Each knows the clock to within half a round trip.
    fn between(before: &NodeExamination, after: &NodeExamination, passed: Duration) -> Option<Self> {
        let (Ok(Facts::Server(before)), Ok(Facts::Server(after))) = (&before.found, &after.found) else {
            return None;
        };
        // After a restart the server may run on another machine.
        if before.run_id != after.run_id {
            return None;
        }
        let gained = after.clock_ahead_micros?.saturating_sub(before.clock_ahead_micros?);
        let error = before.round_trip?.max(after.round_trip?);
        Some(Self {
            gain: gained as f64 / 1e6 / passed.as_secs_f64(),
            within: error.as_secs_f64() / passed.as_secs_f64(),
        })
    }
}
