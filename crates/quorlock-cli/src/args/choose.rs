//! `quorlock choose`: which lock engine suits.

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

/// Ask a few questions and recommend a lock engine
///
/// Prints an engine, the reasons, its limits, and a command to start with. The engine may be
/// another tool than quorlock. On a terminal it asks the questions. A script answers with flags; a
/// question without a flag counts as no.
#[derive(Args, Debug, Default)]
#[command(after_long_help = AFTER)]
pub(crate) struct Choose {
    /// All clients of the lock run on one machine
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) one_machine: Option<bool>,

    /// The lock protects data in a PostgreSQL database
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) postgres: Option<bool>,

    /// Consensus must decide who holds the lock, even if it is slower
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) strong_consistency: Option<bool>,

    /// You run Kubernetes
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) kubernetes: Option<bool>,

    /// Locks are acquired often, and a millisecond counts
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) performance: Option<bool>,

    /// Two holders at once, very rarely, are tolerable, or the protected resource checks the fence
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) edge_cases_ok: Option<bool>,
}

const AFTER: &str = "\
Examples:
  quorlock choose                                      (asks the questions)
  quorlock choose --postgres                           (lock and data in one database)
  quorlock choose --performance --edge-cases-ok        (Redlock on 5 nodes)
  quorlock choose --strong-consistency --kubernetes    (etcd)
  quorlock choose --strong-consistency=no --json       (all answers are no)";
