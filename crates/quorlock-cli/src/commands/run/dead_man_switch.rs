//! A helper process that kills the command if we cannot: if we were killed, or are stopped when the
//! lock ends.
//!
//! On Linux the kernel kills the command itself when we die (parent-death signal), but not the
//! processes that the command started, and it kills nothing when we are stopped (`kill -STOP`, or
//! TSTP). So a child of ours waits for the end of a pipe whose other end only we hold, and for the
//! end of the lock.
#![allow(unsafe_code)]

use crate::process::platform::{self, now_millis};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// The helper process. It kills nothing before [`DeadManSwitch::arm`] and after
/// [`DeadManSwitch::disarm`].
#[derive(Debug)]
pub(super) struct DeadManSwitch {
    pub(super) pid: Pid,
    pipe: PipeWriter,
}

/// What the switch kills.
#[derive(Clone, Copy, Debug)]
pub(super) enum KillTarget {
    Group(Pid),
    /// If the command shares our process group.
    Process(Pid),
}

impl KillTarget {
    /// The argument of `kill`.
    fn as_raw(self) -> libc::pid_t {
        match self {
            KillTarget::Group(group) => -group.as_raw_nonzero().get(),
            KillTarget::Process(process) => process.as_raw_nonzero().get(),
        }
    }
}

/// A message to the helper process. A pipe takes it in one piece, so it arrives whole or not at
/// all.
#[derive(Clone, Copy)]
#[repr(C)]
struct Message {
    /// When to kill unless another message comes first, in milliseconds of the boot clock.
    at: i64,
    /// What to kill, as the argument of `kill`; zero to end without killing.
    target: libc::pid_t,
}

const MESSAGE_SIZE: usize = size_of::<i64>() + size_of::<libc::pid_t>();

impl Message {
    fn to_bytes(self) -> [u8; MESSAGE_SIZE] {
        let mut bytes = [0; MESSAGE_SIZE];
        bytes[..size_of::<i64>()].copy_from_slice(&self.at.to_ne_bytes());
        bytes[size_of::<i64>()..].copy_from_slice(&self.target.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: [u8; MESSAGE_SIZE]) -> Self {
        let [a, b, c, d, e, f, g, h, target @ ..] = bytes;
        Self { at: i64::from_ne_bytes([a, b, c, d, e, f, g, h]), target: libc::pid_t::from_ne_bytes(target) }
    }
}

impl DeadManSwitch {
    /// Starts the helper process, not armed yet.
    ///
    /// # Errors
    /// The system lacks the resources.
    pub(super) fn start() -> io::Result<Self> {
        let (reader, pipe) = io::pipe()?;
        let (from, to) = (reader.as_raw_fd(), pipe.as_raw_fd());
        // SAFETY: the new process makes system calls only, which is allowed whatever our other
        // threads do.
        let forked = unsafe { libc::fork() };
        match forked {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: just forked, and it never returns.
            0 => unsafe { serve_messages(from, to) },
            pid => match Pid::from_raw(pid) {
                Some(pid) => Ok(Self { pid, pipe }),
                None => Err(io::ErrorKind::Other.into()),
            },
        }
    }

    /// Arms the switch for the process of `command` before the command begins: there is no moment
    /// at which we could die and leave behind what the command has started. With `is_group` the
    /// target is the process group of that process.
    pub(super) fn arm_from_start(&self, command: &mut Command, is_group: bool) {
        let to = self.pipe.as_raw_fd();
        let send_target = move || {
            // SAFETY: plain system calls. The descriptor is ours until the process becomes the
            // command.
            unsafe {
                let pid = libc::getpid();
                let message = Message { at: i64::MAX, target: if is_group { -pid } else { pid } }.to_bytes();
                // If the helper process is gone, the parent-death signal is left.
                let _ = libc::write(to, message.as_ptr().cast(), MESSAGE_SIZE);
            }
            Ok(())
        };
        // SAFETY: between fork and exec only system calls are made that are allowed there.
        unsafe { command.pre_exec(send_target) };
    }

    /// Kills `target` when we die, or after `left` unless it is armed anew before. Replaces the
    /// former target and time.
    pub(super) fn arm(&mut self, target: KillTarget, left: Option<Duration>) {
        let left = left.and_then(|left| i64::try_from(left.as_millis()).ok());
        let at = left.map_or(i64::MAX, |left| now_millis().saturating_add(left));
        self.send(Message { at, target: target.as_raw() });
    }

    /// Ends the helper process, so that it kills nothing when we end.
    pub(super) fn disarm(&mut self) {
        self.send(Message { at: i64::MAX, target: 0 });
        let _ = waitpid(Some(self.pid), WaitOptions::empty());
    }

    fn send(&mut self, message: Message) {
        // If the helper process is gone, the parent-death signal is left.
        let _ = self.pipe.write_all(&message.to_bytes());
    }
}

/// Reads messages. Kills the target at our death, which ends the pipe, or when the time of the last
/// message comes.
///
/// # Safety
/// Only for a process that was just forked and does nothing else.
unsafe fn serve_messages(from: RawFd, to: RawFd) -> ! {
    let mut message = Message { at: i64::MAX, target: 0 };
    // SAFETY: system calls on plain numbers and on buffers of our own.
    unsafe {
        // `killall quorlock` shall spare it.
        platform::set_process_name(c"ql-dead-man");
        // Out of reach of the terminal, and without the files that another process may wait to be
        // closed.
        libc::setsid();
        let _ = libc::chdir(c"/".as_ptr());
        libc::close(to);
        libc::dup2(from, 0);
        platform::close_from(1);
        loop {
            let mut pipe = libc::pollfd { fd: 0, events: libc::POLLIN, revents: 0 };
            if libc::poll(&raw mut pipe, 1, poll_timeout(message)) <= 0 {
                if now_millis() >= message.at {
                    libc::kill(message.target, libc::SIGKILL);
                    message.at = i64::MAX;
                }
                continue;
            }
            let mut bytes = [0; MESSAGE_SIZE];
            match libc::read(0, bytes.as_mut_ptr().cast(), MESSAGE_SIZE) {
                -1 if platform::errno() == libc::EINTR => {}
                // If the kernel has killed a single process already, its pid may be reused by now.
                0 if message.target < 0 || (message.target > 0 && !platform::CHILDREN_DIE_WITH_US) => {
                    libc::kill(message.target, libc::SIGKILL);
                    libc::_exit(0)
                }
                read => match Message::from_bytes(bytes) {
                    next if usize::try_from(read) == Ok(MESSAGE_SIZE) && next.target != 0 => message = next,
                    _ => libc::_exit(0),
                },
            }
        }
    }
}

/// How long to wait for the next message, as the argument of `poll`. At most an hour: -1 would be
/// for ever.
fn poll_timeout(message: Message) -> i32 {
    const HOUR: i64 = 3_600_000;
    i32::try_from(message.at.saturating_sub(now_millis()).clamp(0, HOUR)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;
    use std::time::Instant;

    /// Goal: we may die as soon as the command runs, before we have set the time of the kill.
    #[test]
    fn what_the_command_started_is_killed_with_us_from_its_first_moment_on() {
        let mut switch = DeadManSwitch::start().unwrap();
        let mut command = Command::new("sh");
        // The shell waits for what it has started, so that it ends only if that is killed.
        command.args(["-c", "sleep 600 & wait"]).process_group(0).stdin(Stdio::null());
        switch.arm_from_start(&mut command, true);
        let mut child = command.spawn().unwrap();
        let (_, elsewhere) = io::pipe().unwrap();
        // What our death does: the last writer of the pipe is gone.
        drop(std::mem::replace(&mut switch.pipe, elsewhere));
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
