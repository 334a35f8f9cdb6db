//! One file for each command; `run` has a directory of its own.

pub(crate) mod acquire;
pub(crate) mod config;
pub(crate) mod extend;
pub(crate) mod force_release;
pub(crate) mod papers;
pub(crate) mod release;
pub(crate) mod status;
pub(crate) mod watch;
