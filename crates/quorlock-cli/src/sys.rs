//! What has no safe interface: the last steps of a new process before it becomes the command, and how signals are treated.
#![allow(unsafe_code)]

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::termios::tcsetpgrp;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts `command`, tied to us: if we die, however that happens, it is killed. With `terminal`, its process group gets
/// the terminal before the command can read from it.
///
/// Must be called by the main thread: the tie is to the thread that calls.
pub(crate) fn spawn_tied(command: &mut Command, terminal: Option<RawFd>) -> io::Result<Child> {
    let parent = getpid();
    let prepare = move || become_tied(parent, terminal);
    // SAFETY: between fork and exec only system calls are made that are allowed there; nothing is allocated, and no
    // lock is taken.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

fn become_tied(parent: Pid, terminal: Option<RawFd>) -> io::Result<()> {
    if let Some(terminal) = terminal {
        // SAFETY: the parent keeps the terminal open until this process has become the command.
        let terminal = unsafe { BorrowedFd::borrow_raw(terminal.as_raw_fd()) };
        in_spite_of_background(|| tcsetpgrp(terminal, getpid()))?;
    }
    #[cfg(target_os = "linux")]
    {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have died before the tie was made.
        if getppid() != Some(parent) {
            return Err(rustix::io::Errno::SRCH.into());
        }
    }
    Ok(())
}

/// Whether `signal` is ignored, as `nohup` makes it.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut now: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the treatment of the signal into `now`.
    let asked = unsafe { libc::sigaction(signal.as_raw(), std::ptr::null(), &raw mut now) };
    asked == 0 && now.sa_sigaction == libc::SIG_IGN
}

/// Calls `change`, which a process in the background of a terminal may only do while it ignores SIGTTOU.
pub(crate) fn in_spite_of_background<T>(change: impl FnOnce() -> T) -> T {
    // SAFETY: no handler is installed, and the former treatment comes back at once.
    let before = unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
    let changed = change();
    if before != libc::SIG_ERR {
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGTTOU, before) };
    }
    changed
}
