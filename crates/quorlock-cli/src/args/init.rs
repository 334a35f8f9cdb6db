//! `quorlock init`: nodes that are new may vote at once.

use clap::Args;

/// Mark nodes that are known to be new, so that they may vote at once
///
/// A node that restarted may have forgotten locks, so it stays without a vote until all that it may have forgotten are
/// over: the longest ttl, and 10 s more. A new node cannot be told from one that forgot everything; only you know. Run
/// this once when the nodes are set up. Nodes that vote already are left alone.
///
/// Never after nodes restarted while locks were in use: that can give one lock to two holders.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub(crate) struct Init {
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

const AFTER: &str = "\
Examples:
  quorlock init --nodes redis://a,redis://b,redis://c
  quorlock init --yes --longest-ttl 5m       (from a script that sets new nodes up)

All clients of these nodes must use the same --longest-ttl.";
