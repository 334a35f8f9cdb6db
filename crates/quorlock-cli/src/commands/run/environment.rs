//! The variables that a command under a lock gets.

use crate::output::{json, subject};
use crate::settings;
use quorlock::{Guard, Name};
use std::process::Command;

/// What the variables say besides what the guard knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Environment<'a> {
    /// The name as the user gave it; of several names the first that was given.
    pub(super) name: &'a str,
    pub(super) is_election: bool,
}

impl Environment<'_> {
    /// Sets the variables for `command` under the lock of `guard`. Those of an outer lock that this
    /// one does not have are removed, and so are passwords.
    pub(super) fn set(self, command: &mut Command, guard: &Guard) {
        command
            .env("QUORLOCK_NAME", self.name)
            .env("QUORLOCK_NAMES", all_names(guard.names()))
            .env("QUORLOCK_MODE", guard.mode().kind())
            .env("QUORLOCK_TOKEN", guard.token().as_str())
            .env("QUORLOCK_FENCE", guard.fence().to_string())
            .env("QUORLOCK_EXPIRES_AT", json::unix_seconds(guard.expires_at()).to_string());
        let slot = subject::slot(guard.name()).map(|slot| slot.to_string());
        let term = self.is_election.then(|| guard.fence().to_string());
        for (variable, value) in [("QUORLOCK_SLOT", slot), ("QUORLOCK_TERM", term)] {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        settings::withhold_passwords(command);
    }
}

/// All names, one per line: no name has a line break.
fn all_names(names: &[Name]) -> String {
    names.iter().map(subject::given_name).collect::<Vec<_>>().join("\n")
}
