//! What `quorlock run` says at the end.

use super::supervise::End;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::waiting::Watcher;
use quorlock::{Guard, Loss, Name, Release};
use rustix::process::Pid;
use serde_json::{Value, json};
use std::io::Write;

/// What is told to programs that want JSON, and the last word to people.
pub(super) struct Report(Value);

impl Report {
    pub(super) fn new(guard: &Guard, watcher: &Watcher, end: &End, notice: Option<&str>) -> Self {
        let mut object = json!({
            "name": guard.name().as_str(),
            "fence": guard.fence(),
            "votes": watcher.votes(),
            "waited_ms": watcher.waited_ms(),
            "held_ms": u64::try_from(end.held.as_millis()).unwrap_or(u64::MAX),
            "command_exit_code": end.exit.map(Exit::code),
            "lost": end.lost.as_ref().map(|lost| lost.loss),
            "unstoppable": end.unstoppable.iter().map(|pid| pid.as_raw_nonzero().get()).collect::<Vec<_>>(),
        });
        add_notice(&mut object, notice);
        Self(object)
    }

    /// Adds what became of the release. One that finds nothing tells that somebody removed the lock; while the command ran,
    /// unless we `stayed` behind it.
    pub(super) fn let_go(&mut self, outcome: Release, stayed: bool) {
        self.0["release"] = outcome.kind().into();
        if matches!(outcome, Release::AlreadyGone) && self.0["lost"].is_null() && !stayed {
            self.0["lost"] = json!(Loss::Taken);
        }
    }

    /// Tells it, and how to exit.
    pub(super) fn tell(mut self, end: &End, screen: Screen) -> Exit {
        let was_taken = end.lost.is_none() && !self.0["lost"].is_null();
        let exit = end.exit.filter(|_| end.lost.is_none() && !was_taken).unwrap_or(Exit::Lost);
        self.0["exit_code"] = exit.code().into();
        let ended = end.exit.map_or("has not ended".to_owned(), |exit| format!("ended with {}", exit.code()));
        if screen.json {
            tell(&self.0);
        } else if let Some(lost) = &end.lost {
            let failure = Failure::new(Exit::Lost, "lost", lost.to_string());
            let help = if end.unstoppable.is_empty() {
                format!("the command may not have finished its work (it {ended}); exit code 79")
            } else {
                let pids = list(&end.unstoppable);
                format!("processes of another user go on without the lock: stop {pids} by hand; exit code 79")
            };
            screen.fail(&failure.help(help));
        } else if was_taken {
            let name = self.0["name"].as_str().unwrap_or_default();
            let words =
                format!("lock `{name}` was gone when the command ended: somebody removed it while it ran");
            let help = format!("another may have worked at the same time; the command {ended}, exit code 79");
            screen.fail(&Failure::new(Exit::Lost, "lost", words).help(help));
        }
        exit
    }
}

/// Tells programs that nothing was run, and that this is fine.
pub(super) fn tell_skipped(name: &Name, notice: Option<&str>, screen: Screen) {
    if screen.json {
        let mut object = json!({ "name": name.as_str(), "skipped": true, "exit_code": 0 });
        add_notice(&mut object, notice);
        tell(&object);
    }
}

/// Process numbers for people.
pub(super) fn list(pids: &[Pid]) -> String {
    pids.iter().map(|pid| pid.as_raw_nonzero().to_string()).collect::<Vec<_>>().join(", ")
}

fn add_notice(object: &mut Value, notice: Option<&str>) {
    if let Some(notice) = notice {
        object["notice"] = notice.into();
    }
}

/// Tells programs, on stderr, as stdout is the command's.
pub(super) fn tell(object: &Value) {
    // Nobody may read it.
    let _ = writeln!(anstream::stderr(), "{object}");
}
