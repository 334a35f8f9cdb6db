//! The working directory of the servers. It is removed when we end, or by the next `quorlock dev`
//! if we are killed.

use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "quorlock-dev-";
/// A file that is locked while its directory is in use; the kernel unlocks it when we end, in
/// whatever way.
const IN_USE: &str = "in-use";

/// A directory of our own. Dropping it removes it.
#[derive(Debug)]
pub(super) struct ScratchDir {
    dir: TempDir,
    _in_use: File,
}

impl ScratchDir {
    /// Creates a directory, and removes those of processes that were killed.
    pub(super) fn create() -> Result<Self, Failure> {
        remove_abandoned();
        Self::open().map_err(|error| {
            Failure::new(Exit::CannotRun, "system", format!("cannot make a directory for servers: {error}"))
        })
    }

    fn open() -> io::Result<Self> {
        let dir = TempDir::with_prefix(PREFIX)?;
        let in_use = File::create(dir.path().join(IN_USE))?;
        in_use.try_lock()?;
        Ok(Self { dir, _in_use: in_use })
    }

    /// Creates a directory in it.
    pub(super) fn subdirectory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.dir.path().join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}

/// Removes directories that no process uses any more. A directory that cannot be removed does no
/// harm.
fn remove_abandoned() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && is_abandoned(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Whether the file in `dir` exists and is not locked. A directory without the file is just being
/// created, or is not ours. A pipe in its place would block us.
fn is_abandoned(dir: &Path) -> bool {
    let is_file = fs::symlink_metadata(dir.join(IN_USE)).is_ok_and(|found| found.is_file());
    is_file && File::open(dir.join(IN_USE)).is_ok_and(|file| file.try_lock().is_ok())
}
