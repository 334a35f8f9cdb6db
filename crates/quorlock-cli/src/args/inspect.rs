//! The commands that show locks: status, watch.

use crate::output::duration;
use clap::{Args, value_parser};
use std::time::Duration;

/// Show who holds a lock, or all held locks
///
/// Without a name, lists all locks that clients of quorlock hold. A lock that another program took
/// with plain SET NX commands is shown only by its name.
///
/// A name that is the name of a semaphore shows its taken slots; with over 16 slots, give --slots.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock status
  quorlock status deploy
  quorlock status deploy --show-token          (`quorlock force-release` needs the token)
  quorlock status gpu --slots 4                (the slots of a semaphore)

Exit codes: 0 whether held or free, 2 usage, 69 no quorum.")]
pub(crate) struct Status {
    /// The lock; all held locks if left out
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) slots: SlotArgs,

    /// Show the holder's token, too. Any client that has it can release the lock
    #[arg(long, requires = "name")]
    pub(crate) show_token: bool,
}

/// Which slots of a semaphore are shown.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct SlotArgs {
    /// Show this slot of the semaphore NAME
    #[arg(long, value_name = "I", value_parser = value_parser!(u32).range(0..=1023), requires = "name", conflicts_with = "slots")]
    pub(crate) slot: Option<u32>,

    /// Show the taken slots of the semaphore NAME, which has N slots
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1024), requires = "name")]
    pub(crate) slots: Option<u32>,
}

/// Follow who holds a lock, or all held locks
///
/// On a terminal the view is drawn anew at every interval; q or Ctrl-C ends it. Elsewhere it prints
/// one line per interval, or one JSON object per line with --json.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock watch
  quorlock watch deploy --interval 250ms
  quorlock watch --json | jq '.locks | length'")]
pub(crate) struct Watch {
    /// The lock; all held locks if left out
    pub(crate) name: Option<String>,

    #[command(flatten)]
    pub(crate) slots: SlotArgs,

    /// How long to wait between two inspections
    #[arg(long, value_name = "DURATION", value_parser = parse_interval, default_value = "1s")]
    pub(crate) interval: Duration,
}

/// An interval that does not flood the nodes.
fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = duration::parse(text)?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(3600);
    if allowed.contains(&interval) { Ok(interval) } else { Err("give 100ms to 1h".to_owned()) }
}
