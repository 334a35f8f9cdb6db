//! What is known of each node's setup, looked up again from time to time while somebody wants to know.

use quorlock::node::{Facts, Recall};
use quorlock::{Examination, Locker};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A look may be this old.
const FRESH: Duration = Duration::from_secs(30);

/// The last look at each node.
#[derive(Clone, Debug, Default)]
pub(crate) struct FactsCache(Arc<State>);

#[derive(Debug, Default)]
struct State {
    last: Mutex<Option<(Instant, Arc<[Examination]>)>>,
    is_looking: AtomicBool,
}

impl FactsCache {
    /// The last look. If it is old, another one is begun.
    pub(crate) fn last(&self, locker: &Locker) -> Arc<[Examination]> {
        let last = self.0.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_fresh = last.as_ref().is_some_and(|(when, _)| when.elapsed() < FRESH);
        if !is_fresh && !self.0.is_looking.swap(true, Ordering::SeqCst) {
            let (state, locker) = (self.0.clone(), locker.clone());
            tokio::spawn(async move {
                let found = locker.examine().await;
                *state.last.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some((Instant::now(), found.into()));
                state.is_looking.store(false, Ordering::SeqCst);
            });
        }
        last.map(|(_, found)| found).unwrap_or_default()
    }
}

/// What a node's setup is good for: a stable word, and a line for people.
pub(crate) fn guarantee(facts: Option<&Facts>) -> (&'static str, &'static str) {
    match facts {
        Some(Facts::Server(facts)) if facts.recall == Recall::Everything => {
            ("durable", "syncs every write to disk: a restart loses nothing")
        }
        Some(Facts::Server(facts)) if facts.epoch.is_some() => (
            "restart-guarded",
            "a restart is noticed, and the node does not vote until what it forgot is over",
        ),
        Some(Facts::Server(_)) => ("unguarded", "a restart can lose locks without anybody noticing"),
        Some(Facts::Directory(_)) => {
            ("this-machine", "locks within this machine only; they end with a reboot")
        }
        Some(Facts::Store(_)) => {
            ("consensus", "its own consensus decides: a member that fails or restarts loses nothing")
        }
        Some(Facts::Process) => ("this-process", "locks within this process only: for tests"),
        _ => ("unknown", "the node has not told yet how it is set up"),
    }
}
