//! One client process, as the harness controls it.

use crate::nemesis::client::report_line::ReportLine;
use crate::processes::clockshim::ClockShim;
use crate::processes::sigstop::{resume, stop};
use crate::processes::spawn::spawn_bound;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The start of an order to adopt; the handle follows.
pub(crate) const ADOPT: &str = "adopt ";

/// A client from its start to its death.
pub(crate) struct Process {
    /// How many processes came before it in its place.
    pub(crate) incarnation: u64,
    child: Child,
    orders: ChildStdin,
    reader: Option<JoinHandle<()>>,
    shim: ClockShim,
    /// How far its wall clock is ahead.
    ahead_ms: i64,
}

impl Process {
    /// Starts a client: a program and its arguments. Its reports go to `record_line`, on a thread of its own.
    pub(crate) fn start(
        program: &[OsString],
        incarnation: u64,
        mut record_line: impl FnMut(ReportLine) + Send + 'static,
    ) -> Self {
        let shim = ClockShim::new();
        let (first, arguments) = program.split_first().expect("a program");
        let mut child = spawn_bound(first, |command| {
            command.args(arguments).envs(shim.env());
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        })
        .expect("the program starts");
        let orders = child.stdin.take().expect("piped");
        let reports = BufReader::new(child.stdout.take().expect("piped"));
        let reader = thread::spawn(move || {
            // A line that a kill cut short does not count.
            reports
                .lines()
                .map_while(Result::ok)
                .filter_map(|line| line.parse().ok())
                .for_each(&mut record_line);
        });
        Self { incarnation, child, orders, reader: Some(reader), shim, ahead_ms: 0 }
    }

    /// Whether it ended without being killed.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn stop(&self) {
        stop(&self.child);
    }

    pub(crate) fn resume(&self) {
        resume(&self.child);
    }

    /// Starts its recovery phase.
    pub(crate) fn end_faults(&mut self) {
        // One that has ended by itself is found at the end of the run.
        let _ = writeln!(self.orders, "recover");
    }

    /// Orders it to adopt a lock: the handle as JSON. A dead client ignores it.
    pub(crate) fn adopt(&mut self, handle: &str) {
        let _ = writeln!(self.orders, "{ADOPT}{handle}");
    }

    /// Kills it (SIGKILL). Returns when all its reports have been read.
    pub(crate) fn kill(&mut self) {
        // It may have died on its own; then there is only its status to collect.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().expect("every report is recorded");
        }
    }

    /// Sets its wall clock to be this far ahead of the true one.
    pub(crate) fn set_wall(&mut self, ahead_ms: i64) {
        let by = Duration::from_millis(ahead_ms.abs_diff(self.ahead_ms));
        if ahead_ms > self.ahead_ms {
            self.shim.jump_wall(by)
        } else {
            self.shim.jump_wall_back(by)
        }
        self.ahead_ms = ahead_ms;
    }

    /// Moves its boot clock as if its machine had slept; it must be stopped. The other machines did
    /// not sleep, so its wall clock is corrected at once, as the first answer of a time server
    /// does.
    pub(crate) fn sleep(&self, by: Duration) {
        self.shim.suspend(by);
        self.shim.jump_wall_back(by);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
