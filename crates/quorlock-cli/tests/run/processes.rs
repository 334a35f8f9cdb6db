//! The command's life is tied to ours, and ours leaves no traces.

use crate::harness::Home;
use quorlock_testkit::until_blocking;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Goal: on the file node the lock is free as soon as its process is gone, so nothing that it
/// started may go on.
#[test]
fn killing_quorlock_kills_the_command_and_what_it_started() {
    let home = Home::new();
    let script = "echo $$ > command; sh -c 'echo $$ > child; exec sleep 600' & wait";
    let mut run = home.start(&["run", "x", "--", "sh", "-c", script]);
    let pid = |file: &str| fs::read_to_string(home.file(file)).unwrap_or_default();
    until_blocking("all of them run", SOON, || !pid("command").is_empty() && !pid("child").is_empty());
    run.signal(Signal::KILL);
    run.end();
    until_blocking("all of them are gone", SOON, || !lives(&pid("command")) && !lives(&pid("child")));
    home.run(&["run", "x", "-n", "--", "true"]).exits(0);
}

/// Goal: the kernel kills the command with us even if the process that watches over it is gone.
#[test]
fn killing_quorlock_kills_the_command_without_the_dead_man_switch() {
    let home = Home::new();
    let mut run = home.start(&["run", "x", "--", "sh", "-c", "echo $$ > command; exec sleep 600"]);
    let command = || fs::read_to_string(home.file("command")).unwrap_or_default();
    until_blocking("it runs", SOON, || !command().trim().is_empty());
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.id())).unwrap();
    let watching: Vec<&str> =
        children.split_whitespace().filter(|child| *child != command().trim()).collect();
    assert_eq!(watching.len(), 1, "{children}");
    kill_process(Pid::from_raw(watching[0].parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    until_blocking("nothing watches", SOON, || !lives(watching[0]));
    assert!(lives(&command()));
    run.signal(Signal::KILL);
    until_blocking("the command is gone", SOON, || !lives(&command()));
    run.end();
}

#[test]
fn what_the_command_left_in_the_background_goes_on_when_it_ends_well() {
    let home = Home::new();
    let script = "sh -c 'echo $$ > left; sleep 1; touch finished' > /dev/null 2>&1 & while ! [ -s left ]; do sleep 0.01; done";
    home.run(&["run", "x", "--", "sh", "-c", script]).exits(0);
    assert!(!fs::read_to_string(home.file("left")).unwrap().is_empty());
    until_blocking("it finished", SOON, || home.file("finished").exists());
}

#[test]
fn no_process_of_ours_stays() {
    let home = Home::new();
    let mut run = home.start(&["run", "x", "--", "true"]);
    let pid = run.id();
    run.end().exits(0);
    let children = format!("/proc/{pid}/task/{pid}/children");
    assert!(!Path::new(&children).exists());
    let ours = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let home = home.path().display().to_string();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(home.trim_end_matches('/'))
    });
    assert_eq!(ours.count(), 0);
}
