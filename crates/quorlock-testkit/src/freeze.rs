//! Stopping a process, and letting it go on.

use crate::until::until_blocking;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Child;
use std::time::Duration;

/// Stops the process (SIGSTOP). Returns when it stands still, or is gone.
pub(crate) fn freeze(child: &Child) {
    signal(child, Signal::STOP);
    until_blocking("the process stands still", Duration::from_secs(5), || is_still(child.id()));
}

/// Lets a stopped process go on (SIGCONT).
pub(crate) fn thaw(child: &Child) {
    signal(child, Signal::CONT);
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Linux tells the state after the name in brackets. Elsewhere the signal's word must do.
fn is_still(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.rsplit(')').next().unwrap().trim_start().starts_with(['T', 'Z']))
}
