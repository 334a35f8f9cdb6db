//! What the operating system gives a command: signals, threads, process groups, child processes,
//! the log on stderr.

pub(crate) mod log;
pub(crate) mod parent_death;
pub(crate) mod platform;
pub(crate) mod process_group;
pub(crate) mod runtime;
pub(crate) mod signal_disposition;
pub(crate) mod signals;
