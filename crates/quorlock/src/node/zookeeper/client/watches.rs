//! The watches of one connection: which task hears of which change.

use crate::context::mutex::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// The most changes that wait to be heard of; of more only that there were some is kept.
const MAX_CHANGES: usize = 64;

/// The watches, by the path that each was set on.
#[derive(Debug, Default)]
pub(crate) struct Watches(Arc<Mutex<HashMap<String, Watcher>>>);

#[derive(Debug)]
struct Watcher {
    changes: Sender<String>,
    missed: Arc<AtomicBool>,
}

/// What changed at a path or below.
#[derive(Debug)]
pub(crate) struct Watched {
    path: String,
    changes: Receiver<String>,
    missed: Arc<AtomicBool>,
    watches: Arc<Mutex<HashMap<String, Watcher>>>,
}

/// One report of a watch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// This znode was created, written or deleted.
    At(String),
    /// Too much changed to name it.
    Anywhere,
}

impl Watches {
    pub(crate) fn add(&self, path: &str) -> Watched {
        let (sender, changes) = channel(MAX_CHANGES);
        let missed = Arc::new(AtomicBool::new(false));
        self.0.lock().insert(path.to_owned(), Watcher { changes: sender, missed: missed.clone() });
        Watched { path: path.to_owned(), changes, missed, watches: self.0.clone() }
    }

    /// Reports that `path` changed to the watches on it and on the znode above it.
    pub(crate) fn notify(&self, path: String) {
        let watches = self.0.lock();
        let above = path.rsplit_once('/').map(|(above, _)| above);
        let watcher = watches.get(&path).or_else(|| watches.get(above?));
        if let Some(Watcher { changes, missed }) = watcher
            && changes.try_send(path).is_err()
        {
            missed.store(true, Ordering::Relaxed);
        }
    }
}

impl Watched {
    /// The next change.
    ///
    /// # Cancel safety
    /// Cancel safe: a change that is not returned is returned by the next call.
    pub(crate) async fn next(&mut self) -> Change {
        if self.missed.swap(false, Ordering::Relaxed) {
            return Change::Anywhere;
        }
        self.changes.recv().await.map_or(Change::Anywhere, Change::At)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let mut watches = self.watches.lock();
        // A later watch on the same path stays.
        if watches.get(&self.path).is_some_and(|watcher| Arc::ptr_eq(&watcher.missed, &self.missed)) {
            watches.remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_watch_hears_of_its_path_and_of_those_right_below_and_of_too_many_changes() {
        let watches = Watches::default();
        let mut watched = watches.add("/a/b");
        for path in ["/a/b", "/a/b/7", "/a", "/a/c", "/a/bb"] {
            watches.notify(path.to_owned());
        }
        assert_eq!(watched.next().await, Change::At("/a/b".to_owned()));
        assert_eq!(watched.next().await, Change::At("/a/b/7".to_owned()));
        for _ in 0..=MAX_CHANGES {
            watches.notify("/a/b".to_owned());
        }
        assert_eq!(watched.next().await, Change::Anywhere);
        let second = watches.add("/a/b");
        drop(watched);
        assert_eq!(watches.0.lock().len(), 1, "the later one stays");
        drop(second);
        assert!(watches.0.lock().is_empty());
    }
}
