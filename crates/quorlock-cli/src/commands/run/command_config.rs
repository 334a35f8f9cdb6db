//! What runs under a lock, and how it is ended when the lock is lost.

use crate::args::{Cli, CommandArgs, OnLost};
use crate::output::Output;
use crate::output::duration::show;
use crate::output::failure::Failure;
use crate::settings::Settings;
use clap::Parser;
use clap::error::ErrorKind;
use quorlock::{Builder, Guard};
use rustix::process::geteuid;
use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// Programs that run a command as another user, usually as root.
const USER_SWITCHES: [&str; 4] = ["sudo", "su", "doas", "pkexec"];

/// What runs under a lock, and how it is ended.
#[derive(Debug)]
pub(super) struct CommandConfig {
    pub(super) command: Vec<OsString>,
    /// `run` or `elect`.
    verb: &'static str,
    pub(super) on_lost: OnLost,
    /// From TERM to KILL.
    pub(super) kill_grace: Duration,
    /// From KILL to the end of the lock.
    pub(super) kill_slack: Duration,
}

impl CommandConfig {
    /// Validates the arguments of `quorlock VERB NAME -- CMD`. The ttl and the kill grace come from
    /// `settings`.
    ///
    /// # Errors
    /// No name or no command was given, or the kill grace does not fit into the ttl.
    pub(super) fn new(
        verb: &'static str,
        name: &str,
        args: &CommandArgs,
        settings: &Settings,
    ) -> Result<Self, Failure> {
        check_name(verb, name, args)?;
        Ok(Self {
            command: command(verb, name, args)?,
            verb,
            on_lost: settings.on_lost.value,
            kill_grace: kill_grace(settings)?,
            kill_slack: kill_slack(settings.ttl.value),
        })
    }

    /// The settings of the locker, with a loss margin that leaves time to end the command before
    /// the lock ends.
    pub(super) fn builder(&self, settings: &Settings) -> Builder {
        let margin = match self.on_lost {
            OnLost::Term => self.kill_grace + self.kill_slack,
            OnLost::Kill => self.kill_slack,
            OnLost::Warn => return settings.builder().max_attempts(u32::MAX),
        };
        settings.builder().max_attempts(u32::MAX).loss_margin(margin)
    }

    /// When the dead man's switch kills the command unless the lock is extended; `None` if the
    /// command may go on without the lock.
    ///
    /// We kill it ourselves when `kill_slack` is left, or earlier; the switch acts when half of
    /// that is left. After a short hold it is an eighth of the time left, so that the switch does
    /// not act before us.
    pub(super) fn time_to_kill(&self, guard: &Guard) -> Option<Duration> {
        let left = guard.time_left();
        match self.on_lost {
            OnLost::Warn => None,
            OnLost::Term | OnLost::Kill => Some(left - (self.kill_slack / 2).min(left / 8)),
        }
    }

    /// Warns if the command will run as another user: we could not stop it when the lock is lost.
    pub(super) fn warn_if_other_user(&self, output: Output) {
        let (program, verb) = (self.program(), self.verb);
        if USER_SWITCHES.contains(&program.as_str()) && !geteuid().is_root() && self.on_lost != OnLost::Warn {
            output.warn(format_args!(
                "`{program}` runs the command as another user, so it cannot be stopped if the lock is lost; start it \
                 with `{program} quorlock {verb} ...` instead"
            ));
        }
    }

    /// The program without its arguments, which may be secrets, as the reason for the lock.
    pub(super) fn program(&self) -> String {
        let program = Path::new(&self.command[0]);
        program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned()
    }
}

/// Refuses `quorlock run -- CMD ARG`, which would run ARG under a lock named CMD. A name that
/// begins with a dash can only be given after the `--`.
fn check_name(verb: &str, name: &str, args: &CommandArgs) -> Result<(), Failure> {
    let before = env::args_os().take_while(|arg| arg != "--");
    let is_missing = matches!(Cli::try_parse_from(before), Err(error) if error.kind() == ErrorKind::MissingRequiredArgument);
    if !is_missing || name.starts_with('-') {
        return Ok(());
    }
    let command: Vec<_> = args.command.iter().map(|arg| arg.to_string_lossy()).collect();
    let command = format!("{name} {}", command.join(" "));
    let help = format!("quorlock {verb} NAME -- {}", command.trim_end());
    Err(Failure::usage("no lock name was given").help(help))
}

fn command(verb: &str, name: &str, args: &CommandArgs) -> Result<Vec<OsString>, Failure> {
    if let Some(line) = &args.shell {
        return Ok(vec!["sh".into(), "-c".into(), line.clone()]);
    }
    if args.command.is_empty() {
        return Err(Failure::usage("no command was given")
            .help(format!("quorlock {verb} {name} -- CMD ARG..., or -c 'STRING' to run it through sh")));
    }
    Ok(args.command.clone())
}

/// How long before the end of the lock KILL is sent: time for the kernel, and for a busy machine.
fn kill_slack(ttl: Duration) -> Duration {
    (ttl / 50).clamp(Duration::from_millis(30), Duration::from_millis(500))
}

/// The time from TERM to KILL. It must fit twice into the ttl, so that enough time is left to work
/// in.
fn kill_grace(settings: &Settings) -> Result<Duration, Failure> {
    let ttl = settings.ttl.value;
    let Some(grace) = settings.kill_grace.value else {
        return Ok((ttl / 6).min(Duration::from_secs(5)));
    };
    let most = (ttl.saturating_mul(45) / 100).saturating_sub(kill_slack(ttl));
    if grace > most {
        let (given, ttl, most) = (show(grace), show(ttl), show(most));
        return Err(Failure::usage(format!("a kill grace of {given} does not fit into a ttl of {ttl}"))
            .help(format!("give at most --kill-grace {most}, or a longer --ttl")));
    }
    Ok(grace)
}
