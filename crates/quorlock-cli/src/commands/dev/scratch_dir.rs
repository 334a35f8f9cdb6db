//! The directory that the servers work in, which goes with us, or with the next one if we are killed.

use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "quorlock-dev-";
/// Locked while its directory is in use; the kernel unlocks it however we end.
const IN_USE: &str = "in-use";

/// A directory of our own. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Scratch {
    dir: TempDir,
    _in_use: File,
}

impl Scratch {
    /// Makes it, and removes those of others that were killed.
    pub(super) fn make() -> Result<Self, Failure> {
        sweep();
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

    /// Makes a directory in it.
    pub(super) fn subdirectory(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.dir.path().join(name);
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}

/// Removes what nobody uses any more. Whatever cannot be removed stays: it does no harm.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && is_left(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A directory without the file is just being made, or is none of ours; nor is one with a pipe in its place, which
/// would keep us waiting.
fn is_left(dir: &Path) -> bool {
    let is_file = fs::symlink_metadata(dir.join(IN_USE)).is_ok_and(|found| found.is_file());
    is_file && File::open(dir.join(IN_USE)).is_ok_and(|file| file.try_lock().is_ok())
}
