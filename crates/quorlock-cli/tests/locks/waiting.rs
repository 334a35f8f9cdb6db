//! Waiting for a lock: it ends with the lock, with the time, or with a signal; and leaves nothing
//! behind.

use crate::harness::{Home, Running};
use quorlock_testkit::{Servers, until_blocking};
use rustix::process::Signal;
use std::time::{Duration, Instant};

#[test]
fn busy_says_who_has_the_lock_and_for_how_long() {
    let home = Home::new();
    home.run(&["acquire", "job", "--reason", "spring cleaning"]).exits(0);
    let busy = home.run(&["acquire", "job", "-n"]).exits(75);
    busy.complains(&["held by", "pid", "for another", "spring cleaning", "quorlock status job"]);
    let error = home.run(&["acquire", "job", "-n", "--json"]).exits(75).json();
    assert_eq!(error["error"]["kind"], "held");
    assert_eq!(error["error"]["holder"]["reason"], "spring cleaning");
}

#[test]
fn a_wait_ends_after_its_time() {
    let home = Home::new();
    home.run(&["acquire", "job"]).exits(0);
    let start = Instant::now();
    home.run(&["acquire", "job", "--wait", "300ms"]).exits(75);
    assert!(start.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_wait_ends_when_the_lock_is_released() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let token = home.run(&["acquire", "job"]).text();
    let mut waiting = home.start(&["acquire", "job", "--wait", "25s", "-v"]);
    waiting.says("waiting for lock `job`, held by");
    home.run(&["release", "job", "--token", &token]).exits(0);
    waiting.end().exits(0);
}

#[test]
fn a_signal_ends_the_wait_at_once() {
    let home = Home::new();
    home.run(&["acquire", "job"]).exits(0);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut waiting = home.start(&["acquire", "job", "--wait", "25s", "-v"]);
        waiting.says("waiting");
        let start = Instant::now();
        waiting.signal(signal);
        let ended = waiting.end().exits(code);
        assert!(ended.err.contains("stopped waiting for lock `job`"), "{ended:?}");
        assert_eq!(ended.out, "", "no token");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }
}

#[test]
fn who_was_interrupted_does_not_get_the_lock_later() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let token = home.run(&["acquire", "job"]).text();
    let mut waiting = home.start(&["acquire", "job", "--wait", "25s", "-v"]);
    waiting.says("waiting");
    waiting.signal(Signal::INT);
    waiting.end().exits(130);
    home.run(&["release", "job", "--token", &token]).exits(0);
    assert!(servers.iter().all(|server| server.cli(&["EXISTS", "job"]) == "0"));
}

/// Goal: a signal in the middle of an attempt undoes what one node granted while the others hang.
#[test]
fn an_interrupted_attempt_is_undone() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let token = home.run(&["acquire", "job"]).text();
    let mut waiting = home.start(&["acquire", "job", "--wait", "25s", "-v"]);
    waiting.says("waiting");
    let (first, others) = servers.split_first().unwrap();
    others.iter().for_each(|server| server.pause());
    first.cli(&["DEL", "job"]);
    first.cli(&["PUBLISH", "quorlock:free:{job}", ""]);
    until_blocking("the first node has it", Duration::from_secs(20), || first.cli(&["EXISTS", "job"]) == "1");
    waiting.signal(Signal::INT);
    waiting.end().exits(130);
    assert_eq!(first.cli(&["EXISTS", "job"]), "0");
    others.iter().for_each(|server| server.resume());
    assert!(others.iter().all(|server| server.cli(&["GET", "job"]).starts_with(&token)));
}

/// Goal: a token that could not be written is released.
#[test]
fn a_token_that_cannot_be_written_is_given_back() {
    let home = Home::new();
    let mut command = home.command(&["acquire", "job"]);
    let full = std::fs::File::options().write(true).open("/dev/full");
    let Ok(full) = full else { return };
    let ended = Running::new(command.stdout(full)).end().exits(126);
    assert!(ended.err.contains("could not be written"), "{ended:?}");
    assert_eq!(home.run(&["status", "job", "--json"]).json()["held"], false);
}
