//! Busy locks: waiting, not waiting, skipping, codes of the user's choice, least and longest holds.

use crate::harness::{Home, Running, program};
use quorlock_testkit::until_blocking;
use rustix::process::Signal;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

/// A client that holds `name` until killed; returns when it is held.
fn holder(home: &Home, name: &str) -> Running {
    let mark = home.file("held");
    let _ = std::fs::remove_file(&mark);
    let child = home.start(&[
        "run",
        name,
        "--reason",
        "spring cleaning",
        "--",
        "sh",
        "-c",
        "touch held; exec sleep 600",
    ]);
    until_blocking("the lock is held", SOON, || mark.exists());
    child
}

fn end(mut holder: Running) {
    holder.signal(Signal::KILL);
    holder.end();
}

#[test]
fn busy_is_75_at_once_and_says_who_and_why() {
    let home = Home::new();
    let mut holder = holder(&home, "x");
    let done = home.run(&["run", "x", "-n", "--", "true"]).exits(75);
    assert!(done.err.contains("spring cleaning") && done.err.contains(&holder.id().to_string()), "{done:?}");
    assert!(done.err.contains("quorlock status x"), "{done:?}");
    let error = &home.run(&["--json", "run", "x", "-n", "--", "true"]).exits(75).json_aside()["error"];
    assert_eq!((&error["kind"], &error["holder"]["pid"]), (&"held".into(), &holder.id().into()));
    let skipped = home.run(&["--json", "run", "x", "--skip", "--", "true"]).exits(0).json_aside();
    assert_eq!((&skipped["name"], &skipped["skipped"]), (&"x".into(), &true.into()));
    home.run(&["run", "y", "-n", "--", "true"]).exits(0);
    end(holder);
}

#[test]
fn a_wait_that_is_over_is_75_too() {
    let home = Home::new();
    let holder = holder(&home, "x");
    let start = Instant::now();
    home.run(&["run", "x", "--wait", "300ms", "--", "true"]).exits(75);
    assert!(start.elapsed() >= Duration::from_millis(300));
    end(holder);
}

#[test]
fn the_code_for_busy_can_be_chosen() {
    let home = Home::new();
    let holder = holder(&home, "x");
    home.run(&["run", "x", "-n", "-E", "9", "--", "true"]).exits(9);
    home.run(&["run", "x", "-n", "--conflict-exit-code", "0", "--", "false"]).exits(0);
    end(holder);
}

#[test]
fn skip_is_success_and_silence() {
    let home = Home::with_nodes(&["file:".to_owned()]);
    let holder = holder(&home, "x");
    let done = home.run(&["run", "x", "--skip", "--", "echo", "ran"]).exits(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("", ""));
    end(holder);
    assert_eq!(home.run(&["run", "x", "--skip", "--", "echo", "ran"]).exits(0).out, "ran\n");
}

#[test]
fn a_waiter_gets_its_turn_when_the_holder_ends() {
    let home = Home::new();
    let holder = holder(&home, "x");
    let waiter = home.start(&["run", "x", "-v", "--wait", "1m", "--", "echo", "mine"]);
    end(holder);
    assert_eq!(waiter.end().exits(0).out, "mine\n");
}

#[test]
fn a_lock_is_kept_at_least_as_long_as_asked() {
    let home = Home::new();
    let start = Instant::now();
    home.run(&["run", "x", "--at-least", "700ms", "--", "true"]).exits(0);
    assert!(start.elapsed() >= Duration::from_millis(700));
    home.run(&["run", "x", "-n", "--at-least", "1ms", "--", "false"]).exits(1);
}

#[test]
fn a_longest_hold_ends_the_command() {
    let home = Home::new();
    let done = home.run(&["run", "x", "--max-hold", "500ms", "--", "sleep", "600"]).exits(79);
    assert!(done.err.contains("longest allowed hold"), "{done:?}");
}

#[test]
fn a_command_that_waits_for_the_lock_that_it_runs_under_gets_a_hint() {
    let home = Home::new();
    let inner = format!("{} run x -n -- true", program().display());
    let done = home.run(&["run", "x", "-c", &inner]).exits(75);
    done.complains(&["lock `x` is held", "wait for itself"]);
}
