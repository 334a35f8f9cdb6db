//! The kernel's news about changed files in a directory, where the system has such.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Files that changed in one span of waiting.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    files: BTreeSet<String>,
    /// So much happened that news were dropped.
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
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fd::OwnedFd;
    use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
    use std::mem::MaybeUninit;

    /// Room for some news at a time, each up to a file name long.
    const NEWS_BYTES: usize = 4096;
    /// The most news taken in one go; the rest waits for the next.
    const MOST_NEWS: usize = 1024;

    /// News about one directory.
    #[derive(Debug)]
    pub(in super::super) struct Changes(Option<OwnedFd>);

    impl Changes {
        /// News from now on. Without any if the user's limit of such watches is reached: waiting is all it does then.
        pub(in super::super) fn of(dir: &Path) -> Self {
            let open = || {
                let news = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
                inotify::add_watch(&news, dir, WatchFlags::MODIFY)?;
                rustix::io::Result::Ok(news)
            };
            Self(open().ok())
        }

        /// Waits for a change, at most for `limit`.
        pub(in super::super) fn wait(&mut self, limit: Duration) -> Touched {
            let Some(news) = &self.0 else {
                std::thread::sleep(limit);
                return Touched::default();
            };
            let mut ready = [PollFd::new(news, PollFlags::IN)];
            let limit = Timespec {
                tv_sec: limit.as_secs().try_into().unwrap_or(1),
                tv_nsec: limit.subsec_nanos().into(),
            };
            match poll(&mut ready, Some(&limit)) {
                Ok(count) if count > 0 => take(news),
                _ => Touched::default(),
            }
        }
    }

    fn take(news: &OwnedFd) -> Touched {
        let mut touched = Touched::default();
        let mut room = [MaybeUninit::uninit(); NEWS_BYTES];
        let mut reader = inotify::Reader::new(news, &mut room);
        for _ in 0..MOST_NEWS {
            let Ok(event) = reader.next() else { break };
            touched.all |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            let file = event.file_name().and_then(|file| file.to_str().ok());
            touched.files.extend(file.map(str::to_owned));
        }
        touched
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
pub(crate) struct Changes;

/// No news here: the regular look is all there is.
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
