//! One process of a contestant, spoken to by lines.

use anyhow::{Context, Result, bail};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::spawn;
use std::time::Duration;

pub struct Process {
    child: Child,
    lines: Receiver<String>,
    complaints: fs::File,
}

impl Process {
    pub fn start(command: &[String], flags: &[String]) -> Result<Self> {
        let complaints = tempfile::tempfile()?;
        let mut child = end_with_us(&mut Command::new(&command[0]))
            .args(&command[1..])
            .args(flags)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints.try_clone()?)
            .spawn()
            .with_context(|| format!("{} does not start", command[0]))?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let (sender, lines) = channel();
        // A thread, because a pipe has no read timeout. It ends with the process.
        spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Ok(Self { child, lines, complaints })
    }

    /// Its next line.
    pub fn line(&mut self, limit: Duration) -> Result<String> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(_) if self.child.try_wait()?.is_some() => bail!("ended early: {}", self.last_complaint()),
            Err(_) => bail!("silent for {limit:?} {}", self.last_complaint()),
        }
    }

    pub fn go(&mut self) -> Result<()> {
        writeln!(self.child.stdin.as_mut().context("no input")?, "go")?;
        Ok(())
    }

    /// Its resident memory in kB.
    pub fn rss_kb(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse().ok()
    }

    fn last_complaint(&mut self) -> String {
        let mut text = String::new();
        let _ = self.complaints.rewind();
        let _ = self.complaints.read_to_string(&mut text);
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.next_back().unwrap_or_default().chars().take(200).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended on its own; then there is only its status to collect.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets the kernel end the process when this one ends, however it ends.
pub fn end_with_us(command: &mut Command) -> &mut Command {
    let bind = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only one system call is made, and nothing is allocated.
    unsafe { command.pre_exec(bind) }
}
