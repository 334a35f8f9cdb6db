//! `quorlock run`: hold a lock while a command runs.

use super::acquire::{AcquireOptions, Sharing};
use crate::output::duration;
use clap::{Args, ValueEnum, ValueHint};
use serde::Deserialize;
use std::ffi::OsString;
use std::time::Duration;

/// Hold a lock while a command runs
///
/// Exits with the exit code of the command. If the lock is lost, the command and all processes that
/// it started get TERM, then KILL before another client can acquire the lock. The exit code is then
/// 79.
///
/// The environment of the command has QUORLOCK_NAME, QUORLOCK_TOKEN, QUORLOCK_FENCE (send it with
/// every write to what the lock protects) and QUORLOCK_EXPIRES_AT (when the lock ends unless it is
/// extended, as Unix time in seconds). QUORLOCK_MODE is `exclusive` or `shared`, QUORLOCK_NAMES has
/// all names, one per line, and QUORLOCK_SLOT is the number of the slot with --slots. If
/// QUORLOCK_NODES has a password in it, the command does not get it.
///
/// A command that runs as another user cannot be stopped: write `sudo quorlock run NAME -- CMD`,
/// not `quorlock run NAME -- sudo CMD`.
#[derive(Args, Debug)]
#[command(override_usage = USAGE, after_long_help = AFTER)]
pub(crate) struct Run {
    /// The lock: any text without control or invisible characters
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) command: CommandArgs,

    #[command(flatten)]
    pub(crate) sharing: Sharing,

    #[command(flatten)]
    pub(crate) options: AcquireOptions,

    /// If another client holds the lock, exit 0 without running the command. For cron jobs on
    /// several machines
    ///
    /// Does not wait unless --wait is given. If several clients compete and none has a majority of
    /// the nodes for 5 s, it is not certain that the job runs anywhere: the exit code is then 75,
    /// and the error is `contended`.
    #[arg(long, conflicts_with = "conflict_exit_code")]
    pub(crate) skip: bool,

    /// Hold the lock at least this long, even if the command ends sooner
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) at_least: Option<Duration>,

    /// Hold the lock at most this long: the command gets TERM --kill-grace before the end, then
    /// KILL
    ///
    /// If --max-hold is shorter than twice --kill-grace, TERM comes after half of --max-hold.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// Exit code if another client holds the lock [default: 75]
    #[arg(short = 'E', long, value_name = "N")]
    pub(crate) conflict_exit_code: Option<u8>,

    /// What to do with the command if the lock is lost [default: term]
    #[arg(long, value_name = "WHAT")]
    pub(crate) on_lost: Option<OnLost>,
}

/// What runs under a lock.
#[derive(Args, Clone, Debug)]
pub(crate) struct CommandArgs {
    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,

    /// Run STRING through sh
    #[arg(short = 'c', long = "shell", value_name = "STRING", conflicts_with = "command")]
    pub(crate) shell: Option<OsString>,

    /// Time from TERM to KILL if the lock is lost [default: a sixth of the ttl, at most 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_grace: Option<Duration>,
}

const USAGE: &str = "\
quorlock run [OPTIONS] <NAME> -- <CMD> [ARG]...
       quorlock run [OPTIONS] <NAME> -c <STRING>";

const AFTER: &str = "\
Examples:
  quorlock run nightly-report -- ./report.sh
  quorlock run deploy --wait 5m --reason 'release 12' -- ./deploy
  quorlock run cleanup --skip --at-least 1m -- ./cleanup
  quorlock run migrate -c 'cd /srv/app && ./migrate'
  quorlock run config --shared -- ./report     (together with other readers, never with a writer)
  quorlock run disk --also network -- ./test   (both names or none)
  quorlock run gpu --slots 4 -- ./train        (at most 4 at the same time; QUORLOCK_SLOT is 0 to 3)";

/// What to do with the command if the lock is lost.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnLost {
    /// Send TERM, then KILL before another client can acquire the lock
    Term,
    /// Send KILL at once
    Kill,
    /// Print a warning and let the command run on
    Warn,
}
