//! `quorlock choose`: which engine suits.

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args};

/// Ask a few questions and say which lock engine suits
///
/// Answers with an engine, why, what to know about it, and a line to begin with; also where that is another tool than
/// this one. On a terminal the questions are asked; a script answers with flags, and what it does not answer is no.
#[derive(Args, Debug, Default)]
#[command(after_long_help = AFTER)]
pub(crate) struct Choose {
    /// All who need the lock run on one machine
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) one_machine: Option<bool>,

    /// The lock must be right whatever clocks and pauses do, also if it is slower
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) strong_consistency: Option<bool>,

    /// You run Kubernetes
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) kubernetes: Option<bool>,

    /// Locks are taken often, and a millisecond counts
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) performance: Option<bool>,

    /// Rare double holding is tolerable, or what is protected checks the fence
    #[arg(long, value_name = "yes|no", num_args = 0..=1, require_equals = true, default_missing_value = "yes",
          action = ArgAction::Set, value_parser = BoolishValueParser::new(), hide_possible_values = true)]
    pub(crate) edge_cases_ok: Option<bool>,
}

const AFTER: &str = "\
Examples:
  quorlock choose                                      (asks)
  quorlock choose --performance --edge-cases-ok        (Redlock on 5 nodes)
  quorlock choose --strong-consistency --kubernetes    (etcd)
  quorlock choose --strong-consistency=no --json       (all answers are no)";
