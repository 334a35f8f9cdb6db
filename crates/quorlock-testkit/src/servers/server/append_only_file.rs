//! What a power loss does to the append-only file.

use super::Server;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;

impl Server {
    /// Takes the last `bytes` off the append-only file, as a power loss does to what was not
    /// synced. Returns how many there were to take. The next start forgets the commands that were
    /// there, whole or in part.
    ///
    /// # Panics
    /// The server is up, or keeps no append-only file.
    pub fn cut_aof(&mut self, bytes: u64) -> u64 {
        assert!(self.child.is_none(), "a running server would write on");
        let file = OpenOptions::new().write(true).open(self.newest_aof()).unwrap();
        let length = file.metadata().unwrap().len();
        let taken = bytes.min(length);
        file.set_len(length - taken).unwrap();
        taken
    }

    /// Version 7 and later write increments with a rising number to a directory; older ones write
    /// one file.
    fn newest_aof(&self) -> PathBuf {
        let single = self.directory().join("appendonly.aof");
        let Ok(entries) = fs::read_dir(self.directory().join("appendonlydir")) else { return single };
        let increments = entries
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(".incr.aof"));
        increments.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap()).expect("an increment")
    }
}
