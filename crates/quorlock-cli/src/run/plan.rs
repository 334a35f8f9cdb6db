//! What the user asked for, checked before anything happens.

use super::slack;
use crate::args::{Cli, OnLost, Run};
use crate::duration::show;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::settings::{Settings, Source};
use clap::Parser;
use clap::error::ErrorKind;
use quorlock::{Builder, Guard, Lock, Locker};
use rustix::process::geteuid;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// Programs that run a command as another user, usually as root.
const USER_SWITCHES: [&str; 4] = ["sudo", "su", "doas", "pkexec"];

/// What to run, under which lock, on which terms.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) settings: Settings,
    name: String,
    pub(super) command: Vec<OsString>,
    pub(super) no_wait: bool,
    pub(super) skip: bool,
    pub(super) busy: Exit,
    pub(super) at_least: Option<Duration>,
    pub(super) on_lost: OnLost,
    /// From TERM to KILL.
    pub(super) grace: Duration,
    /// From KILL to the end of the lock.
    pub(super) slack: Duration,
    max_hold: Option<Duration>,
    reason: Option<String>,
}

impl Plan {
    pub(super) fn make(args: &Run, mut settings: Settings) -> Result<Self, Failure> {
        has_name(args)?;
        settings.ttl.set(args.terms.ttl, "--ttl");
        settings.wait.set(args.terms.wait, "--wait");
        settings.kill_grace.set(args.kill_grace.map(Some), "--kill-grace");
        settings.on_lost.set(args.on_lost, "--on-lost");
        let waits = settings.wait.source == Source::Flag("--wait");
        let ttl = settings.ttl.value;
        Ok(Self {
            name: args.name.clone(),
            command: command(args)?,
            no_wait: args.terms.no_wait || (args.skip && !waits),
            skip: args.skip,
            busy: args.conflict_exit_code.map_or(Exit::Busy, Exit::Code),
            at_least: args.at_least,
            on_lost: settings.on_lost.value,
            grace: grace(&settings)?,
            slack: slack(ttl),
            max_hold: args.max_hold,
            reason: args.terms.reason.clone(),
            settings,
        })
    }

    /// The settings of the locker, with enough notice to end the command before the lock ends.
    pub(super) fn builder(&self) -> Builder {
        let notice = match self.on_lost {
            OnLost::Term => self.grace + self.slack,
            OnLost::Kill => self.slack,
            OnLost::Warn => return self.settings.builder().attempts(u32::MAX),
        };
        self.settings.builder().attempts(u32::MAX).loss_margin(notice)
    }

    /// How long from now on the command may live unless the lock is extended; `None` if it may go on without it.
    ///
    /// We kill it when `slack` is left, or earlier; half of that is for whoever must do it in our place. A short hold
    /// has less, or that would come before us.
    pub(super) fn left_to_kill(&self, guard: &Guard) -> Option<Duration> {
        let left = guard.time_left();
        match self.on_lost {
            OnLost::Warn => None,
            OnLost::Term | OnLost::Kill => Some(left - (self.slack / 2).min(left / 8)),
        }
    }

    pub(super) fn lock(&self, locker: &Locker) -> Result<Lock, Failure> {
        let mut lock = locker.named(&self.name)?;
        if let Some(hold) = self.max_hold {
            lock = lock.max_hold(hold)?;
        }
        Ok(match &self.reason {
            Some(reason) => lock.reason(reason.as_str()),
            None => lock.reason(self.program()),
        })
    }

    /// Warns if the command will run as another user, whom we could not keep from working on without the lock.
    pub(super) fn warn_of_other_user(&self, screen: Screen) {
        let program = self.program();
        if USER_SWITCHES.contains(&program.as_str()) && !geteuid().is_root() && self.on_lost != OnLost::Warn {
            screen.warn(format_args!(
                "`{program}` runs the command as another user, so it cannot be stopped if the lock is lost; start it \
                 with `{program} quorlock run ...` instead"
            ));
        }
    }

    /// The program without its arguments, which may hold secrets, for people who ask why a lock is held.
    fn program(&self) -> String {
        let program = Path::new(&self.command[0]);
        program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
    }
}

/// Refuses `quorlock run -- CMD ARG`: it would run ARG under a lock named CMD. A name that begins with a dash can only be given
/// behind the `--`.
fn has_name(args: &Run) -> Result<(), Failure> {
    let before = env::args_os().take_while(|arg| arg != "--");
    let is_missing = matches!(Cli::try_parse_from(before), Err(error) if error.kind() == ErrorKind::MissingRequiredArgument);
    if !is_missing || args.name.starts_with('-') {
        return Ok(());
    }
    let command: Vec<_> = args.command.iter().map(|arg| arg.to_string_lossy()).collect();
    let command = format!("{} {}", args.name, command.join(" "));
    Err(Failure::usage("no lock name was given").help(format!("quorlock run NAME -- {}", command.trim_end())))
}

fn command(args: &Run) -> Result<Vec<OsString>, Failure> {
    if let Some(line) = &args.shell {
        return Ok(vec!["sh".into(), "-c".into(), line.clone()]);
    }
    if args.command.is_empty() {
        return Err(Failure::usage("no command was given")
            .help(format!("quorlock run {} -- CMD ARG..., or -c 'STRING' to run it through sh", args.name)));
    }
    Ok(args.command.clone())
}

/// The time from TERM to KILL: must fit twice into the time that the lock is valid, or there would be hardly any left
/// to work in.
fn grace(settings: &Settings) -> Result<Duration, Failure> {
    let ttl = settings.ttl.value;
    let Some(grace) = settings.kill_grace.value else {
        return Ok((ttl / 6).min(Duration::from_secs(5)));
    };
    let most = (ttl.saturating_mul(45) / 100).saturating_sub(slack(ttl));
    if grace > most {
        let (given, ttl, most) = (show(grace), show(ttl), show(most));
        return Err(Failure::usage(format!("a kill grace of {given} does not fit into a ttl of {ttl}"))
            .help(format!("give at most --kill-grace {most}, or a longer --ttl")));
    }
    Ok(grace)
}
