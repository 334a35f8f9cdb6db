//! macOS: neither parent-death signals nor a reaper of orphans.
#![allow(unsafe_code)]

pub(crate) mod descendants;

use rustix::process::{Pid, getppid};
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;

/// Whether the kernel kills a child that called [`die_with_parent`].
pub(crate) const CHILDREN_DIE_WITH_US: bool = false;

/// The kernel cannot kill this process when `parent` ends. Allowed right after a fork.
///
/// # Errors
/// `parent` has ended already.
pub(crate) fn die_with_parent(parent: Pid) -> io::Result<()> {
    if getppid() != Some(parent) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    Ok(())
}

/// Orphans become children of launchd, whatever we do.
pub(crate) fn adopt_orphans() {}

/// The clock that leases are measured by, in milliseconds. It goes on while the machine sleeps.
pub(crate) fn now_millis() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time into `now`. It takes no lock, so it is safe right after a fork.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
}

/// The error of the last system call. Allowed right after a fork.
pub(crate) fn errno() -> i32 {
    // SAFETY: the address is always valid.
    unsafe { *libc::__error() }
}

/// A process keeps the name of its program here.
pub(crate) fn set_process_name(_name: &CStr) {}

/// Closes all descriptors from `first` on. Allowed right after a fork.
///
/// # Safety
/// Nothing may use them any more.
pub(crate) unsafe fn close_from(first: RawFd) {
    // SAFETY: reads the limit, and closes descriptors of this process only.
    unsafe {
        // The limit may be infinite, and all those system calls take time.
        let limit = libc::sysconf(libc::_SC_OPEN_MAX).clamp(1024, 65_536);
        (first..RawFd::try_from(limit).unwrap_or(1024)).for_each(|fd| {
            libc::close(fd);
        });
    }
}
