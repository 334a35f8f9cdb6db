//! What the sidecar writes to its log.

use crate::client::{LIMIT, Sidecar};
use crate::harness::{Home, Running};
use quorlock_testkit::{Servers, until_blocking};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const ANN: &[&str] = &["--header", "authorization: Bearer the-secret-of-this-test"];

fn tokens(home: &Home) {
    let path = home.file("tokens");
    fs::write(&path, "write:ann:the-secret-of-this-test\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
}

/// The line of the log with this message.
fn line(running: &mut Running, message: &str) -> String {
    let begun = running.says(message);
    let line = begun.lines().last().unwrap().to_owned();
    line + &running.says("\n")
}

#[test]
fn a_node_that_dies_is_logged_as_text_and_as_json() {
    let mut servers = Servers::start(3);
    let home = Home::on(&servers);
    let mut text = home.start(&["serve", "--listen", "127.0.0.1:0"]);
    let mut json = home.start(&["serve", "--listen", "127.0.0.1:0", "--json"]);
    text.says("node up");
    json.says("node up");
    let dead = servers[0].port().to_string();
    servers[0].kill();
    let line = line(&mut text, "node down");
    assert!(line.contains("WARN") && line.contains(&dead), "{line}");
    let mut lines = self::line(&mut json, "node down");
    json.signal(Signal::TERM);
    lines += &json.end().exits(0).err;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let down = &lines[0];
    assert_eq!(down["level"], "WARN", "{down}");
    assert!(down["node"].as_str().unwrap().contains(&dead), "{down}");
    assert!(down["timestamp"].is_string() && down["cause"].is_string(), "{down}");
}

#[test]
fn a_forced_release_is_logged_with_its_caller() {
    let home = Home::new();
    tokens(&home);
    let json = home.start(&["serve", "--listen", "127.0.0.1:0", "--token-file", "tokens"]);
    let mut sidecar = Sidecar::of(json).reached_by(ANN);
    let token = sidecar.take("job", "{}");
    let body = format!("{{\"token\": \"{token}\"}}");
    assert_eq!(sidecar.post("/v1/locks/job/force-release", &body).0, 200);
    let line = line(&mut sidecar.running, "force released");
    for word in
        ["WARN", "peer=127.0.0.1:", "scope=\"write\"", "secret=\"ann\"", "lock=job", "outcome=\"released\""]
    {
        assert!(line.contains(word), "{word} is not in {line}");
    }
    let said = line + &sidecar.stop().err;
    assert!(!said.contains(&token) && !said.contains("the-secret-of"), "{said}");
}

#[test]
fn wrong_secrets_are_logged_with_a_bound() {
    let home = Home::new();
    tokens(&home);
    let sidecar = Sidecar::start(&home, &["--token-file", "tokens"]);
    for _ in 0..40 {
        let wrong = ["--header", "authorization: Bearer guess-guess-guess"];
        assert_eq!(sidecar.ask(&wrong, "/v1/locks").0, 401);
    }
    let said = sidecar.stop().err;
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("wrong secret")).collect();
    assert!((10..20).contains(&lines.len()), "{said}");
    assert!(
        lines.iter().all(|line| line.contains("peer=127.0.0.1:") && line.contains("suppressed=")),
        "{said}"
    );
    assert!(!said.contains("guess"), "{said}");
}

#[test]
fn secrets_in_the_clear_are_warned_of() {
    let home = Home::new();
    tokens(&home);
    let mut open = home.start(&["serve", "--listen", "0.0.0.0:0", "--token-file", "tokens"]);
    let said = line(&mut open, "without TLS");
    assert!(said.contains("WARN") && said.contains("0.0.0.0:"), "{said}");
    let local = Sidecar::start(&home, &["--token-file", "tokens"]);
    assert!(!local.stop().err.contains("without TLS"));
}

#[test]
fn other_commands_log_if_they_are_asked_to() {
    let home = Home::new();
    let force = |filter: &str| {
        let token = home.run(&["acquire", "job", "-n", "--ttl", "20s"]).text();
        let mut command = home.command(&["force-release", "job", "--token", &token, "--yes"]);
        Running::new(command.env("QUORLOCK_LOG", filter)).end()
    };
    let silent = force("").exits(0);
    assert!(!silent.err.contains("force released"), "{silent:?}");
    let logged = force("warn").exits(0);
    assert!(logged.err.contains("force released lock=job outcome=\"released\""), "{logged:?}");
    let mut command = home.command(&["status", "job"]);
    let refused = Running::new(command.env("QUORLOCK_LOG", "quorlock=nonsense")).end().exits(2);
    refused.complains(&["QUORLOCK_LOG", "quorlock=debug"]);
}

#[test]
fn a_filter_replaces_the_usual_level() {
    let home = Home::new();
    let mut command = home.command(&["serve", "--listen", "127.0.0.1:0"]);
    let mut sidecar = Sidecar::of(Running::new(command.env("QUORLOCK_LOG", "quorlock=debug")));
    sidecar.take("job", "{}");
    until_blocking("it is logged", LIMIT, || sidecar.running.says("acquired").contains("lock=job"));
}
