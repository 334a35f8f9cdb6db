//! Signals: passed on to the command, answered at once while waiting.

use crate::harness::{Home, Running};
use quorlock_testkit::until_blocking;
use rustix::process::{Pid, Signal, kill_process};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn signals_reach_the_command() {
    for (signal, name) in [
        (Signal::TERM, "TERM"),
        (Signal::INT, "INT"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let home = Home::new();
        let script = format!("trap 'echo heard; exit 7' {name}; touch ready; while :; do sleep 0.02; done");
        let mut run = home.start(&["run", "x", "-c", &script]);
        until_blocking("it runs", SOON, || home.file("ready").exists());
        run.signal(signal);
        let done = run.end().exits(7);
        assert_eq!(done.out, "heard\n", "{name}");
    }
}

#[test]
fn a_command_that_a_forwarded_signal_ends_exits_with_128_and_the_signal() {
    let home = Home::new();
    let mut run = home.start(&["run", "x", "-c", "touch ready; exec sleep 600"]);
    until_blocking("it runs", SOON, || home.file("ready").exists());
    run.signal(Signal::TERM);
    run.end().exits(143);
    home.run(&["run", "x", "-n", "--", "true"]).exits(0);
}

/// Stopped, it could not hear; quorlock would keep its lock for ever.
#[test]
fn a_stopped_command_can_be_ended_by_a_forwarded_signal() {
    let home = Home::new();
    let mut run = home.start(&["run", "x", "-c", "echo $$ > pid; touch ready; exec sleep 600"]);
    until_blocking("it runs", SOON, || home.file("ready").exists());
    let pid = std::fs::read_to_string(home.file("pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    run.signal(Signal::TERM);
    run.end().exits(143);
    home.run(&["run", "x", "-n", "--", "true"]).exits(0);
}

#[test]
fn while_waiting_a_signal_is_answered_at_once_and_the_lock_stays_with_its_holder() {
    let home = Home::new();
    let _holder = home.start(&["run", "x", "-c", "touch held; exec sleep 600"]);
    until_blocking("it is held", SOON, || home.file("held").exists());
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut waiter = home.start(&["run", "x", "--wait", "10m", "--", "touch", "ran"]);
        // Nothing shows from outside that it waits; a signal that comes before its handlers are
        // there ends it, too.
        std::thread::sleep(Duration::from_millis(500));
        let start = Instant::now();
        waiter.signal(signal);
        waiter.end().exits(code);
        assert!(start.elapsed() < Duration::from_secs(5));
    }
    home.run(&["run", "x", "-n", "--", "true"]).exits(75);
    assert!(!home.file("ran").exists());
}

#[test]
fn what_is_ignored_stays_ignored() {
    let home = Home::new();
    let program = crate::harness::program().display().to_string();
    let script = format!("trap '' HUP; exec {program} run x -c 'touch ready; sleep 1; echo done'");
    let mut nohup = Command::new("sh");
    nohup.args(["-c", &script]).current_dir(home.path()).env("HOME", home.path());
    let mut run = Running::new(nohup.stdout(Stdio::piped()).stderr(Stdio::piped()));
    until_blocking("it runs", SOON, || home.file("ready").exists());
    run.signal(Signal::HUP);
    assert_eq!(run.end().exits(0).out, "done\n");
}
