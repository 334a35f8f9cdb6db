//! What `quorlock run` prints at the end.

use super::supervise::CommandEnd;
use crate::commands::acquire_lock::LockObserver;
use crate::output::Output;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::output::{json, subject};
use quorlock::{Guard, LossReason, ReleaseOutcome};
use rustix::process::Pid;
use serde_json::{Value, json};
use std::io::Write;

/// The JSON object of a run, and what it calls the lock.
pub(super) struct RunReport {
    object: Value,
    lock: String,
}

impl RunReport {
    pub(super) fn new(
        name: &str,
        guard: &Guard,
        observer: &LockObserver,
        end: &CommandEnd,
        notice: Option<&str>,
    ) -> Self {
        let mut object = json!({
            "name": name,
            "names": names(guard),
            "mode": guard.mode(),
            "slot": subject::slot(guard.name()),
            "fence": guard.fence().get(),
            "votes": observer.votes(),
            "waited_ms": observer.waited_ms(),
            "held_ms": json::millis(end.held),
            "command_exit_code": end.exit.map(Exit::code),
            "lost": end.lost.as_ref().map(|lost| lost.reason),
            "unstoppable": end.unstoppable.iter().map(|pid| pid.as_raw_nonzero().get()).collect::<Vec<_>>(),
        });
        add_notice(&mut object, notice);
        Self { object, lock: subject::phrase(guard.names()) }
    }

    /// Makes it the report of a leadership.
    pub(super) fn of_term(mut self) -> Self {
        self.object["term"] = self.object["fence"].clone();
        self
    }

    /// Adds the outcome of the release. If it finds no lock, another client removed the lock: while
    /// the command ran, unless we `held_on` after the command ended.
    pub(super) fn add_release(&mut self, outcome: &ReleaseOutcome, held_on: bool) {
        self.object["release"] = outcome.kind().into();
        if matches!(outcome, ReleaseOutcome::AlreadyGone) && self.object["lost"].is_null() && !held_on {
            self.object["lost"] = json!(LossReason::Taken);
        }
    }

    /// Prints the report of a leadership that is followed by another campaign.
    pub(super) fn print_before_next_term(mut self, output: Output) {
        self.object["exit_code"] = Value::Null;
        if output.json {
            print_json(&self.object);
        }
    }

    /// Prints the report and returns how to exit.
    pub(super) fn print(mut self, end: &CommandEnd, output: Output) -> Exit {
        let was_removed = end.lost.is_none() && !self.object["lost"].is_null();
        let exit = end.exit.filter(|_| end.lost.is_none() && !was_removed).unwrap_or(Exit::Lost);
        self.object["exit_code"] = exit.code().into();
        let ended = end.exit.map_or("has not ended".to_owned(), |exit| format!("ended with {}", exit.code()));
        if output.json {
            print_json(&self.object);
        } else if let Some(lost) = &end.lost {
            let failure = Failure::new(Exit::Lost, "lost", subject::lost_text(lost));
            let help = if end.unstoppable.is_empty() {
                format!("the command may not have finished its work (it {ended}); exit code 79")
            } else {
                let pids = pid_list(&end.unstoppable);
                format!("processes of another user go on without the lock: stop {pids} by hand; exit code 79")
            };
            output.error(&failure.help(help));
        } else if was_removed {
            let lock = &self.lock;
            let message = format!(
                "{lock} was gone when the command ended: another client removed it while the command ran"
            );
            let help =
                format!("another client may have worked at the same time; the command {ended}, exit code 79");
            output.error(&Failure::new(Exit::Lost, "lost", message).help(help));
        }
        exit
    }
}

/// Reports with `--json` that the command was skipped, which is a success.
pub(super) fn print_skipped(name: &str, notice: Option<&str>, output: Output) {
    if output.json {
        let mut object = json!({ "name": name, "skipped": true, "exit_code": 0 });
        add_notice(&mut object, notice);
        print_json(&object);
    }
}

/// The names that users call the lock by.
fn names(guard: &Guard) -> Vec<&str> {
    guard.names().iter().map(subject::given_name).collect()
}

/// Process ids for people.
pub(super) fn pid_list(pids: &[Pid]) -> String {
    pids.iter().map(|pid| pid.as_raw_nonzero().to_string()).collect::<Vec<_>>().join(", ")
}

fn add_notice(object: &mut Value, notice: Option<&str>) {
    if let Some(notice) = notice {
        object["notice"] = notice.into();
    }
}

/// Prints `object` to stderr, because stdout is the command's.
pub(super) fn print_json(object: &Value) {
    // stderr may be closed.
    let _ = writeln!(anstream::stderr(), "{object}");
}
