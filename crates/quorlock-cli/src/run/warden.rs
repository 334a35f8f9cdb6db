//! The warden: a process that kills the command if we cannot: when we were killed, or are stopped when the lock ends.
//!
//! The kernel kills the command itself when we die (parent-death signal), but not what the command started, and nobody
//! when we are stopped (`kill -STOP`, or TSTP). So a child of ours waits for the end of a pipe whose other end only we
//! hold, and for the end of the lock.
#![allow(unsafe_code)]

use rustix::process::{Pid, WaitOptions, waitpid};
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// Watches over the command, from [`Warden::watch`] on until it is dismissed.
#[derive(Debug)]
pub(super) struct Warden {
    pub(super) pid: Pid,
    orders: PipeWriter,
}

/// Whom the warden kills.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ward {
    Group(Pid),
    /// Where the command shares our process group.
    Process(Pid),
}

impl Ward {
    /// As `kill` wants it.
    fn target(self) -> libc::pid_t {
        match self {
            Ward::Group(group) => -group.as_raw_nonzero().get(),
            Ward::Process(process) => process.as_raw_nonzero().get(),
        }
    }
}

/// What the warden is told. It fits into a pipe at once, so it arrives whole or not at all.
#[derive(Clone, Copy)]
#[repr(C)]
struct Order {
    /// When to kill unless told otherwise, in milliseconds of the boot clock.
    at: i64,
    /// Whom to kill, as `kill` wants it; zero to go.
    target: libc::pid_t,
}

const ORDER: usize = size_of::<i64>() + size_of::<libc::pid_t>();

impl Order {
    fn to_bytes(self) -> [u8; ORDER] {
        let mut bytes = [0; ORDER];
        bytes[..size_of::<i64>()].copy_from_slice(&self.at.to_ne_bytes());
        bytes[size_of::<i64>()..].copy_from_slice(&self.target.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; ORDER]) -> Self {
        let [a, b, c, d, e, f, g, h, target @ ..] = bytes;
        Self { at: i64::from_ne_bytes([a, b, c, d, e, f, g, h]), target: libc::pid_t::from_ne_bytes(target) }
    }
}

impl Warden {
    /// Makes a warden that has nobody to watch yet.
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

    /// Makes the process of `command` its ward before the command begins, so that there is no moment at which we could die
    /// and leave behind what the command has started. With `is_group` the ward is the process group of that process.
    pub(super) fn watch_from_start(&self, command: &mut Command, is_group: bool) {
        let to = self.orders.as_raw_fd();
        let introduce = move || {
            // SAFETY: plain system calls. The descriptor is ours until the process becomes the command.
            unsafe {
                let pid = libc::getpid();
                let order = Order { at: i64::MAX, target: if is_group { -pid } else { pid } }.to_bytes();
                // A warden that is gone cannot be told; the parent-death signal is left.
                let _ = libc::write(to, order.as_ptr().cast(), ORDER);
            }
            Ok(())
        };
        // SAFETY: between fork and exec only system calls are made that are allowed there.
        unsafe { command.pre_exec(introduce) };
    }

    /// Gives it a ward, to be killed when we die, and after `left` unless it is told anew before; never if `None`.
    pub(super) fn watch(&mut self, ward: Ward, left: Option<Duration>) {
        let left = left.and_then(|left| i64::try_from(left.as_millis()).ok());
        let at = left.map_or(i64::MAX, |left| boot_millis().saturating_add(left));
        self.order(Order { at, target: ward.target() });
    }

    /// Sends it away, so that it kills nobody when we end.
    pub(super) fn dismiss(&mut self) {
        self.order(Order { at: i64::MAX, target: 0 });
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }

    fn order(&mut self, order: Order) {
        // A warden that is gone cannot be told; the parent-death signal is left.
        let _ = self.orders.write_all(&order.to_bytes());
    }
}

/// Reads orders. At our death, which ends the pipe, or when the time of the last order comes, the ward is killed.
///
/// # Safety
/// Only for a process that was just forked and does nothing else.
unsafe fn keep_ward(from: RawFd, to: RawFd) -> ! {
    let mut order = Order { at: i64::MAX, target: 0 };
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
            let mut pipe = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
            if libc::poll(&raw mut pipe, 1, patience(order)) <= 0 {
                if boot_millis() >= order.at {
                    libc::kill(order.target, libc::SIGKILL);
                    order.at = i64::MAX;
                }
                continue;
            }
            let mut bytes = [0; ORDER];
            match libc::read(0, bytes.as_mut_ptr().cast(), ORDER) {
                -1 if *libc::__errno_location() == libc::EINTR => {}
                // A single process the kernel has killed; its number may be another's by now.
                0 if order.target < 0 => {
                    libc::kill(order.target, libc::SIGKILL);
                    libc::_exit(0)
                }
                read => match Order::from_bytes(bytes) {
                    next if usize::try_from(read) == Ok(ORDER) && next.target != 0 => order = next,
                    _ => libc::_exit(0),
                },
            }
        }
    }
}

/// How long to wait for the next order, as `poll` wants it. At most an hour at once: -1 would be for ever.
fn patience(order: Order) -> i32 {
    const HOUR: i64 = 3_600_000;
    i32::try_from(order.at.saturating_sub(boot_millis()).clamp(0, HOUR)).unwrap_or(0)
}

/// The clock that leases are measured by: it runs on while the machine sleeps.
fn boot_millis() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time into `now`. Allowed also right after a fork.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) };
    now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use std::time::Instant;

    /// Goal: we may die as soon as the command runs, before we have said when it must end.
    #[test]
    fn what_the_command_started_is_killed_with_us_from_its_first_moment_on() {
        let mut warden = Warden::post().unwrap();
        let mut command = Command::new("sh");
        // The shell waits for what it has started, so that it ends only if that is killed.
        command.args(["-c", "sleep 600 & wait"]).process_group(0).stdin(Stdio::null());
        warden.watch_from_start(&mut command, true);
        let mut child = command.spawn().unwrap();
        let (_, elsewhere) = io::pipe().unwrap();
        // What our death does: the last writer of the pipe is gone.
        drop(std::mem::replace(&mut warden.orders, elsewhere));
        let start = Instant::now();
        let mut ended = child.try_wait().unwrap();
        while ended.is_none() && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(3));
            ended = child.try_wait().unwrap();
        }
        if ended.is_none() {
            // SAFETY: a process group of our own making.
            unsafe { libc::kill(-i32::try_from(child.id()).unwrap(), libc::SIGKILL) };
        }
        assert!(ended.is_some_and(|status| !status.success()), "{ended:?}");
    }
}
