//! One file or folder for each command.
//!
//! # Layout
//! A folder uses only the folders above it; `tests/layout.rs` checks that.
//!
//! - `choose/`: the selection guide
//! - `dev/`: Redis servers for experiments
//! - `bench/`: measures the nodes
//! - `serve/`: the HTTP sidecar
//! - `watch/`: follows who holds what
//! - `run/`: holds a lock while a command runs
//! - `doctor/`: examines the nodes
//! - `init/`: marks new nodes

pub(crate) mod acquire;
pub(crate) mod acquire_lock;
pub(crate) mod bench;
pub(crate) mod choose;
pub(crate) mod completions_man;
pub(crate) mod config;
pub(crate) mod dev;
pub(crate) mod doctor;
pub(crate) mod extend;
pub(crate) mod force_release;
pub(crate) mod init;
pub(crate) mod inspect_lock;
pub(crate) mod leader;
pub(crate) mod release;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod watch;
