//! Linux: parent-death signals, a reaper of orphans, `/proc`.
#![allow(unsafe_code)]

pub(crate) mod descendants;

use rustix::process::{Pid, Signal, getpid, getppid, set_child_subreaper, set_parent_process_death_signal};
use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;

/// Whether the kernel kills a child that called [`die_with_parent`].
pub(crate) const CHILDREN_DIE_WITH_US: bool = true;

/// Makes the kernel kill this process when the thread of `parent` that started it ends. Allowed right
/// after a fork.
///
/// # Errors
/// `parent` has ended already.
pub(crate) fn die_with_parent(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before that call.
    if getppid() != Some(parent) {
        return Err(rustix::io::Errno::SRCH.into());
    }
    Ok(())
}

/// Makes orphans our children, so that none escapes when the lock is lost. If this fails, only processes
/// of the command's group are found.
pub(crate) fn adopt_orphans() {
    let _ = set_child_subreaper(Some(getpid()));
}

/// The clock that leases are measured by, in milliseconds. It goes on while the machine sleeps.
pub(crate) fn now_millis() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time into `now`. Allowed right after a fork.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    // Some machines have narrower fields.
    #[allow(clippy::useless_conversion)]
    let (seconds, nanos) = (i64::from(now.tv_sec), i64::from(now.tv_nsec));
    seconds.saturating_mul(1000).saturating_add(nanos / 1_000_000)
}

/// The error of the last system call. Allowed right after a fork.
pub(crate) fn errno() -> i32 {
    // SAFETY: the address is always valid.
    unsafe { *libc::__errno_location() }
}

/// Gives this process a name of its own, so that `killall` spares it. Allowed right after a fork.
pub(crate) fn set_process_name(name: &CStr) {
    // SAFETY: the kernel copies the name.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// Closes all descriptors from `first` on. Allowed right after a fork.
///
/// # Safety
/// Nothing may use them any more.
pub(crate) unsafe fn close_from(first: RawFd) {
    // SAFETY: closes descriptors of this process only.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) != 0 {
            // Linux before 5.9.
            (first..1024).for_each(|fd| {
                libc::close(fd);
            });
        }
    }
}
