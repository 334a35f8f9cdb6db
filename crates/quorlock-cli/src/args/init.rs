//! `quorlock init`: allow new nodes to vote at once.

use clap::Args;

/// Mark nodes that are known to be new, so that they may vote at once
///
/// A node that restarted may have forgotten locks, so it does not vote until these have expired:
/// for the longest ttl plus 10 s. quorlock cannot distinguish a new node from one that forgot
/// everything; only you can. Run this once when you set the nodes up. It leaves nodes that vote
/// already as they are.
///
/// Never run it after nodes restarted while locks were in use: that can give one lock to two
/// holders.
///
/// With --raise it marks nothing. It records on all nodes that clients may use a ttl of up to
/// --longest-ttl.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub(crate) struct Init {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Record --longest-ttl as the longest ttl on all nodes; they go on voting
    #[arg(long, conflicts_with = "yes")]
    pub(crate) raise: bool,
}

const AFTER: &str = "\
Examples:
  quorlock init --nodes redis://a,redis://b,redis://c
  quorlock init --yes --longest-ttl 5m       (in a script that sets up new nodes)
  quorlock init --raise --longest-ttl 10m    (before any client uses a ttl above the recorded one)

All clients of these nodes must use the same --longest-ttl.";
