//! Secrets and tokens: shown to those whose they are, changed while it runs, written nowhere.

use crate::client::{LIMIT, Sidecar};
use crate::harness::{Home, Running};
use quorlock_testkit::{Servers, until_blocking};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn tokens(home: &Home, text: &str, mode: u32) {
    let path = home.file("tokens");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn neither_tokens_nor_secrets_are_written_anywhere() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    tokens(&home, "write:the-secret-of-this-test\n", 0o600);
    let mut command =
        home.command(&["serve", "--listen", "127.0.0.1:0", "--token-file", "tokens", "--verbose"]);
    let running = Running::new(command.env("QUORLOCK_LOG", "trace").env("RUST_BACKTRACE", "full"));
    let sidecar =
        Sidecar::of(running).reached_by(&["--header", "authorization: Bearer the-secret-of-this-test"]);
    let token = sidecar.take("job", "{\"ttl_ms\": 2000}");
    assert_eq!(sidecar.post("/v1/locks/job/acquire", "{}").0, 409);
    assert_eq!(sidecar.extend("job", &token), 200);
    let (_, events) = sidecar.ask(&["--max-time", "1"], "/v1/events?after=0&all=true");
    assert!(events.contains("acquired") && !events.contains(&token), "{events}");
    assert_eq!(sidecar.release("job", &token), 200);
    let (_, problem) = sidecar.ask(
        &["--header", "content-type: application/json", "--data", &format!("{{\"token\": \"{token}\"}}")],
        "/v1/locks/job/extend",
    );
    assert!(problem.contains("lost") && !problem.contains(&token), "{problem}");
    let said = sidecar.stop();
    let words = format!("{}{}", said.out, said.err);
    assert!(words.contains("acquired lock=job"), "{words}");
    assert!(!words.contains(&token) && !words.contains("the-secret-of-this-test"), "{words}");
}

#[test]
fn secrets_are_read_again_on_hangup() {
    let home = Home::new();
    tokens(&home, "read:the-first-of-two-secrets\n", 0o600);
    let mut sidecar = Sidecar::start(&home, &["--token-file", "tokens"]);
    let status = |sidecar: &Sidecar, secret: &str| {
        sidecar.ask(&["--header", &format!("authorization: Bearer {secret}")], "/v1/locks").0
    };
    assert_eq!(sidecar.get("/v1/locks").0, 401);
    assert_eq!(status(&sidecar, "the-first-of-two-secrets"), 200);
    tokens(&home, "read:the-other-of-two-secrets\n", 0o600);
    sidecar.running.signal(Signal::HUP);
    until_blocking("it is read", LIMIT, || status(&sidecar, "the-other-of-two-secrets") == 200);
    assert_eq!(status(&sidecar, "the-first-of-two-secrets"), 401);
    tokens(&home, "read:short\n", 0o600);
    sidecar.running.signal(Signal::HUP);
    sidecar.running.says("the former secrets stay valid");
    assert_eq!(status(&sidecar, "the-other-of-two-secrets"), 200);
}

#[test]
fn a_file_of_secrets_that_others_can_read_is_warned_of() {
    let home = Home::new();
    tokens(&home, "read:the-first-of-two-secrets\n", 0o644);
    let mut sidecar = Sidecar::start(&home, &["--token-file", "tokens"]);
    let warning = sidecar.running.says("\n");
    assert!(warning.contains("can be read by others") && warning.contains("chmod 600"), "{warning}");
}
