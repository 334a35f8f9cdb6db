//! A lost lock: no descendant of the command is alive when another client can acquire the lock.

use crate::harness::{Home, program};
use quorlock_testkit::{Servers, until_blocking};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const SOON: Duration = Duration::from_secs(20);
/// A fiftieth of it is the notice at which KILL is sent before the end, so it must not be too short
/// for a busy machine.
const TTL: Duration = Duration::from_secs(8);

/// A command, a child of it and a grandchild in a session of its own, all deaf to TERM. Each writes
/// the time again and again.
const DEAF: &str = r#"
    trap '' TERM
    beat() { while :; do date +%s%N > $1.new; mv $1.new $1; sleep 0.02; done; }
    beat child &
    setsid sh -c 'trap "" TERM; echo $$ > pid; while :; do date +%s%N > away.new; mv away.new away; sleep 0.02; done' &
    beat command
"#;

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

fn beat(file: &Path) -> Duration {
    let text = fs::read_to_string(file).unwrap();
    Duration::from_nanos(text.trim().parse().unwrap())
}

/// Goal: when all nodes are cut off, the command, its child and its grandchild are dead before the
/// validity ends, although none of them heeds TERM.
#[test]
fn the_whole_family_is_dead_before_the_validity_ends() {
    let servers = Servers::start(5);
    let home = Home::on(&servers);
    let beats = ["command", "child", "away"].map(|name| home.file(name));
    let run = home.start(&["run", "x", "--ttl", "8s", "--kill-grace", "1s", "-c", DEAF]);
    until_blocking("all of them run", SOON, || beats.iter().all(|beat| beat.exists()));
    // The lock was granted before this, and is extended for the first time after a third of its
    // ttl.
    let granted = now();
    servers.iter().for_each(|server| server.pause());
    let done = run.end().exits(79);
    for file in &beats {
        let last = beat(file);
        assert!(last < granted + TTL * 99 / 100, "{file:?} was alive {:?} after the grant", last - granted);
        assert!(last > granted + TTL / 2, "{file:?} had most of the time: {:?}", last - granted);
    }
    let pid = fs::read_to_string(home.file("pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the grandchild is gone");
    assert!(done.err.contains("was lost"), "{done:?}");
    servers.iter().for_each(|server| server.resume());
}

/// Goal: a `quorlock` that is stopped can neither extend its lock nor end its command, yet the
/// command does not run at the same time as the next holder.
#[test]
fn a_command_does_not_outlive_the_lock_of_a_quorlock_that_was_stopped() {
    let home = Home::new();
    let work = "(while :; do date +%s%N > child.new; mv child.new child; sleep 0.02; done) & wait";
    let mut run = home.start(&["run", "x", "--ttl", "3s", "-c", work]);
    let child = home.file("child");
    until_blocking("it runs", SOON, || child.exists());
    // So that it was extended at least once.
    let start = beat(&child);
    until_blocking("it ran for longer than its ttl", SOON, || beat(&child) > start + Duration::from_secs(4));
    run.signal(Signal::STOP);
    let next = home.run(&["run", "x", "--ttl", "3s", "--wait", "20s", "--", "date", "+%s%N"]).text();
    let next = Duration::from_nanos(next.parse().unwrap());
    assert!(beat(&child) < next, "alive at {:?}, {:?} after the grant", beat(&child), beat(&child) - next);
    run.signal(Signal::CONT);
    let done = run.end().exits(79);
    assert!(done.err.contains("was lost"), "{done:?}");
}

/// Goal: `--on-lost warn` means it, also while we are stopped.
#[test]
fn a_command_that_may_go_on_is_not_killed_while_quorlock_is_stopped() {
    let home = Home::new();
    let work = "touch ready; sleep 3; echo done";
    let mut run = home.start(&["run", "x", "--ttl", "1s", "--on-lost", "warn", "-c", work]);
    until_blocking("it runs", SOON, || home.file("ready").exists());
    run.signal(Signal::STOP);
    home.run(&["run", "x", "--ttl", "1s", "--wait", "20s", "--", "true"]).exits(0);
    run.signal(Signal::CONT);
    assert_eq!(run.end().exits(79).out, "done\n");
}

#[test]
fn a_command_that_heeds_term_has_time_to_clean_up() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let tidy = "trap 'echo tidied; exit 0' TERM; touch ready; while :; do sleep 0.05; done";
    let run = home.start(&["run", "x", "--ttl", "3s", "-c", tidy]);
    until_blocking("it runs", SOON, || home.file("ready").exists());
    servers.iter().for_each(|server| server.pause());
    let done = run.end().exits(79);
    assert_eq!(done.out, "tidied\n");
    servers.iter().for_each(|server| server.resume());
}

fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}

/// Goal: a command that is stopped when the lock is lost is continued, because it cannot handle
/// TERM before.
#[test]
fn a_stopped_command_is_continued_so_that_it_can_clean_up() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let tidy = "trap 'echo tidied; exit 0' TERM; echo $$ > pid; while :; do sleep 0.05; done";
    let run = home.start(&["run", "x", "--ttl", "4s", "--kill-grace", "1s", "-c", tidy]);
    let pid = || fs::read_to_string(home.file("pid")).unwrap_or_default();
    until_blocking("it runs", SOON, || !pid().trim().is_empty());
    kill_process(Pid::from_raw(pid().trim().parse().unwrap()).unwrap(), Signal::STOP).unwrap();
    until_blocking("it is stopped", SOON, || state(&pid()) == Some('T'));
    servers.iter().for_each(|server| server.pause());
    let done = run.end().exits(79);
    assert_eq!(done.out, "tidied\n");
    servers.iter().for_each(|server| server.resume());
}

/// Goal: what the command started is asked to end, too, even where it left the command's process
/// group and session.
#[test]
fn a_grandchild_in_a_session_of_its_own_has_time_to_clean_up() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let tidy = "trap 'touch tidied; exit 0' TERM; touch ready; while :; do sleep 0.05; done";
    // Neither the command nor the child between passes a signal on.
    let family = format!(r#"sh -c 'setsid sh -c "$1" & wait' sh "{tidy}" & wait"#);
    let run = home.start(&["run", "x", "--ttl", "4s", "--kill-grace", "1s", "-c", &family]);
    until_blocking("it runs", SOON, || home.file("ready").exists());
    servers.iter().for_each(|server| server.pause());
    run.end().exits(79);
    assert!(home.file("tidied").exists());
    servers.iter().for_each(|server| server.resume());
}

#[test]
fn a_lock_that_another_client_removed_ends_the_command() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let run = home.start(&["run", "x", "--ttl", "2s", "-c", "touch ready; exec sleep 600"]);
    until_blocking("it runs", SOON, || home.file("ready").exists());
    servers.iter().for_each(|server| drop(server.cli(&["DEL", "x"])));
    let done = run.end().exits(79);
    assert!(done.err.contains("no longer holds it"), "{done:?}");
}

/// The command is over before the next extension would have noticed.
#[test]
fn a_lock_that_was_removed_during_a_short_command_is_reported_at_its_end() {
    let home = Home::new();
    let steal = format!("{} release x --token $QUORLOCK_TOKEN; exit 3", program().display());
    let done = home.run(&["run", "x", "-c", &steal]).exits(79);
    assert!(done.err.contains("another client removed it") && done.err.contains("ended with 3"), "{done:?}");
    let done = home.run(&["run", "x", "--json", "-c", &steal]).exits(79);
    assert!(
        done.err.contains(r#""command_exit_code":3"#) && done.err.contains(r#""lost":"taken""#),
        "{done:?}"
    );
    // It may have been removed while no command ran any more.
    home.run(&["run", "x", "--at-least", "4s", "-c", &steal]).exits(3);
}

#[test]
fn on_lost_kill_gives_no_time_and_warn_lets_the_command_go_on() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let slow = "trap 'echo tidied; exit 0' TERM; touch $1; i=0; while [ $i -lt 60 ]; do sleep 0.1; i=$((i+1)); done; echo done";
    let start = |name: &str, on_lost: &str| {
        let run = home.start(&[
            "run",
            name,
            "--ttl",
            "2s",
            "--on-lost",
            on_lost,
            "--",
            "sh",
            "-c",
            slow,
            "sh",
            name,
        ]);
        until_blocking("it runs", SOON, || home.file(name).exists());
        run
    };
    let (kill, warn) = (start("kill", "kill"), start("warn", "warn"));
    servers.iter().for_each(|server| server.pause());
    let killed = kill.end().exits(79);
    assert_eq!(killed.out, "");
    let warned = warn.end().exits(79);
    assert_eq!(warned.out, "done\n");
    assert!(warned.err.contains("goes on without it"), "{warned:?}");
    servers.iter().for_each(|server| server.resume());
}

#[test]
fn two_of_five_servers_may_die() {
    let mut servers = Servers::start(5);
    let home = Home::on(&servers);
    let run = home.start(&["run", "x", "--ttl", "2s", "-c", "touch ready; sleep 5; echo done"]);
    until_blocking("it runs", SOON, || home.file("ready").exists());
    servers[0].kill();
    servers[3].kill();
    let done = run.end().exits(0);
    assert_eq!(done.out, "done\n");
}
