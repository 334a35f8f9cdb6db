//! One state file, open and under its kernel lock.

use super::super::NodeError;
use super::failed;
use super::path::file_name;
use super::state::{FILE_BYTES, Image, SLOT_BYTES, Unreadable};
use quorlock_core::Name;
use rustix::fs::{FlockOperation, Mode as Permissions, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The first and the longest pause between two tries to get the lock. Others keep it for microseconds, or for
/// one sync of the disk.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);
/// How often a file may be removed under us before we give up. Nobody should remove one at all.
const MOST_REOPENS: usize = 8;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Reading; others may read, too.
    Look,
    /// Changing what is there.
    Change,
    /// Changing, and making the file first if there is none.
    Create,
}

/// A state file under its kernel lock, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct LockFile {
    pub(super) path: PathBuf,
    file: File,
}

impl LockFile {
    /// Opens and locks the file of `name`; `None` if there is none.
    pub(super) fn open(
        dir: &Path,
        name: &Name,
        mode: Mode,
        patience: Duration,
    ) -> Result<Option<Self>, NodeError> {
        Self::open_path(dir.join(file_name(name)), mode, patience)
    }

    /// Opens and locks the file at `path`; `None` if there is none.
    pub(super) fn open_path(
        path: PathBuf,
        mode: Mode,
        patience: Duration,
    ) -> Result<Option<Self>, NodeError> {
        for _ in 0..MOST_REOPENS {
            let file = match open(&path, mode) {
                Ok(file) => file,
                // Without its directory a file cannot be made: no state, and so no grant.
                Err(error) if error.kind() == io::ErrorKind::NotFound && mode != Mode::Create => {
                    return Ok(None);
                }
                Err(error) => return Err(failed("open", &path, error)),
            };
            lock(&file, mode, patience, &path)?;
            let found = file.metadata().map_err(|error| failed("read", &path, error))?;
            // A lock on a removed file excludes nobody.
            if found.nlink() > 0 {
                return Ok(Some(Self { path, file }));
            }
        }
        let error = io::Error::other("it is removed again and again");
        Err(failed("lock", &path, error))
    }

    #[cfg(test)]
    pub(super) fn inherit(&self) -> File {
        self.file.try_clone().unwrap()
    }

    /// The content; `None` if a crash came before the first state was written.
    pub(super) fn load(&self, name: &Name) -> Result<Option<Image>, NodeError> {
        let bytes = read(&self.file).map_err(|error| failed("read", &self.path, error))?;
        // Before anything else is written a file has its full length; a shorter one was never begun, or was cut.
        if bytes.len() < FILE_BYTES {
            let torn = Image::is_torn_beginning(&bytes, name);
            return if torn { Ok(None) } else { Err(unreadable(&self.path, Unreadable::Corrupt)) };
        }
        match Image::read(&bytes) {
            Ok(image) if image.state.name == *name => Ok(Some(image)),
            Ok(image) => {
                let other = format!("it belongs to the name `{}`", image.state.name);
                Err(failed("use", &self.path, io::Error::other(other)))
            }
            Err(_) if Image::is_torn_beginning(&bytes, name) => Ok(None),
            Err(reason) => Err(unreadable(&self.path, reason)),
        }
    }

    /// The name that the file belongs to, if somebody holds it or did so when last looked at; `None` also if a crash came
    /// before the first state was written.
    pub(super) fn held_name(&self) -> Result<Option<Name>, NodeError> {
        let bytes = read(&self.file).map_err(|error| failed("read", &self.path, error))?;
        match Image::read(&bytes) {
            Ok(image) => Ok(image.state.record.hold.is_some().then_some(image.state.name)),
            Err(Unreadable::Corrupt) if bytes.iter().all(|byte| *byte == 0) => Ok(None),
            Err(reason) => Err(unreadable(&self.path, reason)),
        }
    }

    /// Writes the first state of a new file.
    pub(super) fn begin(&self, name: &Name) -> Result<Image, NodeError> {
        let bytes = Image::beginning(name);
        share_like_directory(&self.file, &self.path);
        self.file.write_all_at(&bytes, 0).map_err(|error| failed("write", &self.path, error))?;
        Image::read(&bytes).map_err(|reason| failed("begin", &self.path, io::Error::other(reason)))
    }

    /// Brings everything, the file's very existence included, to the disk.
    pub(super) fn settle(&self, dir: &Path) -> Result<(), NodeError> {
        let all = self.file.sync_all().and_then(|()| File::open(dir)?.sync_all());
        all.map_err(|error| failed("sync", &self.path, error))
    }

    /// Writes `bytes` into a slot.
    pub(super) fn write(&self, bytes: &[u8], slot: usize) -> Result<(), NodeError> {
        let offset = u64::try_from(slot * SLOT_BYTES).unwrap_or_default();
        let written = self.file.write_all_at(bytes, offset);
        written.map_err(|error| failed("write", &self.path, error))
    }

    /// Waits until what was written is on the disk.
    pub(super) fn sync(&self) -> Result<(), NodeError> {
        self.file.sync_data().map_err(|error| failed("sync", &self.path, error))
    }
}

impl Drop for LockFile {
    /// Closing is not enough: a child that was forked meanwhile has the same open file, and would keep the lock.
    fn drop(&mut self) {
        // What is not locked any more needs no unlocking.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// The newest state of a file, read without its lock: it may be one change old, or unreadable for a moment.
pub(super) fn peek(path: &Path) -> io::Result<Image> {
    let bytes = read(&open(path, Mode::Look)?)?;
    Image::read(&bytes).map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))
}

fn unreadable(path: &Path, reason: Unreadable) -> NodeError {
    let error = io::Error::new(io::ErrorKind::InvalidData, reason);
    failed("understand", path, error)
}

fn open(path: &Path, mode: Mode) -> io::Result<File> {
    let access = match mode {
        Mode::Look => OFlags::RDONLY,
        Mode::Change => OFlags::RDWR,
        Mode::Create => OFlags::RDWR | OFlags::CREATE,
    };
    // A link to somewhere else is never one of ours.
    let flags = access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(path, flags, Permissions::from_raw_mode(0o600))?.into())
}

fn lock(file: &File, mode: Mode, patience: Duration, path: &Path) -> Result<(), NodeError> {
    let operation = match mode {
        Mode::Look => FlockOperation::NonBlockingLockShared,
        Mode::Change | Mode::Create => FlockOperation::NonBlockingLockExclusive,
    };
    let (mut pause, mut waited) = (FIRST_PAUSE, Duration::ZERO);
    loop {
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) if waited >= patience => {
                return Err(NodeError::Timeout { after: patience });
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

/// Lets everyone who may change the directory change the file: a group that shares the one shares the other.
fn share_like_directory(file: &File, path: &Path) {
    if let Some(Ok(dir)) = path.parent().map(Path::metadata) {
        // Fails if another user of the group made the file; then it is that user's to share.
        let _ = file.set_permissions(PermissionsExt::from_mode(dir.mode() & 0o666));
    }
}
