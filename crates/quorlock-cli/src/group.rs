//! The process group that we are in.
#![allow(unsafe_code)]

use rustix::process::Pid;
use rustix::termios::tcgetpgrp;
use std::os::fd::AsFd;

/// The number of our process group; `None` in a pid namespace that the group's leader is outside of: it has no number there.
pub(crate) fn own() -> Option<Pid> {
    // SAFETY: only returns a number. The function of `rustix` does not allow for 0.
    Pid::from_raw(unsafe { libc::getpgrp() })
}

/// Whether we are known to be in the foreground of `terminal`.
pub(crate) fn is_in_foreground(terminal: impl AsFd) -> bool {
    own().is_some_and(|group| tcgetpgrp(terminal) == Ok(group))
}
