//! Whether a hold is over: by time, by reboot, or because its process ended.

use crate::node::record::{BootId, Hold, Place, Process};
use quorlock_core::Moment;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::fs::File;
use std::io::{self, Read};
#[cfg(any(target_os = "linux", target_os = "android"))]
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether `hold` is over, as seen from `here`. In doubt about a process it is not.
pub(crate) fn is_over(hold: &Hold, now: Moment, here: &Place) -> bool {
    hold.has_lapsed(now, here.boot)
        || hold.tied.is_some_and(|process| here.process.is_some_and(|me| is_gone(process, me)))
}

/// This process on this boot of the machine.
pub(crate) fn here() -> Place {
    Place { boot: boot_id(), process: this_process() }
}

/// This process; `None` if `/proc` is missing or belongs to another pid namespace (`unshare --pid`
/// without `--mount-proc`): process ids cannot be judged by it, so locks are neither tied nor found to be
/// over by them.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn this_process() -> Option<Process> {
    let pid = std::process::id();
    let named = std::fs::read_link("/proc/self").ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    if !is_own_proc(pid, &named, &status) {
        return None;
    }
    let space = std::fs::metadata("/proc/self/ns/pid").ok()?.ino();
    Some(Process { pid, started: stat(pid)?.started, space })
}

/// Systems without pid namespaces.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn this_process() -> Option<Process> {
    Some(Process { pid: std::process::id(), started: 0, space: 0 })
}

/// Whether `/proc` counts processes as we do. `named` is where `/proc/self` leads, `status` is its status.
#[cfg_attr(not(any(target_os = "linux", target_os = "android")), allow(dead_code))]
fn is_own_proc(pid: u32, named: &Path, status: &str) -> bool {
    // Our number in each namespace, from that of /proc down to ours; two may be equal by chance.
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let is_ours = numbers.is_none_or(|numbers| numbers.split_whitespace().count() == 1);
    is_ours && named == Path::new(&pid.to_string())
}

fn is_gone(process: Process, me: Process) -> bool {
    // A process id of another container's namespace means nothing here.
    if process.space != me.space {
        return false;
    }
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    // Checked first, because /proc may hide the processes of other users.
    if test_kill_process(pid) == Err(Errno::SRCH) {
        return true;
    }
    stat(process.pid)
        .is_some_and(|stat| stat.ended || (process.started != 0 && stat.started != process.started))
}

/// What the kernel reports about a process.
struct Stat {
    started: u64,
    /// It is a zombie: it no longer runs, although its parent has not waited for it yet.
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

/// The kernel's name for this boot; 0 if there is none (see [`Hold::span`] for what helps then).
fn boot_id() -> BootId {
    let text = read_boot_id(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    BootId(u128::from_str_radix(&text.trim().replace('-', ""), 16).unwrap_or_default())
}

/// What the kernel writes at `path`. Container managers (systemd-nspawn, LXC) put a file of their own
/// there, which differs between containers of one boot.
fn read_boot_id(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    if !is_written_by_kernel(&file) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn is_written_by_kernel(file: &File) -> bool {
    const PROC: i64 = 0x9fa0;
    // The field has another width on some machines.
    #[allow(clippy::unnecessary_cast, clippy::useless_conversion)]
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as i64 == PROC)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn is_written_by_kernel(_file: &File) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn tied(process: Process) -> Hold {
        Hold {
            mode: quorlock_core::Mode::Exclusive,
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
        let ended = Process { pid: i32::MAX.unsigned_abs(), ..me };
        assert!(is_over(&tied(ended), now, &here));
        let elsewhere = Process { space: me.space + 1, ..ended };
        assert!(!is_over(&tied(elsewhere), now, &here), "another container's process cannot be judged");
        assert!(is_over(&tied(elsewhere), Moment::from_boot(Duration::from_secs(20)), &here));
        let rebooted = Place { boot: BootId(here.boot.0 ^ 1), ..here };
        assert!(is_over(&tied(me), now, &rebooted));
    }

    /// Goal: the numbers of one pid namespace are never judged by the `/proc` of another.
    #[test]
    fn a_proc_of_another_namespace_is_known_by_its_numbers() {
        let status = |numbers: &str| format!("Name:\tx\nNSpid:{numbers}\nVmPeak:\t1\n");
        assert!(is_own_proc(7, Path::new("7"), &status("\t7")));
        assert!(is_own_proc(7, Path::new("7"), "Name:\tx\n"), "before Linux 4.1");
        assert!(!is_own_proc(7, Path::new("57"), &status("\t57\t7")));
        assert!(!is_own_proc(7, Path::new("57"), "Name:\tx\n"));
        assert!(!is_own_proc(7, Path::new("7"), &status("\t7\t7")), "the same number by chance");
        let (named, real) = (
            std::fs::read_link("/proc/self").unwrap(),
            std::fs::read_to_string("/proc/self/status").unwrap(),
        );
        assert!(is_own_proc(std::process::id(), &named, &real));
    }

    #[test]
    fn a_boot_id_that_the_kernel_did_not_write_is_not_believed() {
        assert_ne!(boot_id(), BootId(0));
        let other = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&other, "0c5c2e4b-6f3a-4e0e-9a53-2d1a0f1c9b11\n").unwrap();
        assert!(read_boot_id(other.path()).is_err());
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
