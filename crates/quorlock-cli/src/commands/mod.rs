//! One file for each command; `run` has a directory of its own.

pub(crate) mod config;
pub(crate) mod papers;
