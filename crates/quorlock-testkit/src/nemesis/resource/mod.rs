//! What the locks protect, as the harness sees it: every write that the server executed, in its
//! order.

pub(crate) mod access;
pub(crate) mod protected_value;

use crate::eventually::until_blocking;
use crate::servers::builder::Binary;
use crate::servers::server::Server;
use protected_value::{FENCED, PLAIN};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// A server that is always up and has no proxy before it.
pub(crate) struct Resource {
    server: Server,
    ledger: Arc<Mutex<Ledger>>,
}

/// What became of the values.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    current: BTreeMap<String, String>,
    is_closed: bool,
    /// Writes to the unprotected values.
    pub plain_writes: u64,
    /// Updates that the unprotected values lost.
    pub lost_updates: u64,
    /// Writes that the values with fences accepted.
    pub fenced_writes: u64,
    /// Updates that the values with fences lost; there should be none.
    pub fenced_losses: Vec<String>,
}

/// Written last, so that the ledger is known to be complete.
const END: &str = "end";

impl Resource {
    pub(crate) fn start(binary: Binary) -> Self {
        let server = Server::builder().binary(binary).start();
        let mut stream = UnixStream::connect(server.socket()).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines();
        // Its OK: from here on everything is seen.
        lines.next().unwrap().unwrap();
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let written = ledger.clone();
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                written.lock().unwrap().record_command(&line);
            }
        });
        Self { server, ledger }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.server.socket()
    }

    /// The ledger with all that was written so far.
    pub(crate) fn close(&self) -> Ledger {
        self.server.cli(&["SET", END, ""]);
        let is_closed = || self.ledger.lock().unwrap().is_closed;
        until_blocking("the ledger is complete", Duration::from_secs(20), is_closed);
        self.ledger.lock().unwrap().clone()
    }
}

impl Ledger {
    /// Records a line of MONITOR: `+TIME [0 ADDRESS] "SET" "KEY" "VALUE"`. The commands of a script
    /// follow it as such lines, so a write that a script refused does not count.
    fn record_command(&mut self, line: &str) {
        let Some((_, command)) = line.split_once("] \"") else { return };
        let words: Vec<&str> = command.strip_suffix('"').unwrap_or_default().split("\" \"").collect();
        let ["SET" | "set", key, value] = words[..] else { return };
        self.is_closed |= key == END;
        let mut parts = value.split('<');
        let (Some(id), Some(parent)) = (parts.next(), parts.next()) else { return };
        let before = self.current.insert(key.to_owned(), id.to_owned()).unwrap_or_default();
        let is_lost = u64::from(before != parent);
        if key.starts_with(PLAIN) {
            self.plain_writes += 1;
            self.lost_updates += is_lost;
        } else if key.starts_with(FENCED) {
            self.fenced_writes += 1;
            if before != parent {
                self.fenced_losses.push(format!("{id} read {key} of `{parent}` and overwrote `{before}`"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protected_value::ProtectedValues;

    /// Goal: a zero of lost updates means something, and the library's script is what makes it
    /// zero.
    #[test]
    fn a_late_write_is_lost_without_fences_and_refused_with_them() {
        let resource = Resource::start(Binary::Redis);
        let mut old = ProtectedValues::open(&resource.socket(), "old".to_owned(), |_| ());
        let mut new = ProtectedValues::open(&resource.socket(), "new".to_owned(), |_| ());
        let seen_by_old = old.read("a", 1);
        let seen_by_new = new.read("a", 2);
        assert!(new.write("a", 2, &seen_by_new));
        assert!(!old.write("a", 1, &seen_by_old));
        let ledger = resource.close();
        assert_eq!((ledger.plain_writes, ledger.lost_updates), (2, 1));
        assert_eq!((ledger.fenced_writes, ledger.fenced_losses.len()), (1, 0));
    }

    #[test]
    fn two_holders_with_one_fence_are_seen_to_lose_an_update() {
        let resource = Resource::start(Binary::Redis);
        let mut one = ProtectedValues::open(&resource.socket(), "one".to_owned(), |_| ());
        let mut other = ProtectedValues::open(&resource.socket(), "other".to_owned(), |_| ());
        let (first, second) = (one.read("a", 1), other.read("a", 1));
        assert!(one.write("a", 1, &first) && other.write("a", 1, &second));
        assert_eq!(resource.close().fenced_losses.len(), 1);
    }

    /// Goal: concurrent readers do not shut out each other, and what a reader was shown does not change.
    #[test]
    fn a_reader_keeps_older_writers_out_and_a_later_writer_refuses_it() {
        let resource = Resource::start(Binary::Redis);
        let open = |who: &str| ProtectedValues::open(&resource.socket(), who.to_owned(), |_| ());
        let (mut writer, mut reader, mut other) = (open("writer"), open("reader"), open("other"));
        let seen_by_writer = writer.read("a", 1);
        let first = reader.read_shared("a", 3);
        assert_eq!(first.fenced, Some(String::new()));
        assert_eq!(other.read_shared("a", 2).fenced, first.fenced, "an older reader is no outdated one");
        assert!(!writer.write("a", 1, &seen_by_writer), "a reader has seen the value");
        assert_eq!(reader.read_shared("a", 3).fenced, first.fenced);
        let seen_later = writer.read("a", 4);
        assert!(writer.write("a", 4, &seen_later));
        assert_eq!(reader.read_shared("a", 3).fenced, None);
        assert_eq!(other.read_shared("a", 5).fenced, Some("writer.2".to_owned()));
        assert!(resource.close().fenced_losses.is_empty());
    }
}
