//! Which names a directory knows.

use super::super::{Names, NodeError};
use super::failed;
use super::lockfile::{LockFile, Mode};
use super::path::SUFFIX;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

/// Every name that was ever locked in `dir`. Blocks for the disk.
pub(super) fn names(dir: &Path, patience: Duration) -> Result<Names, NodeError> {
    let listed = |error| failed("list", dir, error);
    let mut names = Vec::new();
    for entry in dir.read_dir().map_err(listed)? {
        let path = entry.map_err(listed)?.path();
        let is_state = path.extension() == Some(OsStr::new(&SUFFIX[1..]));
        if is_state && let Some(file) = LockFile::open_path(path, Mode::Look, patience)? {
            names.extend(file.name()?);
        }
        if names.len() > Names::MOST {
            break;
        }
    }
    Ok(Names::new(names))
}
