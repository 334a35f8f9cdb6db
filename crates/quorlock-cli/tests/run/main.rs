//! `quorlock run` as users see it: the built program, real commands, real servers.

#![allow(clippy::unwrap_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod bad_input;
mod concurrent_runs;
mod exit_codes;
mod lock_loss;
mod nodes;
mod options;
mod processes;
mod signals;
mod terminal;
