//! The validated arguments of a run.

use super::command_config::CommandConfig;
use crate::args::{Run, Sharing};
use crate::commands::acquire_lock::Target;
use crate::output::exit_code::Exit;
use crate::output::failure::Failure;
use crate::settings::{Settings, Source};
use quorlock::Locker;
use std::time::Duration;

/// What to run, under which lock, with which limits.
#[derive(Debug)]
pub(super) struct RunConfig {
    pub(super) settings: Settings,
    pub(super) name: String,
    sharing: Sharing,
    pub(super) command: CommandConfig,
    pub(super) no_wait: bool,
    pub(super) skip: bool,
    /// How to exit if another client holds the lock.
    pub(super) busy_exit: Exit,
    pub(super) at_least: Option<Duration>,
    max_hold: Option<Duration>,
    reason: Option<String>,
}

impl RunConfig {
    /// Validates the arguments.
    ///
    /// # Errors
    /// As [`CommandConfig::new`].
    pub(super) fn new(args: &Run, mut settings: Settings) -> Result<Self, Failure> {
        settings.ttl.set(args.options.ttl, "--ttl");
        settings.wait.set(args.options.wait, "--wait");
        settings.kill_grace.set(args.command.kill_grace.map(Some), "--kill-grace");
        settings.on_lost.set(args.on_lost, "--on-lost");
        let waits = settings.wait.source == Source::Flag("--wait");
        Ok(Self {
            name: args.name.clone(),
            sharing: args.sharing.clone(),
            command: CommandConfig::new("run", &args.name, &args.command, &settings)?,
            no_wait: args.options.no_wait || (args.skip && !waits),
            skip: args.skip,
            busy_exit: args.conflict_exit_code.map_or(Exit::Busy, Exit::Code),
            at_least: args.at_least,
            max_hold: args.max_hold,
            reason: args.options.reason.clone(),
            settings,
        })
    }

    pub(super) fn target(&self, locker: &Locker) -> Result<Target, Failure> {
        let mut target = Target::new(locker, &self.name, &self.sharing)?;
        if let Some(hold) = self.max_hold {
            target = target.with(|lock| lock.max_hold(hold));
        }
        let reason = self.reason.clone().unwrap_or_else(|| self.command.program());
        Ok(target.with(|lock| lock.reason(reason)))
    }
}
