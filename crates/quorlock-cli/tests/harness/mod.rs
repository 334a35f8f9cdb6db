//! The built program in a home of its own, away from the settings of the developer.
#![allow(clippy::unwrap_used)]
#![allow(dead_code)] // Each test file uses its part of it.

use quorlock_testkit::{Servers, until_blocking};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A loaded machine may need long; no command of ours does.
const LIMIT: Duration = Duration::from_secs(120);

/// Where locks of this machine are, in a home.
const LOCKS: &str = "locks";

/// A home directory, and the nodes that commands there use.
#[derive(Debug)]
pub(crate) struct Home {
    dir: TempDir,
    nodes: Option<String>,
}

impl Home {
    /// Locks of this machine alone, in a directory of their own.
    pub(crate) fn new() -> Self {
        let dir = TempDir::with_prefix("quorlock-home-").unwrap();
        fs::create_dir(dir.path().join(LOCKS)).unwrap();
        Self { dir, nodes: None }
    }

    /// Locks on `servers`, which are declared fresh.
    pub(crate) fn on(servers: &Servers) -> Self {
        let locker = quorlock::Locker::builder()
            .nodes(servers.urls().iter().map(String::as_str))
            .node_timeout(Duration::from_secs(2))
            .build_blocking()
            .unwrap();
        quorlock_testkit::init_nodes_blocking(&locker);
        let home = Self { nodes: Some(servers.urls().join(",")), ..Self::new() };
        // Long enough for a loaded machine, and short enough for a ttl of 1 s.
        let config = home.path().join("config/quorlock");
        fs::create_dir_all(&config).unwrap();
        fs::write(config.join("config.toml"), "node_timeout = \"240ms\"\n").unwrap();
        home
    }

    /// Locks on nodes that were not initialised.
    pub(crate) fn with_nodes(urls: &[String]) -> Self {
        Self { nodes: Some(urls.join(",")), ..Self::new() }
    }

    /// A file in it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The state file of a lock of this machine.
    pub(crate) fn state_file(&self, lock: &str) -> PathBuf {
        self.path().join(LOCKS).join(format!("{lock}.lock"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// `quorlock` with these arguments; nothing runs yet.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = program_with_usual_signals();
        let ours = std::env::vars_os().map(|(key, _)| key);
        for key in ours.filter(|key| key.to_string_lossy().starts_with("QUORLOCK_")) {
            command.env_remove(key);
        }
        let dir = self.path();
        command
            .args(args)
            .current_dir(dir)
            .env("HOME", dir)
            .env("XDG_CONFIG_HOME", dir.join("config"))
            .env("XDG_STATE_HOME", dir.join("state"))
            .env("QUORLOCK_STATE_DIR", dir.join(LOCKS))
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(nodes) = &self.nodes {
            command.env("QUORLOCK_NODES", nodes);
        }
        command
    }

    /// Starts `quorlock` and returns at once.
    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running(Some(self.command(args).spawn().unwrap()))
    }

    /// Runs `quorlock` to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Answer {
        self.start(args).end()
    }
}

/// The program with signals as a shell gives them. Under `nohup`, or in the background of a script,
/// our own are ignored, which it would respect.
fn program_with_usual_signals() -> Command {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    // HUP, INT, QUIT and TERM, counted from 1.
    if ignored & (1 | 1 << 1 | 1 << 2 | 1 << 14) == 0 {
        return Command::new(program());
    }
    let mut command = Command::new("/usr/bin/env");
    command.arg("--default-signal=HUP,INT,QUIT,TERM").arg(program());
    command
}

/// The built program.
pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_quorlock"))
}

/// A command that runs. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Running(Option<Child>);

impl Running {
    /// Runs `command` in the background.
    pub(crate) fn new(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }

    pub(crate) fn id(&mut self) -> u32 {
        self.child().id()
    }

    /// Writes `text` to its stdin, and ends that.
    pub(crate) fn type_in(&mut self, text: &str) {
        self.child().stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        kill_process(Pid::from_child(self.child()), signal).unwrap();
    }

    /// Reads until `wanted` was written.
    pub(crate) fn read_until(stream: &mut (impl Read + AsFd), wanted: &str) -> String {
        let start = Instant::now();
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(wanted.as_bytes()) {
            let said = String::from_utf8_lossy(&text);
            let left = LIMIT.saturating_sub(start.elapsed()).try_into().unwrap();
            let is_ready = poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&left)).unwrap() > 0;
            assert!(is_ready, "`{wanted}` did not come, but: {said}");
            assert_eq!(stream.read(&mut byte).unwrap(), 1, "the end: {said}");
            text.push(byte[0]);
        }
        String::from_utf8(text).unwrap()
    }

    /// Waits until it has written `wanted` to stderr.
    pub(crate) fn says(&mut self, wanted: &str) -> String {
        Self::read_until(self.child().stderr.as_mut().unwrap(), wanted)
    }

    /// Waits until it has written `wanted` to stdout.
    pub(crate) fn answers(&mut self, wanted: &str) -> String {
        Self::read_until(self.child().stdout.as_mut().unwrap(), wanted)
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Answer {
        let child = self.child();
        until_blocking("the command ends", LIMIT, || child.try_wait().unwrap().is_some());
        let code = child.wait().unwrap().code();
        let (out, err) = (child.stdout.take(), child.stderr.take());
        self.0 = None;
        Answer { code, out: read_to_end(out), err: read_to_end(err) }
    }
}

/// What is left in `stream`. A process that outlives the command and keeps the stream open fails
/// the test.
fn read_to_end(stream: Option<impl Read + AsFd>) -> String {
    let Some(mut stream) = stream else { return String::new() };
    let start = Instant::now();
    let mut text = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let left = LIMIT.saturating_sub(start.elapsed()).try_into().unwrap();
        let is_ready = poll(&mut [PollFd::new(&stream, PollFlags::IN)], Some(&left)).unwrap() > 0;
        assert!(is_ready, "a process keeps the output open after: {}", String::from_utf8_lossy(&text));
        match stream.read(&mut piece).unwrap() {
            0 => return String::from_utf8(text).unwrap(),
            length => text.extend(&piece[..length]),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Answer {
    /// The answer, if its exit code is `code`.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// What was written to stdout, if all went well.
    #[track_caller]
    pub(crate) fn text(self) -> String {
        self.exits(0).out.trim_end().to_owned()
    }

    /// The one object on stdout.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:#?}");
        serde_json::from_str(&self.out).unwrap()
    }

    /// The one object on stderr, of a command that has stdout for itself.
    #[track_caller]
    pub(crate) fn json_aside(&self) -> Value {
        assert_eq!((self.out.as_str(), self.err.lines().count()), ("", 1), "{self:#?}");
        serde_json::from_str(&self.err).unwrap()
    }

    /// That stderr contains all of these.
    #[track_caller]
    pub(crate) fn complains(&self, wanted: &[&str]) {
        for text in wanted {
            assert!(self.err.contains(text), "`{text}` is not in {self:#?}");
        }
        assert_eq!(self.out, "", "complaints belong to stderr");
    }
}
