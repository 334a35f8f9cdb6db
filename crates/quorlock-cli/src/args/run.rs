//! `quorlock run`: hold a lock while a command runs.

use super::Terms;
use crate::duration;
use clap::{Args, ValueEnum, ValueHint};
use serde::Deserialize;
use std::ffi::OsString;
use std::time::Duration;

/// Hold a lock while a command runs
///
/// Exits as the command does. If the lock is lost, the command and all processes that it started get TERM, and KILL
/// before the lock's time is over; then the exit code is 79.
///
/// The command finds QUORLOCK_NAME, QUORLOCK_TOKEN, QUORLOCK_FENCE (send it with every write to what the lock
/// protects) and QUORLOCK_EXPIRES_AT (Unix time in seconds, unless extended) in its environment. QUORLOCK_NODES is removed
/// from it if a node has a password there.
///
/// A command that runs as another user cannot be stopped: write `sudo quorlock run NAME -- CMD`, not
/// `quorlock run NAME -- sudo CMD`.
#[derive(Args, Debug)]
#[command(override_usage = USAGE, after_long_help = AFTER)]
pub(crate) struct Run {
    /// The lock: any text without control or invisible characters
    pub(crate) name: String,

    /// The command and its arguments
    #[arg(trailing_var_arg = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,

    #[command(flatten)]
    pub(crate) terms: Terms,

    /// Run STRING through sh
    #[arg(short = 'c', long = "shell", value_name = "STRING", conflicts_with = "command")]
    pub(crate) shell: Option<OsString>,

    /// Busy: exit 0 quietly, at once unless --wait is given. For cron jobs on several machines
    ///
    /// Busy means that another client has the lock on a majority of the nodes. If no client has, after at most 5 s, the
    /// job may run nowhere: then the exit code is 75, and the error says `contended`.
    #[arg(long, conflicts_with = "conflict_exit_code")]
    pub(crate) skip: bool,

    /// Keep the lock at least so long, also if the command ends sooner
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) at_least: Option<Duration>,

    /// End the command before it holds the lock for longer; TERM comes a kill grace sooner, or at half of it
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) max_hold: Option<Duration>,

    /// Exit code for busy [default: 75]
    #[arg(short = 'E', long, value_name = "N")]
    pub(crate) conflict_exit_code: Option<u8>,

    /// How long the command has from TERM to KILL if the lock is lost [default: a sixth of the ttl, at most 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) kill_grace: Option<Duration>,

    /// What to do with the command if the lock is lost [default: term]
    #[arg(long, value_name = "WHAT")]
    pub(crate) on_lost: Option<OnLost>,
}

const USAGE: &str = "\
quorlock run [OPTIONS] <NAME> -- <CMD> [ARG]...
       quorlock run [OPTIONS] <NAME> -c <STRING>";

const AFTER: &str = "\
Examples:
  quorlock run nightly-report -- ./report.sh
  quorlock run deploy --wait 5m --reason 'release 12' -- ./deploy
  quorlock run cleanup --skip --at-least 1m -- ./cleanup
  quorlock run migrate -c 'cd /srv/app && ./migrate'";

/// What to do with the command if the lock is lost.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum OnLost {
    /// TERM, then KILL before the lock's time is over
    Term,
    /// KILL at once
    Kill,
    /// Let it go on and say so
    Warn,
}
