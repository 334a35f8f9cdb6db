//! How each node is set up, examined again at most every 30 s while requests ask for it.

use quorlock::node::{Facts, Recall};
use quorlock::{Locker, NodeExamination};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long an examination is fresh.
const FRESH: Duration = Duration::from_secs(30);

/// The last examination of each node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeFactsCache(Arc<State>);

#[derive(Debug, Default)]
struct State {
    last: Mutex<Option<(Instant, Arc<[NodeExamination]>)>>,
    is_examining: AtomicBool,
}

impl NodeFactsCache {
    /// The last examination. If it is too old, this starts another one.
    pub(crate) fn last(&self, locker: &Locker) -> Arc<[NodeExamination]> {
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_fresh = last.as_ref().is_some_and(|(when, _)| when.elapsed() < FRESH);
        if !is_fresh && !self.0.is_examining.swap(true, Ordering::SeqCst) {
            let (state, locker) = (self.0.clone(), locker.clone());
            tokio::spawn(async move {
                let found = locker.examine().await;
                *state.last.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some((Instant::now(), found.into()));
                state.is_examining.store(false, Ordering::SeqCst);
            });
        }
        last.map(|(_, found)| found).unwrap_or_default()
    }
}

/// What a node's setup guarantees: a stable word, and a line for people.
pub(crate) fn guarantee(facts: Option<&Facts>) -> (&'static str, &'static str) {
    match facts {
        Some(Facts::Server(facts)) if facts.recall == Recall::Everything => {
            ("durable", "syncs every write to disk: a restart loses nothing")
        }
        Some(Facts::Server(facts)) if facts.epoch.is_some() => (
            "restart-guarded",
            "a restart is noticed, and the node does not vote until the locks that it forgot are over",
        ),
        Some(Facts::Server(_)) => ("unguarded", "a restart can lose locks unnoticed"),
        Some(Facts::Directory(_)) => {
            ("this-machine", "locks within this machine only; they end with a reboot")
        }
        Some(Facts::Store(_)) => {
            ("consensus", "its own consensus decides: a member that fails or restarts loses nothing")
        }
        Some(Facts::Database(_)) => {
            ("durable", "syncs every commit to disk: a restart loses nothing, and a failover is noticed")
        }
        Some(Facts::Process) => ("this-process", "locks within this process only: for tests"),
        _ => ("unknown", "how the node is set up is not known yet"),
    }
}
