//! Where a test's server keeps its files.

use rustix::fs::statvfs;
use std::path::Path;
use tempfile::TempDir;

/// Linux keeps this directory in memory.
const IN_MEMORY: &str = "/dev/shm";

/// Space for many servers and etcd clusters at once; a container may have only 64 MB.
const ENOUGH: u64 = 4 << 30;

/// An empty directory, in memory where there is room.
///
/// A slow disk under several servers that sync each write makes them miss the node timeout of a test.
/// The processes of a test are killed but the machine goes on, so memory keeps what a disk would keep.
pub(super) fn fresh(prefix: &str) -> TempDir {
    let in_memory = || TempDir::with_prefix_in(prefix, IN_MEMORY).ok();
    let created = if has_room(Path::new(IN_MEMORY)) { in_memory() } else { None };
    created.unwrap_or_else(|| TempDir::with_prefix(prefix).unwrap())
}

fn has_room(directory: &Path) -> bool {
    statvfs(directory).is_ok_and(|volume| volume.f_bavail * volume.f_frsize >= ENOUGH)
}
