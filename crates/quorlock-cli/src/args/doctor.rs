//! `quorlock doctor`: what is wrong with the nodes.

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
#[command(after_long_help = AFTER)]
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

const AFTER: &str = "\
Examples:
  quorlock doctor
  quorlock doctor --strict --json        (for monitoring)
  quorlock doctor --work 20s             (is the ttl long enough?)
  quorlock doctor --clocks 10s           (do the clocks run at the same rate?)";
