//! Hints: a watch over the keys of a name notifies its waiter when one that holds it was deleted.

use crate::node::consul::client::api::Api;
use crate::node::consul::keys::{self, KeyKind, ParsedKey};
use crate::node::consul::lock_store::Store;
use crate::node::engine::Hints;
use quorlock_core::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use tokio::sync::Semaphore;

/// The most watches of this process that are under way, each on a connection: an agent takes 200 from one address.
/// Waiters for further names only poll.
const MAX_WATCHES: usize = 64;

static WATCHES: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(MAX_WATCHES));

/// Notifies `hints` whenever `name` or one of its slots may have become free, until the agent that is asked does not
/// answer or another one is used.
pub(crate) async fn follow(store: &Store, name: &Name, since: u64, mut hints: Hints) {
    let Ok(_permit) = WATCHES.try_acquire() else {
        hints.begin();
        return std::future::pending().await;
    };
    if store.check_agents().await.is_err() {
        return;
    }
    let (keys, api) = (store.keys(name), &store.api);
    let mut current = api.http.current_agent();
    let agent = *current.borrow_and_update();
    let mut before: Option<Holders> = None;
    // What happened after `since` is in the first answer.
    let mut index = 0;
    loop {
        let answer = tokio::select! {
            biased;
            answer = api.watch(keys.watched(), index, agent) => answer,
            _ = current.changed() => return,
        };
        let Ok(watched) = answer else { return };
        let now = Holders::of(&store.prefix, &watched.keys);
        match &before {
            None => {
                hints.begin();
                if since != 0 && watched.index > since {
                    hints.notify();
                }
            }
            Some(before) if watched.index != index && now.may_be_free_since(before) => hints.notify(),
            Some(_) => {}
        }
        before = Some(now);
        // One that went back or is missing begins anew.
        index = if watched.index < index { 0 } else { watched.index.max(1) };
    }
}

/// Which of a name and its slots are held, and by which keys.
#[derive(Debug, Default, PartialEq, Eq)]
struct Holders {
    /// For each name that has a record, whether it is held.
    names: BTreeMap<Name, bool>,
    keys: BTreeSet<String>,
}

impl Holders {
    fn of(prefix: &str, keys: &[String]) -> Self {
        let mut holders = Self::default();
        for key in keys {
            let Some(ParsedKey { name, kind }) = keys::parse(prefix, key) else { continue };
            let is_held = holders.names.entry(name).or_default();
            *is_held |= kind.is_hold();
            if kind != KeyKind::Record {
                holders.keys.insert(key.clone());
            }
        }
        holders
    }

    /// Whether a hold has ended since `before`, or nothing holds one of the names: it may have been held in between.
    fn may_be_free_since(&self, before: &Self) -> bool {
        !before.keys.is_subset(&self.keys) || self.names.values().any(|is_held| !is_held)
    }
}

impl Api {
    /// The highest index that was seen, from which a watch can report.
    pub(crate) fn position(&self) -> u64 {
        self.cluster.index()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holders(keys: &[&str]) -> Holders {
        let key = |key: &&str| format!("p/lock/gpu/{key}");
        Holders::of("p", &keys.iter().map(key).collect::<Vec<_>>())
    }

    #[test]
    fn the_end_of_a_hold_is_a_hint_and_its_beginning_is_not() {
        let reader = "readers/07070707070707070707070707070707";
        let table: [(&[&str], &[&str], bool); 7] = [
            (&["record"], &["record", "lock"], false),
            (&["record", "lock"], &["record"], true),
            (&["record", "lock"], &["record", "lock"], false),
            (&["record"], &["record"], true),
            (&["record", "readers/1", reader], &["record", reader], true),
            (&["record", "readers/1"], &["record", "readers/1", reader], false),
            (&["slots/0/lock", "slots/1/lock"], &["slots/0/lock", "slots/1/record"], true),
        ];
        for (before, now, hint) in table {
            assert_eq!(holders(now).may_be_free_since(&holders(before)), hint, "{before:?} {now:?}");
        }
    }
}
