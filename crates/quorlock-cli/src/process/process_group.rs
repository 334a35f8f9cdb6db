//! Our process group.
#![allow(unsafe_code)]

use rustix::process::Pid;
use rustix::termios::tcgetpgrp;
use std::os::fd::AsFd;

/// The id of our process group; `None` if its leader is outside of our pid namespace, where the
/// group has no id.
pub(crate) fn own() -> Option<Pid> {
    // SAFETY: only returns a number. The function of `rustix` does not allow for 0.
    Pid::from_raw(unsafe { libc::getpgrp() })
}

/// Whether our process group is known to be in the foreground of `terminal`.
pub(crate) fn is_in_foreground(terminal: impl AsFd) -> bool {
    own().is_some_and(|group| tcgetpgrp(terminal) == Ok(group))
}
