//! Holders and contenders in different containers that share a directory.

use crate::allows;
use crate::harness::{Answer, Home, Running, program};
use quorlock_testkit::until_blocking;
use std::fs;
use std::process::Command;
use std::time::Duration;

const SOON: Duration = Duration::from_secs(60);
/// A pid namespace whose `/proc` is still that of the namespace around it.
const FOREIGN_PROC: [&str; 3] = ["--pid", "--fork", "--kill-child"];
/// As containers are: a pid namespace with a `/proc` of its own.
const OWN_PROC: [&str; 4] = ["--pid", "--fork", "--kill-child", "--mount-proc"];

/// `script` in new namespaces.
fn unshared(home: &Home, flags: &[&str], script: &str) -> Running {
    let ours = home.command(&[]);
    let path = format!("{}:{}", program().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("unshare");
    command
        .args(flags)
        .args(["sh", "-c", script])
        .current_dir(home.path())
        .envs(ours.get_envs().filter_map(|(key, value)| Some((key, value?))))
        .env_remove("QUORLOCK_NODES")
        .env("PATH", path)
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    Running::new(&mut command)
}

fn contend(home: &Home) -> Answer {
    home.run(&["run", "x", "--no-wait", "--", "true"])
}

/// Goal: in a pid namespace whose `/proc` shows other processes under the same numbers, no lock is
/// taken for that of a dead one.
#[test]
fn a_proc_of_another_namespace_makes_no_second_holder() {
    if !allows("unshare", &[&FOREIGN_PROC[..], &["true"]].concat()) {
        return;
    }
    let home = Home::new();
    // The holder gets the number that this one has outside.
    let mut outside = Command::new("sleep").arg("600").spawn().unwrap();
    let script = format!(
        "echo {} > /proc/sys/kernel/ns_last_pid || exit 1
         quorlock run x -- sh -c 'echo held; exec sleep 600' &
         for _ in $(seq 1200); do [ -e go ] && break; sleep 0.05; done
         quorlock run x --no-wait -- touch second; echo code $?",
        outside.id() - 1
    );
    let mut inside = unshared(&home, &FOREIGN_PROC, &script);
    inside.answers("held\n");
    // It ends, and is a zombie until we wait for it.
    outside.kill().unwrap();
    fs::write(home.file("go"), "").unwrap();
    let done = inside.end();
    outside.wait().unwrap();
    assert!(done.out.contains("code 75") && !home.file("second").exists(), "{done:?}");
}

/// Goal: the command and what it started end with the lock, found by the numbers of our namespace
/// and not by those of `/proc`.
#[test]
fn a_lost_lock_ends_all_that_was_started_although_proc_shows_other_numbers() {
    if !allows("unshare", &[&FOREIGN_PROC[..], &["true"]].concat()) {
        return;
    }
    let home = Home::new();
    let beats = "setsid sh -c 'while :; do touch beat; sleep 0.1; done' & wait";
    let script = format!(
        "quorlock run x --max-hold 2s --kill-grace 100ms -- sh -c \"{beats}\"; echo code $?; \
         [ -e beat ] || exit 1; rm beat; sleep 1; [ -e beat ] && echo alive; true"
    );
    let done = unshared(&home, &FOREIGN_PROC, &script).end().exits(0);
    assert!(done.out.contains("code 79") && !done.out.contains("alive"), "{done:?}");
}

/// Goal: containers that share a directory exclude each other, although none can see the other's
/// processes.
#[test]
fn containers_exclude_each_other_and_a_dead_one_frees_its_lock_by_the_ttl() {
    if !allows("unshare", &[&OWN_PROC[..], &["true"]].concat()) {
        return;
    }
    let home = Home::new();
    let holds = ["run", "x", "--ttl", "3s", "--kill-grace", "1s", "--wait", "60s"];
    let command = ["--", "sh", "-c", "echo held; exec sleep 600"];
    let mut outside = home.start(&[&holds[..], &command].concat());
    outside.answers("held\n");
    let inside = unshared(&home, &OWN_PROC, "quorlock run x --no-wait -- true; echo code $?").end();
    assert!(inside.out.contains("code 75"), "{inside:?}");
    drop(outside);
    let script = &format!("exec quorlock {} -- sh -c 'echo held; exec sleep 600'", holds.join(" "));
    let mut inside = unshared(&home, &OWN_PROC, script);
    inside.answers("held\n");
    contend(&home).exits(75);
    drop(inside);
    until_blocking("the ttl is over", SOON, || contend(&home).code == Some(0));
}

/// Goal: a container manager that shows a boot id of its own (systemd-nspawn, LXC) makes no lock
/// look like one of an earlier boot.
#[test]
fn a_boot_id_of_a_container_makes_no_second_holder() {
    if !allows("unshare", &["--mount", "true"]) {
        return;
    }
    let home = Home::new();
    let mut holder = home.start(&["run", "x", "--", "sh", "-c", "echo held; exec sleep 600"]);
    holder.answers("held\n");
    fs::write(home.file("boot"), "0c5c2e4b-6f3a-4e0e-9a53-2d1a0f1c9b11\n").unwrap();
    let script = "mount --bind boot /proc/sys/kernel/random/boot_id || exit 1; \
        cmp -s boot /proc/sys/kernel/random/boot_id || exit 1; \
        quorlock run x --no-wait -- touch second; echo code $?";
    let done = unshared(&home, &["--mount"], script).end().exits(0);
    assert!(done.out.contains("code 75") && !home.file("second").exists(), "{done:?}");
}
