//! `quorlock doctor`: what is wrong with the nodes.

use crate::duration;
use clap::Args;
use std::time::Duration;

/// Examine the nodes: what is wrong, why it matters, what to do
///
/// Looks at each node without changing it: whether it answers and how fast, its clock, its role, eviction, what it
/// remembers after a restart, whether it may vote yet, permissions, version. Then at all of them: the same server twice,
/// an even number, what may fail, and the ttl.
///
/// Exits 0 if locks can be taken, 1 with --strict if there is a warning or an error, 69 if too few nodes can vote.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub(crate) struct Doctor {
    /// Exit 1 if there is any warning or error
    #[arg(long)]
    pub(crate) strict: bool,

    /// How long the work under a lock takes, for advice on the ttl
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) work: Option<Duration>,

    /// Watch the clocks for so long to measure the rate at which they run
    ///
    /// A lock depends on the rate of clocks, not on what they show. Some seconds are enough to find a bad one.
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) clocks: Option<Duration>,
}

const AFTER: &str = "\
Examples:
  quorlock doctor
  quorlock doctor --strict --json        (for monitoring)
  quorlock doctor --work 20s             (is the ttl long enough?)
  quorlock doctor --clocks 10s           (do the clocks run at the same rate?)";
