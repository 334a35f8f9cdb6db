//! How holds, callers and the sidecar itself end.

use crate::client::{LIMIT, Sidecar, is_held};
use crate::harness::{Home, Running};
use quorlock_testkit::{Servers, until_blocking};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::Signal;
use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

#[test]
fn a_holder_that_is_killed_frees_its_lock_at_once() {
    let servers = Servers::start(5);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    let mut holding = sidecar.hold("job");
    assert!(is_held(&home, "job"));
    let start = Instant::now();
    holding.signal(Signal::KILL);
    until_blocking("it is free", LIMIT, || !is_held(&home, "job"));
    assert!(start.elapsed() < Duration::from_secs(20), "well before its ttl of 30 s: {:?}", start.elapsed());
}

/// Goal: what lies in the directory of the file node keeps one caller from an answer, not all
/// others, and not the end.
#[test]
fn a_pipe_among_the_state_files_stops_no_other_lock_and_no_shutdown() {
    let home = Home::new();
    mkfifoat(CWD, home.state_file("pipe"), Mode::RUSR | Mode::WUSR).unwrap();
    let mut sidecar = Sidecar::start(&home, &[]);
    assert_eq!(sidecar.get("/v1/locks/pipe").0, 503);
    assert_eq!(sidecar.get("/v1/locks").0, 200);
    let token = sidecar.take("job", "{\"ttl_ms\": 30000}");
    assert_eq!(sidecar.release("job", &token), 200);
    sidecar.running.signal(Signal::TERM);
    sidecar.running.end().exits(0);
}

#[test]
fn a_sidecar_that_is_killed_frees_its_holds_within_the_ttl() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let mut sidecar = Sidecar::start(&home, &[]);
    let path = "/v1/locks/job/hold?ttl_ms=2000";
    let mut holding = Running::new(&mut sidecar.curl(&["--no-buffer"], path));
    holding.answers("event: held\n");
    sidecar.running.signal(Signal::KILL);
    until_blocking("it is free", LIMIT, || !is_held(&home, "job"));
    assert_ne!(holding.end().code, Some(0), "the holder notices");
}

#[test]
fn a_caller_that_is_killed_while_it_waits_leaves_no_lock() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    let token = sidecar.take("job", "{\"ttl_ms\": 30000}");
    let json = ["--header", "content-type: application/json", "--data", "{\"wait_ms\": 60000}"];
    let mut waiting = Running::new(&mut sidecar.curl(&json, "/v1/locks/job/acquire"));
    until_blocking("it waits", LIMIT, || sidecar.get("/v1/locks/job").1["waiters"] == 1);
    waiting.signal(Signal::KILL);
    until_blocking("it left", LIMIT, || sidecar.get("/v1/locks/job").1["waiters"] == 0);
    assert_eq!(sidecar.release("job", &token), 200);
    assert!(!is_held(&home, "job"));
}

#[test]
fn a_shutdown_notifies_every_caller_and_exits_0() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    let token = sidecar.take("leased", "{\"ttl_ms\": 30000}");
    let holding = sidecar.hold("held");
    let json = ["--header", "content-type: application/json", "--data", "{\"wait_ms\": 60000}"];
    let waiting = Running::new(&mut sidecar.curl(&json, "/v1/locks/leased/acquire"));
    let mut events = Running::new(&mut sidecar.curl(&["--no-buffer"], "/v1/events"));
    events.answers("\n\n");
    until_blocking("it waits", LIMIT, || sidecar.get("/v1/locks/leased").1["waiters"] == 1);
    let ended = sidecar.stop();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(holding.end().out.contains("event: shutdown"));
    assert!(waiting.end().out.contains("shutting_down"));
    assert_eq!(events.end().code, Some(0));
    assert!(!is_held(&home, "held"));
    assert!(is_held(&home, "leased"));
    home.run(&["release", "leased", "--token", &token]).exits(0);
}

/// Connects and sends half a request, which keeps a shutdown waiting.
fn half_a_request(sidecar: &Sidecar) -> TcpStream {
    let mut stream = TcpStream::connect(sidecar.url.strip_prefix("http://").unwrap()).unwrap();
    let head = "POST /v1/locks/x/acquire HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    stream.write_all(head.as_bytes()).unwrap();
    until_blocking("it is seen", LIMIT, || sidecar.get("/v1/overview").1["connections"] == 2);
    stream
}

#[test]
fn a_shutdown_does_not_wait_for_ever() {
    let home = Home::new();
    let sidecar = Sidecar::start(&home, &["--drain", "300ms"]);
    let _slow = half_a_request(&sidecar);
    assert_eq!(sidecar.stop().code, Some(0));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let home = Home::new();
    let mut sidecar = Sidecar::start(&home, &["--drain", "1h"]);
    sidecar.take("leased", "{\"ttl_ms\": 30000}");
    let _slow = half_a_request(&sidecar);
    sidecar.running.signal(Signal::INT);
    sidecar.running.says("send the signal again to end at once");
    sidecar.running.signal(Signal::TERM);
    let start = Instant::now();
    assert_eq!(sidecar.running.end().code, Some(0));
    // The slow body would have been cut off after 10 s; nothing else ends it.
    assert!(start.elapsed() < Duration::from_secs(9), "{:?}", start.elapsed());
    assert!(is_held(&home, "leased"), "leases stay all the same");
}
