//! A real server of a test's own, on a socket in a directory of its own.

use crate::node::redis::protocol::encode::Encoder;
use crate::node::redis::protocol::resp::{self, Value};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Server {
    directory: tempfile::TempDir,
    options: Vec<String>,
    child: Option<Child>,
}

impl Server {
    pub(crate) fn start(options: &[&str]) -> Self {
        let mut server = Self {
            directory: tempfile::tempdir().unwrap(),
            options: options.iter().map(|&option| option.to_owned()).collect(),
            child: None,
        };
        server.run();
        server
    }

    /// Starts it, again after [`Server::kill`].
    pub(crate) fn run(&mut self) {
        let child = Command::new("redis-server")
            .args(["--save", "", "--port", "0", "--dir"])
            .arg(self.directory.path())
            .arg("--unixsocket")
            .arg(self.socket())
            .args(&self.options)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        let end = Instant::now() + crate::node::redis::tests::NODE_TIMEOUT;
        while UnixStream::connect(self.socket()).is_err() {
            assert!(Instant::now() < end, "the server does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        while matches!(self.run_command("PING"), Value::Error(text) if text.starts_with(b"LOADING")) {
            assert!(Instant::now() < end, "the server does not load");
        }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("redis.sock")
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Runs a command on a connection of its own.
    pub(crate) fn run_command(&self, words: &str) -> Value {
        let stream = UnixStream::connect(self.socket()).unwrap();
        ask(&stream, words).expect("the server hung up")
    }

    /// What a command answers as text; nothing for a null.
    pub(crate) fn text(&self, words: &str) -> Option<String> {
        match self.run_command(words) {
            Value::Null => None,
            Value::Integer(number) => Some(number.to_string()),
            value => Some(String::from_utf8_lossy(value.text().unwrap()).into_owned()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Runs a command on a connection; `None` if the server has ended it.
pub(crate) fn ask(mut stream: &UnixStream, words: &str) -> Option<Value> {
    let words: Vec<&str> = words.split(' ').collect();
    let mut out = Vec::new();
    let mut command = Encoder::command(&mut out, words.len());
    for word in words {
        command = command.arg(word);
    }
    stream.write_all(&out).ok()?;
    answer(stream)
}

/// The next answer on a connection; `None` if the server has ended it.
pub(crate) fn answer(mut stream: &UnixStream) -> Option<Value> {
    let mut input = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk).ok()?;
        if length == 0 {
            return None;
        }
        input.extend_from_slice(&chunk[..length]);
        if let Some((value, _)) = resp::read(&input).unwrap() {
            return Some(value);
        }
    }
}
