//! Examining a directory: its file system, its free space and its speed.

use crate::context::clock::Clock;
use crate::node::file::{failed, file_system};
use crate::node::{DirectoryFacts, NodeError, Recall};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How much is written to measure a sync: as much as a state.
const PROBE: [u8; 1024] = [b'.'; 1024];

/// Examines `path`, where it writes and removes one small file. Blocks for the disk.
pub(crate) fn examine(path: &Path, clock: &dyn Clock) -> Result<DirectoryFacts, NodeError> {
    let name = file_system::name(path)?;
    let forgets = matches!(name.as_deref(), Some("tmpfs" | "ramfs"));
    Ok(DirectoryFacts {
        path: path.display().to_string(),
        file_system: name,
        free_bytes: rustix::fs::statvfs(path).ok().map(|found| found.f_bavail.saturating_mul(found.f_frsize)),
        sync: time_a_sync(path, clock)?,
        recall: if forgets { Recall::Nothing } else { Recall::Everything },
    })
}

fn time_a_sync(dir: &Path, clock: &dyn Clock) -> Result<Duration, NodeError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    // No state file ends like this.
    let probe = Probe(dir.join(format!("probe-{}-{number}.tmp", std::process::id())));
    let wrong = |error| failed("write", &probe.0, error);
    let mut file = probe.create().map_err(wrong)?;
    let start = clock.now();
    file.write_all(&PROBE).and_then(|()| file.sync_data()).map_err(wrong)?;
    Ok(clock.now().since(start))
}

/// A file that is removed when this is dropped.
struct Probe(PathBuf);

impl Probe {
    fn create(&self) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.0)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        // A file of ours that stays does no harm.
        let _ = std::fs::remove_file(&self.0);
    }
}
