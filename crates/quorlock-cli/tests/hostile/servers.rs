//! Servers whose errors and whose facts about themselves are hostile text.

use crate::harness::Home;
use crate::session::{Session, Shown};
use crate::{HOSTILE, Leaks, fake_server, hostile_in};
use rustix::process::Signal;

const TOKEN: &str = "00112233445566778899aabbccddeeff";

/// Every command that asks nodes.
const COMMANDS: [&[&str]; 17] = [
    &["run", "job", "--", "true"],
    &["run", "job", "--json", "--", "true"],
    &["acquire", "job"],
    &["acquire", "job", "--json"],
    &["extend", "job", "--token", TOKEN],
    &["release", "job", "--token", TOKEN],
    &["status"],
    &["status", "--json"],
    &["status", "job"],
    &["status", "job", "--json"],
    &["force-release", "job", "--token", TOKEN, "--yes"],
    &["doctor"],
    &["doctor", "--json"],
    &["init", "--yes"],
    &["init", "--yes", "--json"],
    &["init", "--raise"],
    &["bench", "--seconds", "1", "--clients", "1"],
];

/// A home whose commands use `node` and do not wait for long.
fn home_on(node: &str) -> Home {
    let home = Home::with_nodes(&[node.to_owned()]);
    let config = home.path().join("config/quorlock");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), "wait = \"200ms\"\n").unwrap();
    home
}

/// What every command shows on `node`.
fn every_command(node: &str) -> Vec<Shown> {
    let home = home_on(node);
    let mut shown: Vec<Shown> = COMMANDS.iter().map(|args| Session::run(&home, args)).collect();
    shown.extend(
        [&["watch"][..], &["watch", "job"], &["watch", "--json"]].map(|args| until_forged(&home, args)),
    );
    shown
}

/// What a command that goes on shows until hostile text was printed.
fn until_forged(home: &Home, args: &[&str]) -> Shown {
    let mut session = Session::start(home, args);
    session.until(&["FORGED", "end"]);
    session.signal(Signal::INT);
    session.end()
}

/// The log of the sidecar.
fn log(node: &str) -> Shown {
    let home = home_on(node);
    until_forged(&home, &["serve", "--listen", "127.0.0.1:0", "--verbose"])
}

#[test]
fn errors_of_redis_servers_cannot_forge_output() {
    let mut leaks = Leaks::default();
    for code in ["ERR", "NOAUTH", "NOPERM", "OOM", "MISCONF"] {
        let node = fake_server::refusing(code);
        for shown in every_command(&node).iter().chain([&log(&node)]) {
            leaks.record(shown, "FORGED");
        }
    }
    leaks.assert_none();
}

#[test]
fn what_redis_servers_report_of_themselves_cannot_forge_output() {
    let mut leaks = Leaks::default();
    for policy in ["HOSTILE", "noeviction"] {
        let node = fake_server::describing(policy);
        for shown in every_command(&node).iter().chain(&every_command(&format!("{node}?durable=yes"))) {
            leaks.record(shown, "");
        }
        let home = home_on(&node);
        leaks.record(&Session::run(&home, &["doctor"]), "redis 7.4.x");
    }
    leaks.assert_none();
}

#[test]
fn errors_of_etcd_members_cannot_forge_output() {
    let mut leaks = Leaks::default();
    // Permission denied, unauthenticated, internal.
    for code in [7, 16, 13] {
        for shown in every_command(&fake_server::refusing_etcd(code)) {
            // A cluster keeps no record of ttls.
            leaks.record(&shown, if shown.command.contains("--raise") { "" } else { "FORGED" });
        }
    }
    leaks.assert_none();
}

#[test]
fn what_etcd_members_report_of_themselves_cannot_forge_output() {
    let mut leaks = Leaks::default();
    for shown in every_command(&fake_server::describing_etcd(true)) {
        leaks.record(&shown, "");
    }
    // What cannot be read is not shown at all, so no command waits for it.
    let home = home_on(&fake_server::describing_etcd(false));
    for args in COMMANDS {
        leaks.record(&Session::run(&home, args), "");
    }
    let home = home_on(&fake_server::describing_etcd(true));
    leaks.record(&Session::run(&home, &["doctor"]), "FORGED");
    leaks.assert_none();
}

#[test]
fn names_that_cannot_be_locks_are_refused_without_showing_them() {
    let home = Home::new();
    for name in ["a\u{1b}[2J", "a\u{202e}b", "a\u{2028}FORGED", "quorlock:\u{202e}", "\u{e0041}"] {
        let shown = Session::run(&home, &["status", name]);
        assert_eq!(hostile_in(&shown.text), None, "{shown:?}");
        assert!(shown.text.contains("lock name cannot contain"), "{shown:?}");
    }
}

/// Goal: a checkout of someone else's files cannot forge output.
#[test]
fn paths_and_configuration_files_cannot_forge_output() {
    let home = Home::new();
    let hostile = HOSTILE.replace(['\0', '\n', '/'], "");
    let path = home.file(&format!("{hostile}.toml"));
    let config = path.to_str().unwrap();
    let mut leaks = Leaks::default();
    std::fs::write(&path, format!("ttl = \"{hostile}\"")).unwrap();
    leaks.record(&Session::run(&home, &["--config", config, "config", "show"]), "cannot be used");
    std::fs::write(&path, format!("nodes = [\"redis://{hostile}\"]")).unwrap_or_default();
    leaks.record(&Session::run(&home, &["--config", config, "config", "show"]), "FORGED");
    leaks.record(&Session::run(&home, &["--config", config, "status"]), "error");
    std::fs::write(&path, "nodes = [\"redis://a\"]").unwrap();
    leaks.record(&Session::run(&home, &["--config", config, "config", "show"]), "FORGED");
    leaks.assert_none();
}
