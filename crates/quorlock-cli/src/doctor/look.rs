//! All that an examination of the nodes brought to light, before it is judged.

use super::state::{self, State};
use crate::settings::Settings;
use quorlock::node::{DirectoryFacts, Facts, ServerFacts, StoreFacts};
use quorlock::{Examination, Locker, Quorum, RestartGuard};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// How much longer than the longest ttl a restarted node stays without a vote.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(10);

/// What was seen of all nodes.
#[derive(Debug)]
pub(super) struct Look<'a> {
    pub(super) settings: &'a Settings,
    pub(super) guard: RestartGuard,
    pub(super) quorum: Quorum,
    pub(super) nodes: Vec<Seen>,
}

/// What was seen of one node.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) state: State,
    pub(super) examination: Examination,
    /// How fast its clock runs, if that was measured.
    pub(super) rate: Option<Rate>,
}

/// How much faster than ours a clock runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rate {
    /// As a share: 0.01 gains 10 ms a second.
    pub(super) gain: f64,
    /// How far off that may be.
    pub(super) within: f64,
}

impl<'a> Look<'a> {
    /// Examines all nodes; twice, `clocks` apart, if that is given.
    pub(super) async fn at(locker: &Locker, settings: &'a Settings, clocks: Option<Duration>) -> Self {
        let guard = state::guard(settings);
        let start = Instant::now();
        let examined = locker.examine().await;
        let mut nodes: Vec<Seen> = examined
            .into_iter()
            .map(|examination| Seen { state: State::of(&examination, guard), examination, rate: None })
            .collect();
        if let Some(apart) = clocks {
            sleep(apart).await;
            let passed = start.elapsed();
            for (seen, again) in nodes.iter_mut().zip(locker.examine().await) {
                seen.rate = Rate::between(&seen.examination, &again, passed);
            }
        }
        Self { settings, guard, quorum: locker.quorum(), nodes }
    }

    pub(super) fn voters(&self) -> usize {
        self.nodes.iter().filter(|seen| seen.state.votes()).count()
    }

    /// How many of those that vote may still fail.
    pub(super) fn may_fail(&self) -> usize {
        self.voters().saturating_sub(self.quorum.needed())
    }

    /// How long a node stays without a vote after a restart.
    pub(super) fn quarantine(&self) -> Duration {
        self.settings.longest_ttl.value + CLOCK_TOLERANCE
    }

    pub(super) fn servers(&self) -> impl Iterator<Item = (&Seen, &ServerFacts)> {
        self.nodes.iter().filter_map(|seen| Some((seen, seen.server()?)))
    }

    /// The store with a consensus of its own, if that is what locks are in. It is the only node then.
    pub(super) fn store(&self) -> Option<&StoreFacts> {
        self.nodes.first()?.store()
    }

    /// The longest round trip of the nodes that vote; of a directory, the time of a sync.
    pub(super) fn latency(&self) -> Duration {
        let voting = self.nodes.iter().filter(|seen| seen.state.votes());
        let times = voting.filter_map(|seen| match seen.directory() {
            Some(directory) => Some(directory.sync),
            None => seen.round_trip(),
        });
        times.max().unwrap_or_default()
    }

    /// How long one node may take to answer.
    pub(super) fn node_timeout(&self) -> Duration {
        let (least, most) = (Duration::from_millis(50), Duration::from_millis(500));
        let on_disk = |seen: &Seen| seen.directory().is_some() || seen.store().is_some();
        let default = if self.nodes.iter().any(on_disk) {
            (self.settings.ttl.value / 20).clamp(least, most)
        } else {
            least
        };
        self.settings.node_timeout.value.unwrap_or(default)
    }
}

impl Seen {
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

    /// How long it takes to answer over a network.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        match self.store() {
            Some(store) => Some(store.round_trip),
            None => self.server()?.round_trip,
        }
    }

    pub(super) fn directory(&self) -> Option<&DirectoryFacts> {
        match &self.examination.found {
            Ok(Facts::Directory(facts)) => Some(facts),
            _ => None,
        }
    }
}

impl Rate {
    /// From two readings of a clock. Each is known to within half a round trip.
    fn between(before: &Examination, after: &Examination, passed: Duration) -> Option<Self> {
        let (Ok(Facts::Server(before)), Ok(Facts::Server(after))) = (&before.found, &after.found) else {
            return None;
        };
        // After a restart it may be another machine's clock.
        if before.run_id != after.run_id {
            return None;
        }
        let gained = after.clock_ahead_micros?.saturating_sub(before.clock_ahead_micros?);
        let unsure = before.round_trip?.max(after.round_trip?);
        Some(Self {
            gain: gained as f64 / 1e6 / passed.as_secs_f64(),
            within: unsure.as_secs_f64() / passed.as_secs_f64(),
        })
    }
}
