//! Busy locks: waiting, not waiting, skipping, codes of the user's choice, least and longest holds.

use crate::kit::User;
use quorlock_testkit::until_blocking;
use std::process::Child;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(20);

/// Somebody who holds `name` until killed; returns when it is held.
fn holder(user: &User, name: &str) -> Child {
    let mark = user.path("held");
    let _ = std::fs::remove_file(&mark);
    let child = user.start(&[
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

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn busy_is_75_at_once_and_tells_who_and_why() {
    let user = User::new();
    let holder = holder(&user, "x");
    let done = user.run(&["run", "x", "-n", "--", "true"]).expect(75);
    assert!(
        done.stderr.contains("spring cleaning") && done.stderr.contains(&holder.id().to_string()),
        "{done:?}"
    );
    assert!(done.stderr.contains("quorlock status x"), "{done:?}");
    let error = &user.run(&["--json", "run", "x", "-n", "--", "true"]).expect(75).json()["error"];
    assert_eq!((&error["kind"], &error["holder"]["pid"]), (&"held".into(), &holder.id().into()));
    user.run(&["run", "y", "-n", "--", "true"]).expect(0);
    end(holder);
}

#[test]
fn a_wait_that_is_over_is_75_too() {
    let user = User::new();
    let holder = holder(&user, "x");
    let start = Instant::now();
    user.run(&["run", "x", "--wait", "300ms", "--", "true"]).expect(75);
    assert!(start.elapsed() >= Duration::from_millis(300));
    end(holder);
}

#[test]
fn the_code_for_busy_can_be_chosen() {
    let user = User::new();
    let holder = holder(&user, "x");
    user.run(&["run", "x", "-n", "-E", "9", "--", "true"]).expect(9);
    user.run(&["run", "x", "-n", "--conflict-exit-code", "0", "--", "false"]).expect(0);
    end(holder);
}

#[test]
fn skip_is_success_and_silence() {
    let user = User::new();
    let holder = holder(&user, "x");
    let done = user.run(&["run", "x", "--skip", "--", "echo", "ran"]).expect(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
    end(holder);
    assert_eq!(user.run(&["run", "x", "--skip", "--", "echo", "ran"]).expect(0).stdout, "ran\n");
}

#[test]
fn a_waiter_gets_its_turn_when_the_holder_ends() {
    let user = User::new();
    let holder = holder(&user, "x");
    let waiter = user.start(&["run", "x", "-v", "--wait", "1m", "--", "echo", "mine"]);
    end(holder);
    let output = waiter.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "mine\n");
}

#[test]
fn a_lock_is_kept_at_least_as_long_as_asked() {
    let user = User::new();
    let start = Instant::now();
    user.run(&["run", "x", "--at-least", "700ms", "--", "true"]).expect(0);
    assert!(start.elapsed() >= Duration::from_millis(700));
    user.run(&["run", "x", "-n", "--at-least", "1ms", "--", "false"]).expect(1);
}

#[test]
fn a_longest_hold_ends_the_command() {
    let user = User::new();
    let done = user.run(&["run", "x", "--max-hold", "500ms", "--", "sleep", "600"]).expect(79);
    assert!(done.stderr.contains("longest allowed hold"), "{done:?}");
}
