//! The command's life is tied to ours, and ours leaves no traces.

use crate::kit::User;
use quorlock_testkit::until_blocking;
use std::fs;
use std::path::Path;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Goal: on the file node the lock is free as soon as its process is gone, so nothing that it started may go on.
#[test]
fn killing_quorlock_kills_the_command_and_what_it_started() {
    let user = User::new();
    let script = "echo $$ > command; sh -c 'echo $$ > child; exec sleep 600' & wait";
    let mut run = user.start(&["run", "x", "--", "sh", "-c", script]);
    let pid = |file: &str| fs::read_to_string(user.path(file)).unwrap_or_default();
    until_blocking("all of them run", SOON, || !pid("command").is_empty() && !pid("child").is_empty());
    run.kill().unwrap();
    run.wait().unwrap();
    until_blocking("all of them are gone", SOON, || !lives(&pid("command")) && !lives(&pid("child")));
    user.run(&["run", "x", "-n", "--", "true"]).expect(0);
}

#[test]
fn what_the_command_left_in_the_background_goes_on_when_it_ends_well() {
    let user = User::new();
    let script = "sh -c 'echo $$ > left; sleep 1; touch finished' > /dev/null 2>&1 & while ! [ -s left ]; do sleep 0.01; done";
    user.run(&["run", "x", "--", "sh", "-c", script]).expect(0);
    assert!(!fs::read_to_string(user.path("left")).unwrap().is_empty());
    until_blocking("it finished", SOON, || user.path("finished").exists());
}

#[test]
fn no_process_of_ours_stays() {
    let user = User::new();
    let mut run = user.start(&["run", "x", "--", "true"]);
    let pid = run.id();
    run.wait().unwrap();
    let children = format!("/proc/{pid}/task/{pid}/children");
    assert!(!Path::new(&children).exists());
    let ours = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let home = user.path("").display().to_string();
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(home.trim_end_matches('/'))
    });
    assert_eq!(ours.count(), 0);
}
