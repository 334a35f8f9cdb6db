//! The command line. Doc comments are the help texts.

mod acquire;
mod bench;
mod by_token;
mod choose;
mod completions_man;
mod config;
mod dev;
mod election;
mod global;
mod inspect;
mod nodes;
mod run;
mod serve;

pub(crate) use acquire::{Acquire, Sharing};
pub(crate) use bench::{Bench, Names};
pub(crate) use by_token::{Extend, ForceRelease, HeldLock, Release, parse_token};
pub(crate) use choose::Choose;
pub(crate) use completions_man::{Completions, Man};
pub(crate) use config::Config;
pub(crate) use dev::Dev;
pub(crate) use election::{Elect, Leader};
pub(crate) use global::Global;
pub(crate) use inspect::{SlotArgs, Status, Watch};
pub(crate) use nodes::{Doctor, Init};
pub(crate) use run::{CommandArgs, OnLost, Run};
pub(crate) use serve::Serve;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Run anything under a distributed lock: on one machine without a server, on 3 or 5 Redis or
/// Valkey nodes, or on an etcd cluster.
#[derive(Debug, Parser)]
#[command(name = "quorlock", version, arg_required_else_help = true, after_long_help = AFTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Nodes: 1, 3 or 5 independent servers as redis://host:port, rediss:// (TLS), valkey:// or unix://path; or one etcd \
cluster as etcd://host,host,host (etcds:// with TLS); or file:, which locks within this machine and needs no server.

Nodes come from --nodes, else QUORLOCK_NODES, else quorlock.toml in this directory or one above it, else the user's \
configuration file, else /etc/quorlock/config.toml, else file:.

Exit codes (stable): the command's own, 128+n if signal n ended it, 126 if it cannot be run, 127 if it was not found; \
1 no leader, 2 usage or configuration, 69 no quorum, 75 busy, contended or wait over, 79 lock lost.

Log: QUORLOCK_LOG=debug writes a log to stderr. It takes a level (error, warn, info, debug, trace), or levels by target \
such as quorlock=trace.

Try it:  quorlock run hello -- echo mine";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Acquire(Acquire),
    Extend(Extend),
    Release(Release),
    Elect(Elect),
    Leader(Leader),
    Status(Status),
    Watch(Watch),
    ForceRelease(ForceRelease),
    /// Show the configuration and where it comes from
    #[command(subcommand, after_long_help = config::FILES)]
    Config(Config),
    Doctor(Doctor),
    Init(Init),
    Serve(Serve),
    Dev(Dev),
    Bench(Bench),
    Choose(Choose),
    Completions(Completions),
    Man(Man),
}

impl Cli {
    /// Parses the arguments of this process.
    ///
    /// # Errors
    /// The arguments cannot be used, or ask for help or the version.
    pub(crate) fn from_process_args() -> Result<Self, clap::Error> {
        let mut command = global::summarized(Self::command());
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}
