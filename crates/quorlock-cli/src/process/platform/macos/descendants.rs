//! The command and its descendants, from the kernel's list of processes.
#![allow(unsafe_code)]

use rustix::process::{Pid, getpid};
use std::mem::{MaybeUninit, size_of};

/// More processes than macOS allows.
const MAX_PROCESSES: usize = 1 << 17;

/// Every living process that descends from us or is in `group`, the process group of the command.
///
/// A process that has left the group and whose parent has ended is not found: launchd is its parent now.
pub(crate) fn alive(group: Option<Pid>) -> Vec<Pid> {
    let processes: Vec<Process> = pids().into_iter().filter_map(process).collect();
    let me = number(getpid());
    let in_group = |process: &Process| group.is_some_and(|group| process.group == number(group));
    let mut found: Vec<u32> = processes.iter().filter(|process| in_group(process)).map(|it| it.pid).collect();
    let mut parents = found.clone();
    parents.push(me);
    while let Some(parent) = parents.pop() {
        for child in processes.iter().filter(|process| process.parent == parent) {
            if child.pid != me && !found.contains(&child.pid) {
                found.push(child.pid);
                parents.push(child.pid);
            }
        }
    }
    found.into_iter().filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?)).collect()
}

fn number(pid: Pid) -> u32 {
    pid.as_raw_nonzero().get().unsigned_abs()
}

/// The numbers of all processes.
fn pids() -> Vec<i32> {
    // SAFETY: without a buffer it only counts.
    let count = unsafe { libc::proc_listallpids(std::ptr::null_mut(), 0) };
    // Room for processes that start meanwhile.
    let room = usize::try_from(count).unwrap_or_default().saturating_add(256).min(MAX_PROCESSES);
    let mut pids: Vec<i32> = vec![0; room];
    let bytes = i32::try_from(room * size_of::<i32>()).unwrap_or(i32::MAX);
    // SAFETY: writes at most `bytes` bytes into the buffer, which has as many.
    let count = unsafe { libc::proc_listallpids(pids.as_mut_ptr().cast(), bytes) };
    pids.truncate(usize::try_from(count).unwrap_or_default());
    pids
}

struct Process {
    pid: u32,
    parent: u32,
    group: u32,
}

/// What the kernel says about a living process, of any user.
fn process(pid: i32) -> Option<Process> {
    let mut found = MaybeUninit::<libc::proc_bsdshortinfo>::zeroed();
    let bytes = i32::try_from(size_of::<libc::proc_bsdshortinfo>()).ok()?;
    // SAFETY: writes at most `bytes` bytes into `found`, which has as many.
    let written =
        unsafe { libc::proc_pidinfo(pid, libc::PROC_PIDT_SHORTBSDINFO, 0, found.as_mut_ptr().cast(), bytes) };
    if written != bytes {
        return None;
    }
    // SAFETY: the kernel has written all of it.
    let found = unsafe { found.assume_init() };
    let is_alive = found.pbsi_status != libc::SZOMB;
    is_alive.then_some(Process { pid: found.pbsi_pid, parent: found.pbsi_ppid, group: found.pbsi_pgid })
}
