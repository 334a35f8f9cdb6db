//! Asks all members in the address which cluster they belong to, before one of them counts.

use crate::context::mutex::Mutex as SyncMutex;
use crate::node::NodeError;
use crate::node::etcd::client::api::Api;
use crate::node::etcd::client::messages::Header;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long a member may take to answer at all, if no command waits for it.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long after a check the members that were silent in it are asked again.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// When all members were asked for their cluster.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Locked while they are asked, so that they are asked once. The moment is that of the last time.
    last: Mutex<Option<Instant>>,
    /// The members that have not answered yet, by their place in the address; `None` before the first
    /// check.
    silent: SyncMutex<Option<BTreeSet<usize>>>,
}

impl Checks {
    fn silent(&self) -> Option<BTreeSet<usize>> {
        self.silent.lock().clone()
    }

    fn set_silent(&self, members: BTreeSet<usize>) {
        *self.silent.lock() = Some(members);
    }
}

impl Api {
    /// Whether the members in the address may vote, by the cluster that they report.
    ///
    /// The first call asks all of them, for at most half of `limit`: each alone would look like a good
    /// cluster. Those that are silent then are asked again from time to time, without waiting for them.
    /// While one belongs to another cluster, every call asks all of them.
    pub(crate) async fn check_members(self: &Arc<Self>, limit: Duration) -> Result<(), NodeError> {
        let soon = limit / 2;
        match self.checks.silent() {
            Some(_) if self.cluster.is_mixed() => self.check_once(Instant::now(), soon).await,
            None => self.check_once(Instant::now(), soon).await,
            Some(silent) if silent.is_empty() => {}
            Some(silent) => self.ask_again(silent),
        }
        self.cluster.verdict()
    }

    /// Asks all members. Returns those that are silent.
    pub(crate) async fn check_all_members(self: &Arc<Self>) -> Result<Vec<String>, NodeError> {
        // Once for all members: each of them would take as long to find out that a password is wrong.
        self.auth_token().await?;
        let all = (0..self.members.count()).collect();
        let silent = self.ask_members(all, PROBE_TIMEOUT).await;
        self.checks.set_silent(silent.clone());
        self.cluster.verdict()?;
        Ok(silent.into_iter().map(|number| self.members.member(number).authority.to_owned()).collect())
    }

    /// Asks all members, unless another caller has begun to do so after `since`.
    async fn check_once(self: &Arc<Self>, since: Instant, limit: Duration) {
        let mut last = self.checks.last.lock().await;
        if last.is_some_and(|last| last >= since) {
            return;
        }
        *last = Some(Instant::now());
        let all = (0..self.members.count()).collect();
        let silent = self.ask_members(all, limit).await;
        self.checks.set_silent(silent);
    }

    /// Asks the members that were silent, unless that was done lately, without waiting for their answers.
    fn ask_again(self: &Arc<Self>, silent: BTreeSet<usize>) {
        let Ok(mut last) = self.checks.last.try_lock() else { return };
        if last.is_some_and(|last| last.elapsed() < RETRY_AFTER) {
            return;
        }
        *last = Some(Instant::now());
        drop(last);
        let api = self.clone();
        tokio::spawn(async move {
            let silent = api.ask_members(silent, PROBE_TIMEOUT).await;
            api.checks.set_silent(silent);
        });
    }

    /// Asks `members` at the same moment. Returns those that are silent.
    async fn ask_members(self: &Arc<Self>, members: BTreeSet<usize>, limit: Duration) -> BTreeSet<usize> {
        let mut calls = JoinSet::new();
        for number in &members {
            let (api, number) = (self.clone(), *number);
            calls.spawn(async move { Some((number, api.ask_member(number, limit).await?)) });
        }
        let answers: BTreeMap<usize, Header> = calls.join_all().await.into_iter().flatten().collect();
        // In the order of the address, so that the same member is found to be of another cluster each
        // time.
        for (number, header) in &answers {
            let _ = self.accept(*header, *number, 0);
        }
        members.into_iter().filter(|number| !answers.contains_key(number)).collect()
    }
}
