//! The warden: a process that kills the command's whole process group if we are killed.
//!
//! The kernel kills the command itself (parent-death signal), but not what the command started. So a child of ours waits
//! for the end of a pipe whose other end only we hold.
#![allow(unsafe_code)]

use rustix::process::{Pid, WaitOptions, waitpid};
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsRawFd, RawFd};

/// Watches over one process group, from [`Warden::watch`] on until it is dismissed.
#[derive(Debug)]
pub(super) struct Warden {
    pub(super) pid: Pid,
    orders: PipeWriter,
}

impl Warden {
    /// Makes a warden that has no group to watch yet.
    pub(super) fn post() -> io::Result<Self> {
        let (reader, orders) = io::pipe()?;
        let (from, to) = (reader.as_raw_fd(), orders.as_raw_fd());
        // SAFETY: the new process makes system calls only, which is allowed whatever our other threads do.
        let forked = unsafe { libc::fork() };
        match forked {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: just forked, and it never returns.
            0 => unsafe { keep_ward(from, to) },
            pid => match Pid::from_raw(pid) {
                Some(pid) => Ok(Self { pid, orders }),
                None => Err(io::ErrorKind::Other.into()),
            },
        }
    }

    /// Gives it a group to watch.
    pub(super) fn watch(&mut self, group: Pid) {
        // A warden that is gone cannot be told; the parent-death signal is left.
        let _ = self.orders.write_all(&group.as_raw_nonzero().get().to_ne_bytes());
    }

    /// Sends it away, so that it kills nobody when we end.
    pub(super) fn dismiss(&mut self) {
        let _ = self.orders.write_all(&0_i32.to_ne_bytes());
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }
}

/// Reads orders: a process group to watch, or zero to go. Our death ends the pipe, and then the group is killed.
///
/// # Safety
/// Only for a process that was just forked and does nothing else.
unsafe fn keep_ward(from: RawFd, to: RawFd) -> ! {
    let mut group: libc::pid_t = 0;
    // SAFETY: system calls on plain numbers and on buffers of our own.
    unsafe {
        // A name of its own, so that whoever kills all `quorlock` does not mean it.
        libc::prctl(libc::PR_SET_NAME, c"ql-warden".as_ptr());
        // Out of reach of the terminal, and of whoever waits for our files to be closed.
        libc::setsid();
        let _ = libc::chdir(c"/".as_ptr());
        libc::close(to);
        libc::dup2(from, 0);
        close_from(1);
        loop {
            let mut order: libc::pid_t = 0;
            match libc::read(0, (&raw mut order).cast(), size_of::<libc::pid_t>()) {
                -1 if *libc::__errno_location() == libc::EINTR => {}
                0 if group > 0 => {
                    libc::kill(-group, libc::SIGKILL);
                    libc::_exit(0)
                }
                4 if order > 0 => group = order,
                _ => libc::_exit(0),
            }
        }
    }
}

/// Closes all descriptors from `first` on.
///
/// # Safety
/// Nothing may use them any more.
unsafe fn close_from(first: RawFd) {
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
