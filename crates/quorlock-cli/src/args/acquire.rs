//! `quorlock acquire`: acquire a lock and print its token.

use crate::output::duration;
use clap::{Args, value_parser};
use std::time::Duration;

/// Acquire a lock and print its token
///
/// For scripts that cannot run under `quorlock run`, which is safer: no process keeps this lock
/// alive. You hold it for its ttl, even after this process has ended. Extend it in time with
/// `quorlock extend`, and release it with `quorlock release`. Keep the token secret: it proves that
/// the lock is yours.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  QUORLOCK_TOKEN=$(quorlock acquire deploy --ttl 30s --reason 'release 12') || exit
  export QUORLOCK_TOKEN
  ./first-half  && quorlock extend deploy
  ./second-half && quorlock release deploy
  quorlock acquire gpu --slots 4 --json        (has the number of the slot)

Exit codes: 0 acquired, 2 usage, 69 no quorum, 75 busy or wait over, 128+n stopped by signal n while waiting.")]
pub(crate) struct Acquire {
    /// The lock: any text without control or invisible characters
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) sharing: Sharing,

    #[command(flatten)]
    pub(crate) options: AcquireOptions,
}

/// Which other clients a lock excludes.
#[derive(Args, Clone, Debug)]
pub(crate) struct Sharing {
    /// Share the lock with other clients that give --shared, and exclude those that do not
    ///
    /// For readers; a writer leaves it out. A writer that waits keeps further readers out, so that
    /// it gets its turn.
    #[arg(long, conflicts_with = "slots")]
    pub(crate) shared: bool,

    /// Hold this lock, too: all names or none. Repeat it for up to 16 names
    #[arg(long, value_name = "NAME", conflicts_with = "slots")]
    pub(crate) also: Vec<String>,

    /// Let N clients hold it at the same time, each in a slot of its own: a semaphore
    ///
    /// 1 to 1024. All clients must give the same number; it can be changed while no slot is taken.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1024))]
    pub(crate) slots: Option<u32>,
}

/// How a lock is acquired; the same for every command that acquires one.
#[derive(Args, Clone, Debug)]
pub(crate) struct AcquireOptions {
    /// How long the nodes keep the lock if it is not extended [default: 30s, or the longest ttl if
    /// that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,

    /// How long to wait for the lock at most [default: 10s]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// Do not wait for another holder: exit 75 at once. A split vote is retried for at most 5s
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// Why you hold the lock, for people who see it in `quorlock status`
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}
