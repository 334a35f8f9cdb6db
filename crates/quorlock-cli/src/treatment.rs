//! How this process treats signals, where no safe interface tells or changes it.
#![allow(unsafe_code)]

use rustix::process::Signal;

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
