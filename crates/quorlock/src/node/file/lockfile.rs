//! One state file, open and under its kernel lock.

use crate::node::NodeError;
use crate::node::file::begin::begin;
use crate::node::file::failed;
use crate::node::file::path::file_name;
use crate::node::file::state::{FILE_BYTES, Image, SLOT_BYTES, Unreadable};
use quorlock_core::Name;
use rustix::fs::{FlockOperation, Mode as Permissions, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first and the longest pause between two tries to get the lock. Other processes keep it for
/// microseconds, or for one sync of the disk.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);
/// How often a file may be removed while we open it before we give up. No program should remove one at
/// all.
const MAX_REOPENS: usize = 8;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Reading; other processes may read, too.
    Read,
    /// Changing what is there.
    Change,
    /// Changing, and making the file first if there is none.
    Create,
}

impl Mode {
    fn operation(self) -> FlockOperation {
        match self {
            Mode::Read => FlockOperation::NonBlockingLockShared,
            Mode::Change | Mode::Create => FlockOperation::NonBlockingLockExclusive,
        }
    }
}

/// A state file under its kernel lock, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct LockFile {
    pub(crate) path: PathBuf,
    file: File,
}

impl LockFile {
    /// Opens and locks the file of `name`; `None` if there is none.
    pub(crate) fn open(
        dir: &Path,
        name: &Name,
        mode: Mode,
        lock_timeout: Duration,
    ) -> Result<Option<Self>, NodeError> {
        let path = dir.join(file_name(name));
        for _ in 0..MAX_REOPENS {
            match Self::open_path(path.clone(), mode, lock_timeout)? {
                None if mode == Mode::Create => begin(dir, &path, name, lock_timeout)?,
                found => return Ok(found),
            }
        }
        Err(removed_too_often(&path))
    }

    /// Opens and locks the file at `path`; `None` if there is none.
    pub(crate) fn open_path(
        path: PathBuf,
        mode: Mode,
        lock_timeout: Duration,
    ) -> Result<Option<Self>, NodeError> {
        for _ in 0..MAX_REOPENS {
            let file = match open(&path, mode) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(failed("open", &path, error)),
            };
            wait_for_lock(&file, mode.operation(), lock_timeout, &path)?;
            let found = file.metadata().map_err(|error| failed("read", &path, error))?;
            match found.nlink() {
                // A lock on a removed file excludes no process.
                0 => {}
                1 => return Ok(Some(Self { path, file })),
                // Another name or directory would share its state.
                links => {
                    let error = io::Error::other(format!("it has {links} hard links; only one is allowed"));
                    return Err(failed("use", &path, error));
                }
            }
        }
        Err(removed_too_often(&path))
    }

    #[cfg(test)]
    pub(crate) fn inherit(&self) -> File {
        self.file.try_clone().unwrap()
    }

    /// The content.
    pub(crate) fn load(&self, name: &Name) -> Result<Image, NodeError> {
        let image = self.image()?;
        if image.state.name == *name {
            return Ok(image);
        }
        let other = format!("it belongs to the name `{}`", image.state.name);
        Err(failed("use", &self.path, io::Error::other(other)))
    }

    /// The name that the file belongs to, if it is held or was when last written.
    pub(crate) fn held_name(&self) -> Result<Option<Name>, NodeError> {
        let state = self.image()?.state;
        Ok(state.record.is_held().then_some(state.name))
    }

    fn image(&self) -> Result<Image, NodeError> {
        let bytes = read(&self.file).map_err(|error| failed("read", &self.path, error))?;
        Image::read(&bytes).map_err(|reason| failed("understand", &self.path, invalid(reason)))
    }

    /// Syncs everything, the file's entry in the directory included, to the disk.
    pub(crate) fn sync_all(&self, dir: &Path) -> Result<(), NodeError> {
        let all = self.file.sync_all().and_then(|()| File::open(dir)?.sync_all());
        all.map_err(|error| failed("sync", &self.path, error))
    }

    /// Writes `bytes` into a slot.
    pub(crate) fn write(&self, bytes: &[u8], slot: usize) -> Result<(), NodeError> {
        let offset = u64::try_from(slot * SLOT_BYTES).unwrap_or_default();
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|error| failed("write", &self.path, error))
    }

    /// Waits until what was written is on the disk.
    pub(crate) fn sync(&self) -> Result<(), NodeError> {
        self.file.sync_data().map_err(|error| failed("sync", &self.path, error))
    }
}

impl Drop for LockFile {
    /// Closing is not enough: a child that was forked in the meantime has the same open file, and would
    /// keep the lock.
    fn drop(&mut self) {
        // What is not locked any more needs no unlocking.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// The newest state of a file, read without its lock: it may be one change old, or unreadable for a moment.
pub(crate) fn peek(path: &Path) -> io::Result<Image> {
    let bytes = read(&open(path, Mode::Read)?)?;
    Image::read(&bytes).map_err(invalid)
}

fn invalid(reason: Unreadable) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

fn removed_too_often(path: &Path) -> NodeError {
    failed("lock", path, io::Error::other("it is removed again and again"))
}

/// Opens what is there, and only a regular file. It is never made here: in a sticky directory Linux may
/// refuse to open the file of another user for a caller that would make it (`fs.protected_regular`).
fn open(path: &Path, mode: Mode) -> io::Result<File> {
    let access = match mode {
        Mode::Read => OFlags::RDONLY,
        Mode::Change | Mode::Create => OFlags::RDWR,
    };
    // A link to another place is never one of ours. Opening a pipe would block, and a terminal could
    // become ours.
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file: File = rustix::fs::open(path, flags, Permissions::empty())?.into();
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is no regular file")) }
}

/// Locks `file`, which is at `path`. Waits for at most `lock_timeout`.
pub(crate) fn wait_for_lock(
    file: &File,
    operation: FlockOperation,
    lock_timeout: Duration,
    path: &Path,
) -> Result<(), NodeError> {
    let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if waited >= lock_timeout => {
                return Err(NodeError::Timeout { after: lock_timeout });
            }
            Err(Errno::WOULDBLOCK) => {
                std::thread::sleep(pause);
                waited += pause;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(error) => return Err(failed("lock", path, error.into())),
        }
    }
}

fn read(file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; FILE_BYTES];
    let mut length = 0;
    while length < FILE_BYTES {
        let offset = u64::try_from(length).unwrap_or_default();
        match file.read_at(&mut bytes[length..], offset) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(length);
    Ok(bytes)
}
