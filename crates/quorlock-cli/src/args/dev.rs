//! `quorlock dev`: servers to try things on.

use clap::{Args, ValueHint, value_parser};
use std::ffi::OsString;
use std::path::PathBuf;

/// Start Redis servers on this machine to try things on
///
/// Starts them on free ports of the loopback interface, marks them as new, and prints the line that tells quorlock where
/// they are. They keep nothing on disk. All are stopped with Ctrl-C, or when CMD ends.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub(crate) struct Dev {
    /// How many servers
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u8).range(1..=31))]
    pub(crate) count: u8,

    /// The server program [default: redis-server, else valkey-server]
    #[arg(long, value_name = "PROGRAM", value_hint = ValueHint::CommandName)]
    pub(crate) server: Option<PathBuf>,

    /// Run this with QUORLOCK_NODES set, stop the servers when it ends, and exit as it did
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    pub(crate) command: Vec<OsString>,
}

const AFTER: &str = "\
Examples:
  quorlock dev                             (then, in another terminal, the line that it prints)
  quorlock dev -- quorlock bench
  quorlock dev --count 3 -- bash           (a shell with three nodes)";
