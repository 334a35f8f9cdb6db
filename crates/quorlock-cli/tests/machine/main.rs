//! Locks within one machine (`file:`): its directories, users, namespaces and disks.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod directory;
mod fsync;
#[path = "../harness/mod.rs"]
mod harness;
mod namespaces;
mod other_user;
mod project_file;
mod users;

use std::process::{Command, Stdio};

/// Whether this machine lets us run `program` with `args`. If not, a test says so and ends.
fn allows(program: &str, args: &[&str]) -> bool {
    let tried = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_allowed = tried.is_ok_and(|status| status.success());
    if !is_allowed {
        println!("skipped: `{program} {}` does not work here", args.join(" "));
    }
    is_allowed
}
