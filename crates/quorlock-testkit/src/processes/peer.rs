//! Other Redlock clients, driven over the line protocol of `interop/README.md`.

use crate::processes::spawn::{find_program, spawn_bound};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A running program around another implementation of Redlock. Dropping it ends it.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    answers: mpsc::Receiver<String>,
}

/// Longer than any of them takes, even while the machine is busy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

impl Peer {
    /// redlock-py. `None`, with a note on stderr, if it is not installed here.
    pub fn python<U: AsRef<str>>(urls: &[U]) -> Option<Self> {
        let python = deps_directory().join("venv/bin/python");
        Self::start("redlock-py", &python, &interop().join("python/driver.py"), urls)
    }

    /// node-redlock. `None`, with a note on stderr, if it is not installed here.
    pub fn node<U: AsRef<str>>(urls: &[U]) -> Option<Self> {
        let installed = interop().join("node/node_modules/redlock").is_dir();
        let node = find_program("node").filter(|_| installed).unwrap_or_default();
        Self::start("node-redlock", &node, &interop().join("node/driver.js"), urls)
    }

    /// redsync. `None`, with a note on stderr, if it is not installed here.
    pub fn redsync<U: AsRef<str>>(urls: &[U]) -> Option<Self> {
        let driver = deps_directory().join("redsync-driver");
        Self::start("redsync", &driver, Path::new(""), urls)
    }

    /// Tries once to take the lock. The value it stored, or `None` if another client holds it.
    ///
    /// # Panics
    /// The peer failed in another way, or is silent for 30 seconds.
    pub fn lock(&mut self, name: &str, ttl: Duration) -> Option<String> {
        let answer = self.ask(&format!("lock {name} {}", ttl.as_millis()));
        match answer.split_once(' ') {
            Some(("ok", value)) => Some(value.to_owned()),
            _ if answer == "held" => None,
            _ => panic!("the peer answered {answer:?}"),
        }
    }

    /// Releases the lock. Whether `value` still held it.
    ///
    /// # Panics
    /// The peer failed in another way, or is silent for 30 seconds.
    pub fn unlock(&mut self, name: &str, value: &str) -> bool {
        match self.ask(&format!("unlock {name} {value}")).as_str() {
            "ok" => true,
            "no" => false,
            answer => panic!("the peer answered {answer:?}"),
        }
    }

    fn start<U: AsRef<str>>(what: &str, program: &Path, script: &Path, urls: &[U]) -> Option<Self> {
        if !program.is_file() {
            eprintln!("skipped: {what} is not installed, see scripts/setup-tests");
            return None;
        }
        let mut child = spawn_bound(program, |command| {
            command.args((!script.as_os_str().is_empty()).then_some(script));
            command.args(urls.iter().map(|url| OsStr::new(url.as_ref())));
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        })
        .unwrap();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (lines, answers) = mpsc::channel();
        // A thread, because a pipe has no read timeout. It ends with the peer's output.
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = lines.send(line);
            }
        });
        let peer = Self { child, answers };
        assert_eq!(peer.next_answer(), "ready", "{what}");
        Some(peer)
    }

    fn ask(&mut self, line: &str) -> String {
        let input = self.child.stdin.as_mut().expect("piped");
        writeln!(input, "{line}").unwrap();
        self.next_answer()
    }

    fn next_answer(&self) -> String {
        self.answers.recv_timeout(ANSWER_TIMEOUT).expect("the peer answers")
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended on its own; then there is only its status to collect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where `scripts/setup-tests` puts programs.
pub(crate) fn deps_directory() -> PathBuf {
    interop().join(".deps")
}

fn interop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../interop")
}
