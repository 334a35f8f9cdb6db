//! What `quorlock run` says at the end.

use super::supervise::End;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::waiting::Watcher;
use quorlock::{Guard, Release};
use serde_json::{Value, json};
use std::io::Write;

/// What is told to programs that want JSON, and the last word to people.
pub(super) struct Report(Value);

impl Report {
    pub(super) fn new(guard: &Guard, watcher: &Watcher, end: &End) -> Self {
        Self(json!({
            "name": guard.name().as_str(),
            "fence": guard.fence(),
            "votes": watcher.votes(),
            "waited_ms": watcher.waited_ms(),
            "held_ms": u64::try_from(end.held.as_millis()).unwrap_or(u64::MAX),
            "command_exit_code": end.exit.code(),
            "lost": end.lost.as_ref().map(|lost| lost.loss),
        }))
    }

    /// Adds what became of the release.
    pub(super) fn let_go(&mut self, outcome: Release) {
        self.0["release"] = outcome.kind().into();
    }

    /// Tells it, and how to exit.
    pub(super) fn tell(mut self, end: &End, screen: Screen) -> Exit {
        let exit = if end.lost.is_some() { Exit::Lost } else { end.exit };
        self.0["exit_code"] = exit.code().into();
        if screen.json {
            let _ = writeln!(anstream::stderr(), "{}", self.0);
        } else if let Some(lost) = &end.lost {
            let failure = Failure::new(Exit::Lost, "lost", lost.to_string());
            screen.fail_beside_command(
                &failure.help("the command may not have finished its work; exit code 79"),
            );
        }
        exit
    }
}
