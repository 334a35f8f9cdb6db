//! The commands on the nodes themselves: doctor, init.

use crate::output::duration;
use clap::Args;
use std::time::Duration;

/// Examine the nodes: what is wrong, why it matters, what to do
///
/// Checks each node without changing it: round trip, clock, role, eviction, persistence, whether it
/// may vote, permissions, version. Then checks all nodes together: one server named twice, an even
/// number of nodes, how many may fail, and the ttl.
///
/// Exits 0 if locks can be acquired, 1 with --strict if there is a warning or an error, 69 if too
/// few nodes can vote.
#[derive(Args, Debug)]
#[command(after_long_help = DOCTOR_EXAMPLES)]
pub(crate) struct Doctor {
    /// Exit 1 if there is any warning or error
    #[arg(long)]
    pub(crate) strict: bool,

    /// How long the work under a lock takes, for advice on the ttl
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) work: Option<Duration>,

    /// Measure for this time how fast the clocks run
    ///
    /// A lock depends on the rate of clocks, not on the time that they show. 10s is enough to find
    /// a bad one.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) clocks: Option<Duration>,
}

const DOCTOR_EXAMPLES: &str = "\
Examples:
  quorlock doctor
  quorlock doctor --strict --json        (for monitoring)
  quorlock doctor --work 20s             (is the ttl long enough?)
  quorlock doctor --clocks 10s           (do the clocks run at the same rate?)";

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
#[command(after_long_help = INIT_EXAMPLES)]
pub(crate) struct Init {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    /// Record --longest-ttl as the longest ttl on all nodes; they go on voting
    #[arg(long, conflicts_with = "yes")]
    pub(crate) raise: bool,
}

const INIT_EXAMPLES: &str = "\
Examples:
  quorlock init --nodes redis://a,redis://b,redis://c
  quorlock init --yes --longest-ttl 5m       (in a script that sets up new nodes)
  quorlock init --raise --longest-ttl 10m    (before any client uses a ttl above the recorded one)

All clients of these nodes must use the same --longest-ttl.";
