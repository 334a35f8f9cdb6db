//! The command and its descendants, from `/proc`.

use rustix::process::Pid;
use std::collections::BTreeMap;
use std::fs;

/// Every living process that descends from us.
///
/// We are the reaper of orphans, so processes that detached themselves from the command are found
/// as well, and its process group need not be searched.
pub(crate) fn alive(_group: Option<Pid>) -> Vec<Pid> {
    // `/proc` may belong to a pid namespace around ours, so we start with our pid in `/proc`.
    let Some((me, depth)) = own_pid() else { return Vec::new() };
    let processes = processes();
    let mut found = vec![me];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(processes.iter().filter(|(_, process)| process.parent == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    let living = found.into_iter().skip(1).filter(|pid| !processes[pid].is_dead);
    living.filter_map(|pid| Pid::from_raw(*pids(&pid.to_string())?.get(depth)?)).collect()
}

/// Our pid in `/proc`, and how many pid namespaces below that of `/proc` we are.
fn own_pid() -> Option<(i32, usize)> {
    let pids = pids("self")?;
    Some((*pids.first()?, pids.len() - 1))
}

/// The pids of a process, from that in `/proc` down to that in its own namespace.
fn pids(process: &str) -> Option<Vec<i32>> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_whitespace().map(|pid| pid.parse().ok()).collect()
}

struct Process {
    parent: i32,
    is_dead: bool,
}

/// All processes in `/proc`.
fn processes() -> BTreeMap<i32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return BTreeMap::new();
    };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid: i32| {
        Some((pid, parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))
    })
    .collect()
}

/// Parses `pid (name) state parent ...`; the name may contain anything.
fn parse_stat(stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X" | "x");
    Some(Process { parent: fields.next()?.parse().ok()?, is_dead })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_name_with_brackets_is_skipped() {
        let process = parse_stat("42 (a) Z 7 (b) S 17 42 1").unwrap();
        assert_eq!((process.parent, process.is_dead), (17, false));
        assert!(parse_stat("42 (a) Z 7").unwrap().is_dead);
        assert!(parse_stat("42 a").is_none());
    }

    #[test]
    fn children_are_found_while_they_live() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = Pid::from_child(&child);
        assert!(alive(None).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!alive(None).contains(&pid));
    }
}
