//! Hints: a write that leaves a name without an exclusive holder notifies its waiters.

use crate::node::engine::Hints;
use crate::node::zookeeper::client::call::CallError;
use crate::node::zookeeper::client::connection::Connection;
use crate::node::zookeeper::client::jute::Stat;
use crate::node::zookeeper::client::operation::{Operation, Refusal};
use crate::node::zookeeper::client::watches::Change;
use crate::node::zookeeper::lock_store::Store;
use crate::node::zookeeper::stored::Stored;
use quorlock_core::{Mode, Name};
use std::sync::Arc;

/// Notifies `hints` whenever `name` or one of its slots may have become free, until the connection breaks.
///
/// A hold that ends by its time is no write. A waiter knows when that will be, and polls then.
pub(crate) async fn follow(store: &Store, name: &Name, since: i64, mut hints: Hints) {
    let (path, deadline) = (store.paths.of(name), store.client.deadline());
    let Ok(connection) = store.client.connection(deadline).await else { return };
    let mut watched = connection.watched(&path);
    let Ok(watching) = connection.send(&Operation::Watch(&path)) else { return };
    let _unwatching = Unwatching { connection: connection.clone(), path: path.clone() };
    if watching.answer(deadline, store.limits.request).await.is_err() {
        return;
    }
    hints.begin();
    match has_changed(store, &connection, &path, since).await {
        Ok(true) => hints.notify(),
        Ok(false) => {}
        Err(_) => return,
    }
    loop {
        let change = tokio::select! {
            biased;
            () = connection.ended() => return,
            change = watched.next() => change,
        };
        let may_be_free = match change {
            Change::Anywhere => Ok(true),
            Change::At(path) => may_be_free(store, &connection, &path).await,
        };
        match may_be_free {
            Ok(true) => hints.notify(),
            Ok(false) => {}
            Err(_) => return,
        }
    }
}

/// Whether the name at `path` or one of its slots was written after the change `since`; not if that is 0. A slot
/// may be released before the watch on its semaphore begins.
async fn has_changed(
    store: &Store,
    connection: &Connection,
    path: &str,
    since: i64,
) -> Result<bool, CallError> {
    if since == 0 {
        return Ok(false);
    }
    let (deadline, reply_timeout) = (store.client.deadline(), store.limits.request);
    let exists = connection.send(&Operation::Exists(path))?.answer(deadline, reply_timeout).await;
    let stat = match exists {
        Ok(mut answer) => Stat::read(&mut answer).map_err(CallError::Unknown)?,
        Err(CallError::Refused(Refusal::NO_NODE)) => return Ok(false),
        Err(error) => return Err(error),
    };
    if stat.mzxid > since || stat.children == 0 {
        return Ok(stat.mzxid > since);
    }
    let slots = store.client.children(path, deadline).await?;
    let slots: Vec<String> = slots.iter().map(|slot| format!("{path}/{slot}")).collect();
    let found = store.client.read_all(&slots, deadline).await?;
    Ok(found.iter().flatten().any(|(_, stat)| stat.mzxid > since))
}

/// Whether a client might now get the name at `path`. What the member of the watch reads is not older than the
/// change that it reported.
async fn may_be_free(store: &Store, connection: &Connection, path: &str) -> Result<bool, CallError> {
    let deadline = store.client.deadline();
    let answer = connection.send(&Operation::Read(path))?.answer(deadline, store.limits.request).await;
    let Some((data, stat)) = crate::node::zookeeper::client::data_of(answer)? else { return Ok(true) };
    let Ok(stored) = Stored::parse(&data, stat) else { return Ok(true) };
    store.see(&stored);
    Ok(stored.holds.iter().all(|hold| hold.mode == Mode::Shared))
}

/// Ends the watch of a task that ended.
struct Unwatching {
    connection: Arc<Connection>,
    path: String,
}

impl Drop for Unwatching {
    fn drop(&mut self) {
        drop(self.connection.send(&Operation::Unwatch(&self.path)));
    }
}
