//! Who waits for which name, and the thread that notices when one may have become free.

use crate::context::clock::Clock;
use crate::context::mutex::Mutex;
use crate::node::Wakeup;
use crate::node::file::hold::is_over;
use crate::node::file::lockfile::peek;
use crate::node::file::notify::Changes;
use crate::node::file::path::file_name;
use crate::node::record::Place;
use quorlock_core::{Moment, Name};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// How often watched names are looked at without a change: a holder that is killed, or whose time runs out,
/// changes no file.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// After how many looks without any watch the thread ends.
const IDLE_LOOKS: u32 = 10;
/// The most names that are watched at a time; for further ones the poll of the waiter must do.
const MOST_WATCHES: usize = 65_536;

/// The bells of one node, by the file of the name.
#[derive(Debug)]
pub(crate) struct Watches {
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    wakeups: Mutex<Bells>,
}

#[derive(Debug, Default)]
struct Bells {
    by_file: BTreeMap<String, Wakeup>,
    running: bool,
    closed: bool,
}

impl Watches {
    pub(crate) fn new(dir: PathBuf, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { dir, clock, wakeups: Mutex::default() })
    }

    /// Rings `wakeup` from now on when `name` may be free. The thread starts if it does not run.
    pub(crate) fn watch(self: &Arc<Self>, name: &Name, wakeup: &Wakeup) {
        let mut wakeups = self.lock();
        if wakeups.closed || wakeups.by_file.len() >= MOST_WATCHES {
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
        // Without the thread the poll of the waiter must do.
        wakeups.running = thread.spawn(move || watches.run(changes)).is_ok();
    }

    pub(crate) fn unwatch(&self, name: &Name) {
        self.lock().by_file.remove(&file_name(name));
    }

    /// Rings for `name`, which was just freed.
    pub(crate) fn notify(&self, name: &Name) {
        let wakeups = self.lock();
        if wakeups.by_file.is_empty() {
            return;
        }
        wakeups.by_file.get(&file_name(name)).into_iter().for_each(Wakeup::notify);
    }

    /// Lets the thread end soon.
    pub(crate) fn close(&self) {
        let mut wakeups = self.lock();
        wakeups.closed = true;
        wakeups.by_file.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Bells> {
        self.wakeups.lock()
    }

    fn run(&self, mut changes: Changes) {
        let here = crate::node::file::hold::here();
        let (mut idle, mut looked) = (0, self.clock.now());
        while self.goes_on(&mut idle) {
            let touched = changes.wait(LOOK_EVERY);
            let now = self.clock.now();
            let due = touched.is_nothing() || looked.until(now) >= LOOK_EVERY;
            if due {
                looked = now;
            }
            for (file, wakeup) in self.watched(|file| due || touched.contains(file)) {
                if self.may_be_free(&file, &here) {
                    wakeup.notify();
                }
            }
        }
    }

    /// Whether the thread is still needed; else it is marked as ended, so that the next watch starts another.
    fn goes_on(&self, idle: &mut u32) -> bool {
        let mut wakeups = self.lock();
        *idle = if wakeups.by_file.is_empty() { *idle + 1 } else { 0 };
        wakeups.running = !wakeups.closed && *idle <= IDLE_LOOKS;
        wakeups.running
    }

    fn watched(&self, wanted: impl Fn(&str) -> bool) -> Vec<(String, Wakeup)> {
        let wakeups = self.lock();
        let chosen = wakeups.by_file.iter().filter(|(file, _)| wanted(file));
        chosen.map(|(file, wakeup)| (file.clone(), wakeup.clone())).collect()
    }

    /// In doubt it may: a ring too much costs one look of the waiter.
    fn may_be_free(&self, file: &str, here: &Place) -> bool {
        peek(&self.dir.join(file)).map_or(true, |image| {
            // Read after the file: in one boot no deadline is further ahead than its span.
            let now: Moment = self.clock.now();
            image.state.record.hold.is_none_or(|hold| is_over(&hold, now, here))
        })
    }
}
