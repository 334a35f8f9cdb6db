//! The watched names, and the thread that notices when one may have become free.

mod notify;

use crate::context::clock::Clock;
use crate::context::mutex::Mutex;
use crate::node::Wakeup;
use crate::node::file::hold::is_over;
use crate::node::file::lockfile::peek;
use crate::node::file::path::file_name;
use crate::node::file::watch::notify::Changes;
use crate::node::record::Place;
use quorlock_core::{Moment, Name};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// How often watched names are checked without a change: a holder that is killed, or whose time runs out,
/// changes no file.
const POLL_EVERY: Duration = Duration::from_millis(100);
/// After how many checks without any watch the thread ends.
const IDLE_POLLS: u32 = 10;
/// The most names that are watched at a time; waiters for further ones only poll.
const MAX_WATCHES: usize = 65_536;

/// The wakeups of one node, by the file of the name.
#[derive(Debug)]
pub(crate) struct Watches {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    wakeups: Mutex<WatchList>,
}

#[derive(Debug, Default)]
struct WatchList {
    by_file: BTreeMap<String, Wakeup>,
    running: bool,
    closed: bool,
}

impl Watches {
    pub(crate) fn new(dir: PathBuf, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { dir, clock, wakeups: Mutex::default() })
    }

    /// Notifies `wakeup` from now on when `name` may be free. The thread starts if it does not run.
    pub(crate) fn watch(self: &Arc<Self>, name: &Name, wakeup: &Wakeup) {
        let mut wakeups = self.lock();
        if wakeups.closed || wakeups.by_file.len() >= MAX_WATCHES {
            return;
        }
        wakeups.by_file.insert(file_name(name), wakeup.clone());
        if wakeups.running {
            return;
        }
        // Opened here and not in the thread: from this moment on no change may be missed.
        let changes = Changes::of(&self.dir);
        let watches = self.clone();
        let thread = std::thread::Builder::new().name("quorlock-watch".to_owned());
        // Without the thread the waiter only polls.
        wakeups.running = thread.spawn(move || watches.run(changes)).is_ok();
    }

    pub(crate) fn unwatch(&self, name: &Name) {
        self.lock().by_file.remove(&file_name(name));
    }

    /// Notifies the waiters of `name`, which was just freed.
    pub(crate) fn notify(&self, name: &Name) {
        let wakeups = self.lock();
        if wakeups.by_file.is_empty() {
            return;
        }
        wakeups.by_file.get(&file_name(&name.topic())).into_iter().for_each(Wakeup::notify);
    }

    /// Makes the thread end soon.
    pub(crate) fn close(&self) {
        let mut wakeups = self.lock();
        wakeups.closed = true;
        wakeups.by_file.clear();
    }

    fn lock(&self) -> MutexGuard<'_, WatchList> {
        self.wakeups.lock()
    }

    fn run(&self, mut changes: Changes) {
        let here = crate::node::file::hold::here();
        let (mut idle, mut last_poll) = (0, self.clock.now());
        while self.is_needed(&mut idle) {
            let touched = changes.wait(POLL_EVERY);
            let now = self.clock.now();
            let due = touched.is_nothing() || last_poll.until(now) >= POLL_EVERY;
            if due {
                last_poll = now;
            }
            for (file, wakeup) in self.watched(|file| due || touched.contains(file)) {
                if self.may_be_free(&file, &here) {
                    wakeup.notify();
                }
            }
        }
    }

    /// Whether the thread is still needed; else it is marked as ended, so that the next watch starts another.
    fn is_needed(&self, idle: &mut u32) -> bool {
        let mut wakeups = self.lock();
        *idle = if wakeups.by_file.is_empty() { *idle + 1 } else { 0 };
        wakeups.running = !wakeups.closed && *idle <= IDLE_POLLS;
        wakeups.running
    }

    fn watched(&self, wanted: impl Fn(&str) -> bool) -> Vec<(String, Wakeup)> {
        let wakeups = self.lock();
        let chosen = wakeups.by_file.iter().filter(|(file, _)| wanted(file));
        chosen.map(|(file, wakeup)| (file.clone(), wakeup.clone())).collect()
    }

    /// In doubt it may be: a superfluous notification costs the waiter one inspection.
    fn may_be_free(&self, file: &str, here: &Place) -> bool {
        peek(&self.dir.join(file)).map_or(true, |image| {
            // Read after the file: in one boot no deadline is further ahead than its span.
            let now: Moment = self.clock.now();
            image.state.record.holds.iter().all(|hold| is_over(hold, now, here))
        })
    }
}
