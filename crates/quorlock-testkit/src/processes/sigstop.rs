//! Stopping a process (SIGSTOP) and resuming it (SIGCONT).

use crate::eventually::until_blocking;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Child;
use std::time::Duration;

/// Stops the process. Returns when the kernel reports it as stopped, or when it is gone.
pub(crate) fn stop(child: &Child) {
    signal(child, Signal::STOP);
    until_blocking("the process is stopped", Duration::from_secs(5), || is_stopped(child.id()));
}

/// Resumes a stopped process.
pub(crate) fn resume(child: &Child) {
    signal(child, Signal::CONT);
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Linux shows the state after the name in brackets. Elsewhere the signal is trusted.
fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.rsplit(')').next().unwrap().trim_start().starts_with(['T', 'Z']))
}
