//! Locks from outside of the process that holds them: acquired, extended, released, inspected and
//! taken away.
#![allow(clippy::unwrap_used)]

mod force;
#[path = "../harness/mod.rs"]
mod harness;
mod outages;
mod refusals;
mod status;
mod terminal;
mod tokens;
mod waiting;
mod watch;

use harness::Home;
use quorlock_testkit::until_blocking;
use std::time::Duration;

/// Waits until the lock is free.
fn until_free(home: &Home, name: &str) {
    until_blocking("the lock is free", Duration::from_secs(20), || {
        home.run(&["status", name, "--json"]).exits(0).json()["held"] == false
    });
}
