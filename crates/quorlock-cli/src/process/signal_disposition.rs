//! Signal dispositions: how the kernel treats a signal to this process.
#![allow(unsafe_code)]

use rustix::process::Signal;

/// Whether `signal` is ignored, as under `nohup`.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    // SAFETY: all zeros is a valid value of this plain structure.
    let mut current: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the disposition of the signal into `current`.
    let result = unsafe { libc::sigaction(signal.as_raw(), std::ptr::null(), &raw mut current) };
    result == 0 && current.sa_sigaction == libc::SIG_IGN
}

/// Calls `change` with SIGTTOU ignored: otherwise the kernel stops a background process that
/// changes its terminal.
pub(crate) fn while_ignoring_sigttou<T>(change: impl FnOnce() -> T) -> T {
    // SAFETY: no handler is installed, and the former disposition is restored below.
    let before = unsafe { libc::signal(libc::SIGTTOU, libc::SIG_IGN) };
    let changed = change();
    if before != libc::SIG_ERR {
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGTTOU, before) };
    }
    changed
}
