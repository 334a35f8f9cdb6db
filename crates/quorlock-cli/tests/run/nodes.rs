//! No nodes are configured: the user is warned, or the command fails where nodes are required.

use crate::harness::{Home, Running, program};
use quorlock_testkit::Servers;
use std::fs;

const NOTICE: &str = "no nodes are configured";

/// Goal: a job that is meant for several machines does not lock on one machine without a word.
#[test]
fn a_lock_of_this_machine_that_seems_meant_for_several_is_noticed() {
    let home = Home::new();
    for flags in [&["--skip"][..], &["--at-least", "1ms"], &["--wait", "1s"]] {
        let args =
            |more: &[&'static str]| -> Vec<&str> { [&["run", "x"], flags, more, &["--", "true"]].concat() };
        let done = home.run(&args(&[])).exits(0);
        done.complains(&[NOTICE, "QUORLOCK_NODES"]);
        assert_eq!(done.err.lines().count(), 1, "{done:?}");
        let object = home.run(&args(&["--json"])).exits(0).json_aside();
        assert!(object["notice"].as_str().is_some_and(|text| text.contains(NOTICE)), "{object}");
        assert_eq!(home.run(&args(&["--quiet"])).exits(0).err, "");
        assert_eq!(home.run(&args(&["--nodes", "file:"])).exits(0).err, "");
    }
    assert_eq!(home.run(&["run", "x", "--", "true"]).exits(0).err, "");
    let held = home.run(&["acquire", "y", "--wait", "1s"]).exits(0);
    assert!(held.err.contains(NOTICE), "{held:?}");
    let busy = home.run(&["acquire", "y", "--wait", "1ms", "--json"]).exits(75).json();
    assert!(busy["error"]["notice"].as_str().is_some_and(|text| text.contains(NOTICE)), "{busy}");
    let skipped = home.run(&["run", "y", "--skip", "--json", "--", "true"]).exits(0).json_aside();
    assert!(skipped["notice"].is_string() && skipped["skipped"] == true, "{skipped}");
}

/// Goal: where nodes are required no command falls back to this machine, and the error says what
/// requires them.
#[test]
fn required_nodes_that_are_missing_are_an_error() {
    let home = Home::new();
    let config = home.path().join("config/quorlock");
    fs::create_dir_all(&config).unwrap();
    home.run(&["run", "x", "--require-nodes", "--", "touch", "ran"])
        .exits(2)
        .complains(&["no nodes are configured", "--require-nodes"]);
    fs::write(config.join("config.toml"), "require_nodes = true\n").unwrap();
    for args in
        [&["run", "x", "--skip", "--", "touch", "ran"][..], &["acquire", "x"], &["status"], &["doctor"]]
    {
        home.run(args).exits(2).complains(&["no nodes are configured", "config.toml requires them"]);
    }
    assert!(!home.file("ran").exists());
    let shown = home.run(&["config", "show"]).text();
    assert!(shown.contains("require_nodes"), "{shown}");
    home.run(&["run", "x", "--nodes", "file:", "--", "true"]).exits(0);
}

/// Goal: a longest ttl below the default ttl works: commands that use no ttl do not compare it, and
/// others lower the one that the user did not choose.
#[test]
fn a_longest_ttl_below_the_default_ttl_can_be_used() {
    let servers = Servers::start(1);
    let home = Home::on(&servers);
    let token = "0123456789abcdef0123456789abcdef";
    let longest = ["--longest-ttl", "10s"];
    for (args, code) in [
        (&["init", "--yes"][..], 0),
        (&["status"], 0),
        (&["status", "x"], 0),
        (&["doctor"], 0),
        (&["release", "x", "--token", token], 79),
        (&["force-release", "x", "--yes", "--token", token], 79),
        (&["run", "x", "-c", "true"], 0),
        (&["config", "show"], 0),
    ] {
        let done = home.run(&[args, &longest].concat());
        assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
    }
    let mut watch = home.start(&["watch", "x", "--longest-ttl", "10s"]);
    assert!(watch.answers("\n").contains("is free"));
    let held = home.run(&["acquire", "x", "--longest-ttl", "10s", "--json"]).exits(0).json();
    assert!((5_000..=10_000).contains(&held["remaining_ms"].as_u64().unwrap()), "{held}");
    // A ttl that the user chose is compared where it is used, and only there.
    let config = home.path().join("config/quorlock/config.toml");
    fs::write(config, "ttl = \"20s\"\nnode_timeout = \"150ms\"\n").unwrap();
    home.run(&["run", "y", "--longest-ttl", "10s", "--", "true"]).exits(2);
    home.run(&["status", "--longest-ttl", "10s"]).exits(0);
}

fn under_nodes(home: &Home, nodes: &str, script: &str) -> Running {
    let args = ["run", "x", "--nodes", "file:", "--", "sh", "-c", script];
    Running::new(home.command(&args).env("QUORLOCK_NODES", nodes))
}

/// Goal: a command has no use for the passwords of the nodes, and its children and crash reports
/// would show them.
#[test]
fn a_command_does_not_see_the_passwords_of_the_nodes() {
    let home = Home::new();
    for nodes in [
        "redis://a,redis://:hunter2@b",
        "redis://user:hunter2@a",
        "unix:///s?user=u&password=hunter2",
        "etcd://root:hunter2@a,b",
        "redis://:hunter2@b:port",
    ] {
        let seen = under_nodes(&home, nodes, "env").end().exits(0);
        assert!(
            !seen.out.contains("hunter2") && !seen.out.contains("\nQUORLOCK_NODES="),
            "{nodes}: {seen:?}"
        );
    }
    let kept = "redis://user@a,redis://b/3?durable=yes";
    let seen = under_nodes(&home, kept, "echo $QUORLOCK_NODES").end();
    assert_eq!(seen.text(), kept);
}

/// Goal: a `quorlock` of the command that misses the nodes does not fall back to a lock of this
/// machine alone.
#[test]
fn a_quorlock_under_a_quorlock_that_kept_the_nodes_for_itself_fails() {
    let home = Home::new();
    let (quorlock, secret) = (program().display(), "redis://:hunter2@a");
    let inner = format!("unset QUORLOCK_STATE_DIR; {quorlock} run y -- touch ran");
    let refused = under_nodes(&home, secret, &inner).end().exits(2);
    refused.complains(&["QUORLOCK_NODES", "password", "configuration file"]);
    assert!(!home.file("ran").exists());
    under_nodes(&home, secret, &format!("{quorlock} run y --nodes file: -- touch ran")).end().exits(0);
    assert!(home.file("ran").exists());
    under_nodes(&home, "redis://a", &format!("unset QUORLOCK_NODES; {quorlock} run y -- true"))
        .end()
        .exits(0);
}

/// Goal: people read a time, not all digits that a clock has.
#[test]
fn durations_in_messages_are_rounded() {
    let servers = Servers::start(3);
    let home = Home::with_nodes(&servers.urls());
    let done = home.run(&["run", "x", "--no-wait", "--", "true"]).exits(69);
    let span = done.err.split("quarantined for another ").nth(1).unwrap().split([',', ' ']).next().unwrap();
    let digits = span.chars().filter(char::is_ascii_digit).count();
    assert!((1..=3).contains(&digits) && span.ends_with('s'), "{span}: {done:?}");
}
