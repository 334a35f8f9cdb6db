//! The command line as people write it. Doc comments are the help texts.

mod bench;
mod choose;
mod dev;
mod doctor;
mod init;
mod locks;
mod run;
mod serve;

pub(crate) use bench::{Bench, Names};
pub(crate) use choose::Choose;
pub(crate) use dev::Dev;
pub(crate) use doctor::Doctor;
pub(crate) use init::Init;
pub(crate) use locks::{Acquire, Extend, ForceRelease, Release, Status, Watch, token};
pub(crate) use run::{OnLost, Run};
pub(crate) use serve::Serve;

use crate::duration;
use clap::{Args, Parser, Subcommand, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// Run anything under a distributed lock: on one machine without a server, on 3 or 5 Redis or Valkey nodes, or on
/// an etcd cluster.
#[derive(Debug, Parser)]
#[command(name = "quorlock", version, arg_required_else_help = true, after_long_help = AFTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Exit codes (stable): the command's own, 128+n if signal n ended it, 126 if it cannot be run, 127 if it was not found; \
2 usage or configuration, 69 no quorum, 75 busy, contended or wait over, 79 lock lost.

Nodes come from --nodes, else QUORLOCK_NODES, else quorlock.toml in this directory or one above it, else the user's \
configuration file, else /etc/quorlock/config.toml, else `file:`, which locks within this machine and needs no server.

Try it:  quorlock run hello -- echo mine";

/// Options that every command takes.
#[derive(Args, Debug)]
pub(crate) struct Global {
    /// Nodes that vote: redis://host:port, rediss:// (TLS), valkey://, unix://path, or one etcd:// or file:
    ///
    /// 1, 3 or 5 independent servers, separated by commas or given several times. `etcd://host,host,host` (`etcds://` with
    /// TLS) is a cluster, which is one node. `file:` or `file:/directory` locks within this machine.
    #[arg(long, global = true, value_name = "URL", value_delimiter = ',', help_heading = "Global options")]
    pub(crate) nodes: Vec<String>,

    /// Fail if no nodes are configured, instead of locking within this machine
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) require_nodes: bool,

    /// Configuration file to read instead of the project's, the user's and the machine's
    #[arg(long, global = true, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Global options")]
    pub(crate) config: Option<PathBuf>,

    /// How long one node may take to answer [default: 50ms; file: and etcd: up to 500ms]
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse, help_heading = "Global options")]
    pub(crate) node_timeout: Option<Duration>,

    /// The longest ttl that any client of these nodes uses [default: 30s]
    ///
    /// A node that restarted stays without a vote for so long, and 10 s more. All clients must agree on it.
    #[arg(long, global = true, value_name = "DURATION", value_parser = duration::parse, help_heading = "Global options")]
    pub(crate) longest_ttl: Option<Duration>,

    /// Answer with one JSON object
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    /// Say nothing but warnings and errors
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Global options")]
    pub(crate) quiet: bool,

    /// Say more
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub(crate) verbose: bool,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Run),
    Acquire(Acquire),
    Extend(Extend),
    Release(Release),
    Status(Status),
    Watch(Watch),
    ForceRelease(ForceRelease),
    /// Show the configuration and where it comes from
    #[command(subcommand, after_long_help = FILES)]
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

const FILES: &str = "\
Files, the first being stronger: quorlock.toml in this directory or one above it, then quorlock/config.toml in \
$XDG_CONFIG_HOME or ~/.config, then /etc/quorlock/config.toml. Or one file alone: --config FILE, or QUORLOCK_CONFIG. A \
quorlock.toml of another user than you and root is refused unless it is named so. Everything may be left out:

  nodes = [\"redis://a\", \"redis://b\", \"redis://c\"]
  require_nodes = false       whether to fail where no nodes are configured
  ttl = \"30s\"                 how long nodes keep a lock without hearing from its holder
  longest_ttl = \"30s\"         the longest that any client of these nodes uses
  wait = \"10s\"                how long to wait for a lock
  node_timeout = \"50ms\"       how long one node may take to answer
  connect_timeout = \"1s\"      how long connecting to one node may take
  drift = 0.01                how much faster a node's clock may run than ours
  restart_guard = \"strict\"    or \"off\": whether nodes that restarted are kept from voting
  durable = false             whether all nodes sync every write to disk
  allow_eviction = false      whether nodes may drop locks when their memory is full
  kill_grace = \"5s\"           from TERM to KILL when a lock is lost
  on_lost = \"term\"            or \"kill\", or \"warn\"";

/// What to do with the configuration.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show every setting and where it came from
    Show,
}

/// Print a completion script: source it, or put it where your shell looks
///
/// Bash: quorlock completions bash > ~/.local/share/bash-completion/completions/quorlock
#[derive(Args, Debug)]
pub(crate) struct Completions {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page: `quorlock man | man -l -`
#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Write one page per command into this directory instead
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

/// How a lock is taken; the same for every command that takes one.
#[derive(Args, Clone, Debug)]
pub(crate) struct Terms {
    /// How long the nodes keep the lock without hearing from us [default: 30s, or the longest ttl if that is shorter]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,

    /// How long to wait for the lock at most [default: 10s]
    #[arg(short, long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// Do not wait: busy means exit 75 at once. Split votes are tried again for at most 5s
    #[arg(short, long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,

    /// Why, for people who ask who holds it
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
}
