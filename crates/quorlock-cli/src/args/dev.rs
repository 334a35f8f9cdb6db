//! `quorlock dev`: Redis servers for experiments.

use clap::{Args, ValueHint, value_parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// Start Redis servers on this machine for experiments
///
/// Starts them on free ports of the loopback interface, marks them as new, and prints the line that
/// sets QUORLOCK_NODES. They keep nothing on disk. Ctrl-C stops all of them, and so does the end of
/// CMD.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub(crate) struct Dev {
    /// Number of servers
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u8).range(1..=31))]
    pub(crate) count: u8,

    /// The server program [default: redis-server, else valkey-server]
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub(crate) server: Option<PathBuf>,

    /// Run this with QUORLOCK_NODES set, stop the servers when it ends, and exit with its exit code
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

const AFTER: &str = "\
Examples:
  quorlock dev                             (paste the line that it prints into another terminal)
  quorlock dev -- quorlock bench
  quorlock dev --count 3 -- bash           (a shell with three nodes)";
