//! Locks from outside of the process that holds them: taken, kept, given back, looked at and taken away.
#![allow(clippy::unwrap_used)]

mod force;
#[path = "../kit/mod.rs"]
mod kit;
mod outages;
mod refusals;
mod status;
mod terminal;
mod tokens;
mod waiting;
mod watch;

use kit::Home;
use quorlock_testkit::until_blocking;
use std::time::Duration;

/// Waits until nobody has the lock.
fn until_free(home: &Home, name: &str) {
    until_blocking("the lock is free", Duration::from_secs(20), || {
        home.run(&["status", name, "--json"]).exits(0).json()["held"] == false
    });
}
