//! Starting the command tied to us: if we die, however that happens, it is killed.
#![allow(unsafe_code)]

use crate::treatment::in_spite_of_background;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::termios::tcsetpgrp;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts `command`, tied to us. With `terminal`, its process group gets the terminal before the command can read from it.
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
        let terminal = unsafe { BorrowedFd::borrow_raw(terminal) };
        in_spite_of_background(|| tcsetpgrp(terminal, getpid()))?;
    }
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have died before the tie was made.
    if getppid() != Some(parent) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    Ok(())
}
