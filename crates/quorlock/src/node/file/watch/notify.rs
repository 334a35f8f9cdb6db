//! The kernel's notifications about changed files in a directory, if the system has them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Files that changed while waiting.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    files: BTreeSet<String>,
    /// The kernel dropped notifications, so any file may have changed.
    all: bool,
}

impl Touched {
    pub(crate) fn is_nothing(&self) -> bool {
        self.files.is_empty() && !self.all
    }

    pub(crate) fn contains(&self, file: &str) -> bool {
        self.all || self.files.contains(file)
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) use with_inotify::Changes;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod with_inotify {
    use super::{Duration, Path, Touched};
    use crate::node::file::path::semaphore_file;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fd::OwnedFd;
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
    use std::mem::MaybeUninit;

    /// The buffer for notifications, each up to a file name long.
    const BUFFER_BYTES: usize = 4096;
    /// The most notifications read in one call; the rest waits for the next.
    const MAX_EVENTS: usize = 1024;

    /// Notifications about one directory.
    #[derive(Debug)]
    pub(in super::super) struct Changes(Option<OwnedFd>);

    impl Changes {
        /// Notifications from now on. None come if the user's limit of such watches is reached: then it
        /// only waits.
        pub(in super::super) fn of(dir: &Path) -> Self {
            let open = || {
                let inotify_fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
                inotify::add_watch(&inotify_fd, dir, WatchFlags::MODIFY)?;
                rustix::io::Result::Ok(inotify_fd)
            };
            Self(open().ok())
        }

        /// Waits for a change, at most for `limit`.
        pub(in super::super) fn wait(&mut self, limit: Duration) -> Touched {
            let Some(inotify_fd) = &self.0 else {
                std::thread::sleep(limit);
                return Touched::default();
            };
            let mut ready = [PollFd::new(inotify_fd, PollFlags::IN)];
            let limit = Timespec {
                tv_sec: limit.as_secs().try_into().unwrap_or(1),
                tv_nsec: limit.subsec_nanos().into(),
            };
            match poll(&mut ready, Some(&limit)) {
                Ok(count) if count > 0 => read_events(inotify_fd),
                _ => Touched::default(),
            }
        }
    }

    fn read_events(inotify_fd: &OwnedFd) -> Touched {
        let mut touched = Touched::default();
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = inotify::Reader::new(inotify_fd, &mut buffer);
        for _ in 0..MAX_EVENTS {
            let Ok(event) = reader.next() else { break };
            touched.all |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            let file = event.file_name().and_then(|file| file.to_str().ok());
            // Waiters for a semaphore watch the file of its own name.
            touched.files.extend(file.and_then(semaphore_file));
            touched.files.extend(file.map(str::to_owned));
        }
        touched
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
pub(crate) struct Changes;

/// No notifications on this system: only the regular poll finds changes.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Changes {
    pub(crate) fn of(_dir: &Path) -> Self {
        Self
    }

    pub(crate) fn wait(&mut self, limit: Duration) -> Touched {
        std::thread::sleep(limit);
        Touched::default()
    }
}
