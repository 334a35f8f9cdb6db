//! `quorlock bench`: how fast these nodes are.

use clap::{Args, ValueEnum, value_parser};

/// Measure the nodes: acquire time, throughput, failures tolerated
///
/// Many clients acquire and release locks as fast as they can. It writes locks named
/// quorlock-bench:... to your nodes and releases them; the nodes drop the counters of these names
/// after a week. In production, other clients of the same servers are slowed down while it runs.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub(crate) struct Bench {
    /// Number of concurrent clients
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: u32,

    /// Duration in seconds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,

    /// Whether the clients compete for one lock
    #[arg(long, value_name = "WHICH", default_value = "own")]
    pub(crate) names: Names,
}

const AFTER: &str = "\
Examples:
  quorlock bench
  quorlock bench --clients 20 --seconds 10 --names one
  quorlock dev -- quorlock bench      (on five servers of this machine)";

/// Which names the clients lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Names {
    /// Each client has a lock of its own: measures the throughput of the nodes
    Own,
    /// All clients want the same lock: measures how fast it passes from one client to the next
    One,
}
