//! `quorlock init`: nodes that are new may vote at once.

use clap::Args;

/// Mark nodes that are known to be new, so that they may vote at once
///
/// A node that restarted may have forgotten locks, so it stays without a vote until all that it may have forgotten are
/// over: the longest ttl, and 10 s more. A new node cannot be told from one that forgot everything; only you know. Run
/// this once when the nodes are set up. Nodes that vote already are left alone.
///
/// Never after nodes restarted while locks were in use: that can give one lock to two holders.
///
/// With --raise it marks nothing, and records on all nodes that clients may use a ttl of up to --longest-ttl.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub(crate) struct Init {
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Record --longest-ttl as the longest ttl on all nodes, which go on voting
    #[arg(long, conflicts_with = "yes")]
    pub(crate) raise: bool,
}

const AFTER: &str = "\
Examples:
  quorlock init --nodes redis://a,redis://b,redis://c
  quorlock init --yes --longest-ttl 5m       (from a script that sets new nodes up)
  quorlock init --raise --longest-ttl 10m    (before any client uses a ttl above the recorded one)

All clients of these nodes should use the same --longest-ttl.";
