//! The file node: one machine, no server; a directory votes.

mod begin;
mod bytes;
mod dir;
mod examine;
mod failed_releases;
mod file_system;
mod hold;
mod list;
mod lockfile;
mod path;
mod state;
mod store;
mod watch;
mod worker;

#[cfg(test)]
mod tests;

use crate::context::Context;
use crate::context::clock::Clock;
use crate::node::url::Directory;
use crate::node::{BoxFuture, Facts, Health, Names, Node, NodeError, Request, Wakeup};
use quorlock_core::Name;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use store::Store;
use watch::Watches;
use worker::Worker;

/// How much longer than one answer of the node the wait for a file's kernel lock may take: a disk sync of
/// another process may take that long.
const LOCK_TIMEOUT_FACTOR: u32 = 4;

/// A directory on a local disk as a node: no server, and every process of the machine that can write
/// there takes part.
///
/// Every user who can write there is trusted. Only local file systems are, unless the address has
/// `?filesystem=any`.
///
/// Each name has a small file that is changed only under its kernel lock and is never removed. The fence
/// counter is on disk before a number is handed out, so it survives a power cut. A lock ends at its
/// deadline, with a reboot, and, if it is tied to its process, when that process ends, in whatever way.
///
/// All processes must see the same boot clock: time namespaces with an offset of their own are not
/// supported. Ties are judged only inside one pid namespace, and only if `/proc` belongs to it; seen from
/// elsewhere, a tied lock ends at its deadline.
///
/// An acquire waits for one disk sync. Where syncs are slow, raise the node timeout above their duration.
///
/// Dropping the node does not wait. Commands sent before are still executed, unless the process ends
/// first: then a tied lock is free at once because its process ended, and any other ends at its deadline.
#[derive(Debug)]
pub(crate) struct FileNode {
    id: Arc<str>,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    lock_timeout: Duration,
    watches: Arc<Watches>,
    worker: Worker,
}

impl FileNode {
    /// The node of `directory`.
    ///
    /// If it names no path: `$QUORLOCK_STATE_DIR`, else `$XDG_STATE_HOME/quorlock`, else
    /// `.local/state/quorlock` in the home directory, `$HOME` or that of the account; without one
    /// `/var/lib/quorlock` for root, and a private directory among the temporary files for others. Only
    /// these defaults are made if missing; a directory that was named is not.
    ///
    /// # Errors
    /// [`NodeError::FileSystem`] if it is not on a local file system, [`NodeError::File`] if it cannot be
    /// used, [`NodeError::SameServer`] if another node of the locker is the same directory.
    pub(crate) fn open(directory: &Directory, ctx: Context) -> Result<Self, NodeError> {
        let dir = dir::prepare(directory)?;
        let id: Arc<str> = format!("file:{}", dir.display()).into();
        let found = dir.metadata().map_err(|error| failed("read", &dir, error))?;
        let identity = format!("file {}:{}", found.dev(), found.ino());
        ctx.identities.claim(&id, &identity)?;
        let (lock_timeout, longest_ttl) = (ctx.node_timeout * LOCK_TIMEOUT_FACTOR, ctx.longest_ttl);
        let watches = Watches::new(dir.clone(), ctx.clock.clone());
        let (store_dir, clock) = (dir.clone(), ctx.clock.clone());
        // Opened by the thread, so that a program that forks before its first lock is tied to its new
        // process id.
        let store = move || Store {
            dir: store_dir,
            clock: ctx.clock,
            here: hold::here(),
            lock_timeout,
            synced: BTreeMap::new(),
        };
        let worker = Worker::new(store, watches.clone(), longest_ttl);
        Ok(Self { id, dir, clock, lock_timeout, watches, worker })
    }
}

impl Node for FileNode {
    fn id(&self) -> &str {
        &self.id
    }

    fn send(&self, request: Request) {
        self.worker.enqueue(request);
    }

    fn watch(&self, name: &Name, wakeup: &Wakeup) {
        self.watches.watch(name, wakeup);
    }

    fn unwatch(&self, name: &Name) {
        self.watches.unwatch(name);
    }

    fn names(&self) -> BoxFuture<'_, Result<Names, NodeError>> {
        let (dir, lock_timeout) = (self.dir.clone(), self.lock_timeout);
        Box::pin(off_thread(move || list::names(&dir, lock_timeout)))
    }

    fn examine(&self) -> BoxFuture<'_, Result<Facts, NodeError>> {
        let (dir, clock) = (self.dir.clone(), self.clock.clone());
        let examination = off_thread(move || examine::examine(&dir, clock.as_ref()));
        Box::pin(async move { Ok(Facts::Directory(examination.await?)) })
    }

    fn health(&self) -> Health {
        let (queued, trouble) = self.worker.health();
        Health { trouble, version: Some("file".to_owned()), queued, ..Health::default() }
    }
}

impl Drop for FileNode {
    fn drop(&mut self) {
        self.watches.close();
    }
}

/// Runs `work`, which waits for the disk, on a thread where it blocks no task.
async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, NodeError> + Send + 'static,
) -> Result<T, NodeError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(NodeError::Abandoned))
}

/// The error of doing `action` to `path`.
fn failed(action: &str, path: &Path, source: io::Error) -> NodeError {
    failed_without_path(&format!("cannot {action} `{}`", path.display()), source)
}

fn failed_without_path(action: &str, source: io::Error) -> NodeError {
    NodeError::File { action: action.into(), source: Arc::new(source) }
}
