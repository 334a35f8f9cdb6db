//! The built program as users run it, in surroundings of its own.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tempfile::TempDir;

/// A user with a home, a state directory and perhaps nodes.
pub(crate) struct User {
    home: TempDir,
    nodes: Option<String>,
}

impl User {
    /// Without servers: locks within this machine.
    pub(crate) fn new() -> Self {
        Self { home: TempDir::new().unwrap(), nodes: None }
    }

    /// With nodes, named by `QUORLOCK_NODES`.
    pub(crate) fn with_nodes(urls: &[String]) -> Self {
        Self { nodes: Some(urls.join(",")), ..Self::new() }
    }

    /// With fresh nodes, which are marked so.
    pub(crate) fn with_fresh_nodes(urls: &[String]) -> Self {
        let locker = quorlock::blocking::Locker::builder().nodes(urls.to_vec()).build().unwrap();
        for (node, result) in locker.init_fresh_nodes() {
            result.unwrap_or_else(|error| panic!("{node}: {error}"));
        }
        Self::with_nodes(urls)
    }

    /// A file in the home directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// Where the file node keeps its state.
    pub(crate) fn state(&self) -> PathBuf {
        self.path(".local/state/quorlock")
    }

    /// The program with `args`, ready to run in the home directory. Nobody types: stdin is empty.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args).stdin(Stdio::null()).current_dir(self.home.path());
        for (key, _) in std::env::vars_os() {
            if key.to_string_lossy().starts_with("QUORLOCK_") || key.to_string_lossy().starts_with("XDG_") {
                command.env_remove(key);
            }
        }
        command.env("HOME", self.home.path()).env("NO_COLOR", "1");
        if let Some(nodes) = &self.nodes {
            command.env("QUORLOCK_NODES", nodes);
        }
        command
    }

    /// Runs the program with `args` to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        self.command(args).output().unwrap().into()
    }

    /// Runs it with `input` on its stdin.
    pub(crate) fn run_with_input(&self, args: &[&str], input: &str) -> Done {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Starts it and goes on.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

/// The built program.
pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_quorlock"))
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Done {
    /// The one JSON object on stdout.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Panics unless it ended with this code.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        self
    }
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}
