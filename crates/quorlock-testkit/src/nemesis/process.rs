//! One client process, as the harness holds it.

use super::line::Line;
use super::script::Script;
use crate::clockshim::ClockShim;
use crate::freeze::{freeze, thaw};
use crate::spawn::spawn_bound;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How an order to adopt begins; the handle follows.
pub(super) const ADOPT: &str = "adopt ";

/// A client from its start to its death.
pub(super) struct Process {
    /// How many came before it in its place.
    pub(super) life: u64,
    child: Child,
    orders: ChildStdin,
    ears: Option<JoinHandle<()>>,
    shim: ClockShim,
    /// How far its wall clock is ahead.
    ahead_ms: i64,
}

impl Process {
    /// Starts `program` as a client. What it says goes to `hear`, on a thread of its own.
    pub(super) fn start(
        program: &Path,
        script: &Script,
        life: u64,
        mut hear: impl FnMut(Line) + Send + 'static,
    ) -> Self {
        let shim = ClockShim::new();
        let mut child = spawn_bound(program, |command| {
            command.args(script.arguments()).envs(shim.env());
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        })
        .expect("the program starts");
        let orders = child.stdin.take().expect("piped");
        let said = BufReader::new(child.stdout.take().expect("piped"));
        let ears = thread::spawn(move || {
            // A line that a kill cut short is none.
            said.lines().map_while(Result::ok).filter_map(|line| line.parse().ok()).for_each(&mut hear);
        });
        Self { life, child, orders, ears: Some(ears), shim, ahead_ms: 0 }
    }

    /// Whether it ended although nobody killed it.
    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    pub(super) fn freeze(&self) {
        freeze(&self.child);
    }

    pub(super) fn thaw(&self) {
        thaw(&self.child);
    }

    /// Ends the storm for it.
    pub(super) fn quieten(&mut self) {
        writeln!(self.orders, "quiet").expect("the client lives");
    }

    /// Gives it a lock to adopt: the handle as JSON. One that is dead gets none.
    pub(super) fn give(&mut self, handle: &str) {
        let _ = writeln!(self.orders, "{ADOPT}{handle}");
    }

    /// Kills it (SIGKILL). Returns when all that it had said was heard.
    pub(super) fn kill(&mut self) {
        // It may have died on its own; then there is only its status to collect.
        let _ = self.child.kill();
        self.child.wait().unwrap();
        if let Some(ears) = self.ears.take() {
            ears.join().expect("what a client says is understood");
        }
    }

    /// Sets its wall clock to be this far ahead of the true one.
    pub(super) fn set_wall(&mut self, ahead_ms: i64) {
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
    pub(super) fn sleep(&self, by: Duration) {
        self.shim.suspend(by);
        self.shim.jump_wall_back(by);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
