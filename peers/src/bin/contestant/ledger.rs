//! Who had the lock last, across processes: a cycle is a handoff only if another client had it before.

use anyhow::{Context, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file that the holder of the lock signs.
pub struct Ledger(File);

impl Ledger {
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        Ok(Self(file.with_context(|| format!("no ledger at {}", path.display()))?))
    }

    /// Signs as `client` of this process; `true` if the last holder was another client.
    pub fn sign(&self, client: usize) -> bool {
        let name = format!("{:8}{client:8}", std::process::id());
        let mut last = [0; 16];
        let known = self.0.read_exact_at(&mut last, 0).is_ok();
        if known && last == name.as_bytes() {
            return false;
        }
        // Unsigned, the next one counts once too often or once too seldom: no more than that.
        let _ = self.0.write_all_at(name.as_bytes(), 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_client_makes_it_a_handoff() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (ours, others) = (Ledger::open(file.path()).unwrap(), Ledger::open(file.path()).unwrap());
        let signed: Vec<bool> = [1, 1, 2, 1, 1].iter().map(|&client| ours.sign(client)).collect();
        assert_eq!(signed, [true, false, true, true, false]);
        assert!(!others.sign(1));
        assert!(others.sign(3));
        assert!(ours.sign(1));
    }
}
