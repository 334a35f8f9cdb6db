//! Whether a hold is over: by time, by reboot, or because its process is gone.

use super::super::record::{BootId, Hold, Place, Process};
use quorlock_core::Moment;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::os::unix::fs::MetadataExt;

/// Whether `hold` is over, as seen from `here`. In doubt about a process it is not.
pub(super) fn is_over(hold: &Hold, now: Moment, here: &Place) -> bool {
    hold.has_lapsed(now, here.boot)
        || hold.tied.is_some_and(|process| here.process.is_some_and(|me| is_gone(process, me)))
}

/// This process on this boot of the machine.
pub(super) fn here() -> Place {
    let pid = std::process::id();
    Place {
        boot: boot_id(),
        process: Some(Process {
            pid,
            started: stat(pid).map_or(0, |stat| stat.started),
            space: std::fs::metadata("/proc/self/ns/pid").map_or(0, |space| space.ino()),
        }),
    }
}

fn is_gone(process: Process, me: Process) -> bool {
    // A number from another container's space says nothing here.
    if process.space != me.space {
        return false;
    }
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    // Asked first, as /proc may hide the processes of other users.
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return true;
    }
    stat(process.pid)
        .is_some_and(|stat| stat.ended || (process.started != 0 && stat.started != process.started))
}

/// What the kernel tells about a process.
struct Stat {
    started: u64,
    /// It is a zombie: it runs no more, although its parent has not looked yet.
    ended: bool,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Reads state (field 3) and start time (field 22) of a line of `/proc/<pid>/stat`.
fn parse_stat(line: &str) -> Option<Stat> {
    // The second field is the program's name in parentheses and may itself hold spaces and parentheses.
    let (_, rest) = line.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?;
    Some(Stat { started: fields.nth(18)?.parse().ok()?, ended: matches!(state, "Z" | "X" | "x") })
}

/// The kernel's name for this boot; 0 where there is none (see [`Hold::span`] for what helps then).
fn boot_id() -> BootId {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    BootId(u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn tied(process: Process) -> Hold {
        Hold {
            value: String::new(),
            deadline: Moment::from_boot(Duration::from_secs(20)),
            span: Duration::from_secs(20),
            boot: here().boot,
            tied: Some(process),
        }
    }

    #[test]
    fn a_hold_lives_while_its_process_does() {
        let (now, here) = (Moment::from_boot(Duration::from_secs(10)), here());
        let me = here.process.unwrap();
        assert!(!is_over(&tied(me), now, &here));
        let reused = Process { started: me.started + 1, ..me };
        assert!(is_over(&tied(reused), now, &here), "the number went to another process");
        let nobody = Process { pid: i32::MAX.unsigned_abs(), ..me };
        assert!(is_over(&tied(nobody), now, &here));
        let elsewhere = Process { space: me.space + 1, ..nobody };
        assert!(!is_over(&tied(elsewhere), now, &here), "another container's process cannot be judged");
        assert!(is_over(&tied(elsewhere), Moment::from_boot(Duration::from_secs(20)), &here));
        let rebooted = Place { boot: BootId(here.boot.0 ^ 1), ..here };
        assert!(is_over(&tied(me), now, &rebooted));
    }

    #[test]
    fn a_program_name_with_parentheses_does_not_confuse() {
        let line = "7 (a) b (c) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20\n";
        let stat = parse_stat(line).unwrap();
        assert!(stat.ended);
        assert_eq!(stat.started, 4711);
        assert!(parse_stat("garbage").is_none());
    }
}
