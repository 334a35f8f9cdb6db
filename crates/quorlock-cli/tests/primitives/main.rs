//! Shared locks, several names, semaphores and elections as users see them: the built program and
//! real commands.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod elections;
#[path = "../harness/mod.rs"]
mod harness;
mod many_names;
mod semaphores;
mod shared_locks;

use harness::{Home, Running};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);

/// A command under a lock that says `ready` on stderr and sleeps until it is signalled.
const WORK: &str = "echo ready >&2; exec sleep 600";

/// Runs [`WORK`] with these flags of `run`; returns when it works.
fn working(home: &Home, args: &[&str]) -> Running {
    let mut running = home.start(&[&["run"], args, &["-c", WORK]].concat());
    running.says("ready");
    running
}
