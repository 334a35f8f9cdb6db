//! `quorlock bench`: how fast these nodes are.

use clap::{Args, ValueEnum, value_parser};

/// Measure the nodes: acquire time, throughput, failures tolerated
///
/// Many clients take and release locks as fast as they can. It writes to your nodes: locks named quorlock-bench:...,
/// which are released, and whose last traces the nodes drop by themselves. Servers in production get as slow meanwhile
/// as such a load makes them.
#[derive(Args, Debug)]
#[command(after_long_help = AFTER)]
pub(crate) struct Bench {
    /// How many clients at the same time
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = value_parser!(u32).range(1..=10_000))]
    pub(crate) clients: u32,

    /// For how many seconds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u64).range(1..=600))]
    pub(crate) seconds: u64,

    /// Whether clients get in each other's way
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
    /// Each client has a lock of its own: how much the nodes can do
    Own,
    /// All want the same lock: how fast it goes from one to the next
    One,
}
