//! Signals: passed on to the command, answered at once while waiting.

use crate::kit::{Done, User};
use quorlock_testkit::until_blocking;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Child;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

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
        let user = User::new();
        let script = format!("trap 'echo heard; exit 7' {name}; touch ready; while :; do sleep 0.02; done");
        let run = user.start(&["run", "x", "-c", &script]);
        until_blocking("it runs", SOON, || user.path("ready").exists());
        send(&run, signal);
        let done = Done::from(run.wait_with_output().unwrap()).expect(7);
        assert_eq!(done.stdout, "heard\n", "{name}");
    }
}

#[test]
fn a_command_that_a_passed_signal_ends_exits_with_128_and_the_signal() {
    let user = User::new();
    let run = user.start(&["run", "x", "-c", "touch ready; exec sleep 600"]);
    until_blocking("it runs", SOON, || user.path("ready").exists());
    send(&run, Signal::TERM);
    Done::from(run.wait_with_output().unwrap()).expect(143);
    user.run(&["run", "x", "-n", "--", "true"]).expect(0);
}

#[test]
fn while_waiting_a_signal_is_answered_at_once_and_the_lock_stays_with_its_holder() {
    let user = User::new();
    let mut holder = user.start(&["run", "x", "-c", "touch held; exec sleep 600"]);
    until_blocking("it is held", SOON, || user.path("held").exists());
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let waiter = user.start(&["run", "x", "--wait", "10m", "--", "touch", "ran"]);
        // Nothing shows from outside that it waits; a signal that comes before its handlers are there ends it, too.
        std::thread::sleep(Duration::from_millis(500));
        let start = Instant::now();
        send(&waiter, signal);
        let output = waiter.wait_with_output().unwrap();
        assert!(start.elapsed() < Duration::from_secs(5));
        Done::from(output).expect(code);
    }
    user.run(&["run", "x", "-n", "--", "true"]).expect(75);
    assert!(!user.path("ran").exists());
    holder.kill().unwrap();
    holder.wait().unwrap();
}

#[test]
fn what_is_ignored_stays_ignored() {
    let user = User::new();
    let program = crate::kit::program().display().to_string();
    let script = format!("trap '' HUP; exec {program} run x -c 'touch ready; sleep 1; echo done'");
    let mut nohup = std::process::Command::new("sh");
    nohup.args(["-c", &script]).current_dir(user.path("")).env("HOME", user.path(""));
    let run = nohup.stdout(std::process::Stdio::piped()).spawn().unwrap();
    until_blocking("it runs", SOON, || user.path("ready").exists());
    send(&run, Signal::HUP);
    let output = run.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "done\n");
}
