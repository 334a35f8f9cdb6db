//! Creating a state file, so that it is whole from the first moment that other processes see it.

use crate::node::NodeError;
use crate::node::file::failed;
use crate::node::file::lockfile::wait_for_lock;
use crate::node::file::state::Image;
use quorlock_core::Name;
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the name of a file ends that is not whole yet.
const UNFINISHED: &str = ".new";

/// Makes the state file `path` of `name` in `dir` unless it exists. Its content is on the disk, its entry
/// in the directory may not be yet.
///
/// A crash leaves no file or a whole one, so a file that is shorter was truncated by another program and
/// is never taken for a new one.
pub(crate) fn begin(dir: &Path, path: &Path, name: &Name, lock_timeout: Duration) -> Result<(), NodeError> {
    let wrong = |error| failed("create", path, error);
    // A missing directory is not made: no state, and so no grant.
    let dir_lock = File::open(dir).map_err(wrong)?;
    // One process at a time, or the second would replace what the first made and has locked by now.
    wait_for_lock(&dir_lock, FlockOperation::NonBlockingLockExclusive, lock_timeout, dir)?;
    let made = if path.symlink_metadata().is_ok() { Ok(()) } else { make(dir, path, name) };
    // Closing is not enough if a child was forked in the meantime.
    let _ = rustix::fs::flock(&dir_lock, FlockOperation::Unlock);
    made.map_err(wrong)
}

fn make(dir: &Path, path: &Path, name: &Name) -> io::Result<()> {
    let unfinished = unfinished(path);
    // What a crash left. It stays if another user left it in a sticky directory, and is then named in the
    // error.
    let _ = std::fs::remove_file(&unfinished);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    share_like(dir, &file);
    file.write_all(&Image::beginning(name))?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)
}

fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(UNFINISHED);
    name.into()
}

/// Lets every user that may change the directory change the file: a group that shares the one shares the
/// other.
fn share_like(dir: &Path, file: &File) {
    if let Ok(dir) = dir.metadata() {
        // File systems without permissions refuse.
        let _ = file.set_permissions(PermissionsExt::from_mode(dir.mode() & 0o666));
    }
}
