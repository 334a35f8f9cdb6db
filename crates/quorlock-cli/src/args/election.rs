//! The commands of elections: elect, leader.

use super::run::CommandArgs;
use crate::output::duration;
use clap::Args;
use std::time::Duration;

/// Campaign for the leadership of an election, and run a command while leading
///
/// Waits until this candidate leads, for as long as it takes, and then runs the command. If the
/// leadership is lost, the command and all processes that it started get TERM, then KILL before
/// another candidate can lead. Then it campaigns again, and runs the command again when it leads.
///
/// When the command ends by itself, it resigns and exits with the exit code of the command. TERM
/// and other signals go to the command; during a campaign they end the campaign.
///
/// The environment of the command has QUORLOCK_TERM: a number above that of every leader before.
/// Send it with every command to followers, which refuse a lower one. It is the fence of the lock
/// NAME, so QUORLOCK_FENCE, QUORLOCK_NAME, QUORLOCK_TOKEN and QUORLOCK_EXPIRES_AT are set as by
/// `quorlock run`.
#[derive(Args, Debug)]
#[command(override_usage = USAGE, after_long_help = ELECT_EXAMPLES)]
pub(crate) struct Elect {
    /// The election: any text without control or invisible characters
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) command: CommandArgs,

    /// What the leader publishes, such as its address: 1 to 200 bytes of printable text [default:
    /// the name of this host]
    #[arg(long, value_name = "TEXT")]
    pub(crate) value: Option<String>,

    /// How long the nodes keep the leadership if it is not extended: the time until another
    /// candidate leads after this one crashed [default: 30s, or the longest ttl if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
}

const USAGE: &str = "\
quorlock elect [OPTIONS] <NAME> -- <CMD> [ARG]...
       quorlock elect [OPTIONS] <NAME> -c <STRING>";

const ELECT_EXAMPLES: &str = "\
Examples:
  quorlock elect scheduler --value 10.0.0.7:8080 -- ./scheduler
  quorlock elect scheduler --ttl 10s -c 'exec ./scheduler --term $QUORLOCK_TERM'

Exit codes: the command's own, 128+n if signal n ended the command or the campaign, 2 usage, 79 the leadership was lost \
and the command could not be stopped, or was taken away while the command ended.";

/// Show who leads an election
///
/// Prints the leader's value, its term and its owner, separated by tabs. The answer may be old by
/// the time that you read it: compare terms. With --follow, `-`, the last term and `no leader` say
/// that none leads any more.
#[derive(Args, Debug)]
#[command(after_long_help = "\
Examples:
  quorlock leader scheduler
  quorlock leader scheduler | cut -f1          (only the value)
  quorlock leader scheduler --follow           (one line for each change)

Exit codes: 0 there is a leader, 1 there is none, 2 usage, 69 no quorum; with --follow 0 after Ctrl-C, 128+n after signal n.")]
pub(crate) struct Leader {
    /// The election
    pub(crate) name: String,

    /// Print the current leader, then each new one, by rising terms, and each vacancy, until a signal comes
    #[arg(short, long)]
    pub(crate) follow: bool,
}
