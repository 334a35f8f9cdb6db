//! Child processes that the kernel kills when we die, in whatever way, if it can.
#![allow(unsafe_code)]

use crate::process::platform;
use crate::process::signal_disposition::while_ignoring_sigttou;
use rustix::process::{Pid, getpid};
use rustix::termios::tcsetpgrp;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts `command`, to be killed when we die, where the kernel can do that. With `terminal`, its process group gets the terminal
/// before the command can read from it.
///
/// Must be called by the main thread: the kernel kills the child when the thread that started it
/// ends.
pub(crate) fn spawn_with_parent_death_signal(
    command: &mut Command,
    terminal: Option<RawFd>,
) -> io::Result<Child> {
    let parent = getpid();
    let prepare = move || prepare_child(parent, terminal);
    // SAFETY: between fork and exec only system calls are made that are allowed there; nothing is
    // allocated, and no lock is taken.
    unsafe { command.pre_exec(prepare) };
    command.spawn()
}

fn prepare_child(parent: Pid, terminal: Option<RawFd>) -> io::Result<()> {
    if let Some(terminal) = terminal {
        // SAFETY: the parent keeps the terminal open until this process has become the command.
        let terminal = unsafe { BorrowedFd::borrow_raw(terminal) };
        while_ignoring_sigttou(|| tcsetpgrp(terminal, getpid()))?;
    }
    platform::die_with_parent(parent)
}
