//! A loopback port that belongs to one test at a time.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::path::PathBuf;

/// A loopback port, ours until it is dropped, even while no process listens on it.
///
/// Asking the kernel for port 0 would be shorter but wrong twice. Such a port can be given to
/// another test while our server is down between two starts; and it lies in the range of outgoing
/// connections, where a client that connects to a dead port of its own machine can end up connected
/// to itself. So ports come from below that range, and a lock file per port keeps other test
/// processes away.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The kernel frees the lock when this file is closed, however the process ends.
    _claim: File,
}

/// Below the outgoing range of Linux (32768 and up) and macOS (49152 and up).
const RANGE: std::ops::Range<u16> = 10_000..32_000;

/// More tries than a machine could have busy neighbours.
const TRIES: u64 = 1_000;

impl Port {
    /// Claims a port on which nothing listens.
    pub fn claim() -> Self {
        let claims = claims_directory();
        let random = RandomState::new();
        (0..TRIES)
            .find_map(|attempt| {
                let offset = random.hash_one(attempt) % u64::from(RANGE.end - RANGE.start);
                Self::try_claim(&claims, RANGE.start + u16::try_from(offset).unwrap())
            })
            .expect("no free port on loopback")
    }

    /// The port's number.
    pub fn number(&self) -> u16 {
        self.number
    }

    fn try_claim(claims: &std::path::Path, number: u16) -> Option<Self> {
        let claim = File::create(claims.join(number.to_string())).unwrap();
        claim.try_lock().ok()?;
        TcpListener::bind(("127.0.0.1", number)).ok()?;
        Some(Self { number, _claim: claim })
    }
}

/// One directory per user, because lock files of another user cannot be opened.
fn claims_directory() -> PathBuf {
    let user = rustix::process::getuid().as_raw();
    let directory = std::env::temp_dir().join(format!("quorlock-test-ports-{user}"));
    fs::create_dir_all(&directory).unwrap();
    directory
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claimed_port_is_not_claimed_again() {
        let port = Port::claim();
        assert!(Port::try_claim(&claims_directory(), port.number()).is_none());
    }

    #[test]
    fn a_port_in_use_is_not_claimed() {
        let port = Port::claim();
        let number = port.number();
        let _listener = TcpListener::bind(("127.0.0.1", number)).unwrap();
        drop(port);
        assert!(Port::try_claim(&claims_directory(), number).is_none());
    }
}
