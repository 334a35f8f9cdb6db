//! Listing the names that a directory holds.

use crate::node::file::failed;
use crate::node::file::lockfile::{LockFile, Mode};
use crate::node::file::path::SUFFIX;
use crate::node::{Names, NodeError};
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

/// Every name that is locked in `dir`, or was when its file was last written. A file that cannot be read
/// is left out, and the list is then incomplete. Blocks for the disk.
pub(crate) fn names(dir: &Path, lock_timeout: Duration) -> Result<Names, NodeError> {
    let listed = |error| failed("list", dir, error);
    let (mut names, mut unread) = (Vec::new(), false);
    for entry in dir.read_dir().map_err(listed)? {
        let path = entry.map_err(listed)?.path();
        if path.extension() != Some(OsStr::new(&SUFFIX[1..])) {
            continue;
        }
        let file = LockFile::open_path(path, Mode::Read, lock_timeout);
        match file.and_then(|file| file.map_or(Ok(None), |file| file.held_name())) {
            Ok(name) => names.extend(name),
            Err(_) => unread = true,
        }
        if names.len() > Names::MOST {
            break;
        }
    }
    let names = Names::new(names);
    Ok(if unread { names.incomplete() } else { names })
}
