//! One client process, as the harness holds it.

use super::line::ReportLine;
use super::arguments::ClientArguments;
use crate::processes::clockshim::ClockShim;
use crate::processes::sigstop::{resume, stop};
use crate::processes::spawn::spawn_bound;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How an order to adopt begins; the handle follows.
pub(crate) const ADOPT: &str = "adopt ";

/// A client from its start to its death.
pub(crate) struct Process {
    /// How many came before it in its place.
    pub(crate) incarnation: u64,
    child: Child,
    orders: ChildStdin,
    observer: Option<JoinHandle<()>>,
    shim: ClockShim,
    /// How far its wall clock is ahead.
    ahead_ms: i64,
}

impl Process {
    /// Starts `program` as a client. What it says goes to `record_line`, on a thread of its own.
    pub(crate) fn start(
        program: &Path,
        arguments: &ClientArguments,
        incarnation: u64,
        mut record_line: impl FnMut(ReportLine) + Send + 'static,
    ) -> Self {
        let shim = ClockShim::new();
        let mut child = spawn_bound(program, |command| {
            command.args(arguments.arguments()).envs(shim.env());
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        })
        .expect("the program starts");
        let orders = child.stdin.take().expect("piped");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let observer = thread::spawn(move || {
            // A line that a kill cut short is none.
            said.lines().map_while(Result::ok).filter_map(|line| line.parse().ok()).for_each(&mut record_line);
        });
        Self { incarnation, child, orders, observer: Some(observer), shim, ahead_ms: 0 }
    }

    /// Whether it ended although nobody killed it.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(crate) fn stop(&self) {
        stop(&self.child);
    }

    pub(crate) fn resume(&self) {
        resume(&self.child);
    }

    /// Ends the fault_phase for it.
    pub(crate) fn end_faults(&mut self) {
        writeln!(self.orders, "quiet").expect("the client lives");
    }

    /// Gives it a lock to adopt: the handle as JSON. One that is dead gets none.
    pub(crate) fn give(&mut self, handle: &str) {
        let _ = writeln!(self.orders, "{ADOPT}{handle}");
    }

    /// Kills it (SIGKILL). Returns when all that it had said was heard.
    pub(crate) fn kill(&mut self) {
        // It may have died on its own; then there is only its status to collect.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        if let Some(observer) = self.observer.take() {
            observer.join().expect("what a client says is understood");
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

    /// Lets its machine have slept, while it stands still. The rest of the world did not sleep, so its wall clock is
    /// set right again at once, as the first answer of a time server does.
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
