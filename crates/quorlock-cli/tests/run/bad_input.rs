//! Mistakes: one clear error with cause and help on stderr, the right exit code, nothing left
//! behind.

use crate::harness::{Home, Running};
use quorlock_testkit::Port;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

#[test]
fn what_cannot_be_used_is_refused_with_2_and_a_word_why() {
    let home = Home::new();
    for (args, word) in [
        (&["run", "x"][..], "no command was given"),
        (&["run"], "NAME"),
        (&["run", "--", "true"], "no lock name was given"),
        (&["run", "--wait", "1s", "--", "echo", "hi"], "no lock name was given"),
        (&["run", "a\u{7}b", "--", "true"], "control character"),
        (&["run", "", "--", "true"], "name"),
        (&["run", "quorlock:fence:x", "--", "true"], "reserved"),
        (&["run", "x", "--ttl", "30", "--", "true"], "has no unit"),
        (&["run", "x", "--wait", "soon", "--", "true"], "is no duration"),
        (&["run", "x", "--ttl", "1h", "--", "true"], "30s"),
        (&["run", "x", "--ttl", "1ms", "--", "true"], "ttl"),
        (&["run", "x", "--kill-grace", "20s", "--", "true"], "does not fit into a ttl of 30s"),
        (&["run", "x", "--ttl", "500000000000y", "--kill-grace", "1s", "--", "true"], "longest ttl"),
        (&["run", "x", "--max-hold", "0s", "--", "true"], "maximal hold"),
        (&["run", "x", "--no-such-flag", "--", "true"], "--no-such-flag"),
        (&["run", "x", "-c", "true", "--", "true"], "cannot be used with"),
        (&["run", "x", "--skip", "-E", "3", "--", "true"], "cannot be used with"),
        (&["run", "x", "--nodes", "http://a", "--", "true"], "no kind of node"),
        (&["run", "x", "--nodes", "127.0.0.1:6379", "--", "true"], "did you mean `redis://127.0.0.1:6379`?"),
        (&["run", "x", "--nodes", "redis-1", "--", "true"], "did you mean `redis://redis-1`?"),
        (&["run", "x", "--nodes", "redis://a,file:", "--", "true"], "different kinds"),
        (&["run", "x", "--nodes", "redis://a,redis://a", "--", "true"], "named twice"),
        (&["run", "x", "--config", "nowhere.toml", "--", "true"], "does not exist"),
        (&["fly"], "unrecognized subcommand"),
    ] {
        let done = home.run(args).exits(2);
        assert!(done.err.contains(word), "{args:?}: {}", done.err);
        assert_eq!(done.out, "", "{args:?}");
    }
}

#[test]
fn a_node_that_no_other_process_sees_is_refused() {
    let home = Home::with_nodes(&["memory:".to_owned()]);
    for args in [&["run", "x", "--", "touch", "ran"][..], &["acquire", "x"]] {
        home.run(args).exits(2).complains(&["would exclude no other client", "`file:`"]);
    }
    assert!(!home.file("ran").exists());
}

#[test]
fn a_mistake_is_reported_as_json_if_asked_for() {
    let home = Home::new();
    for args in [&["--json", "run", "x", "--ttl", "30", "--", "true"][..], &["--json", "config"]] {
        let error = &home.run(args).exits(2).json()["error"];
        assert_eq!(error["exit_code"], 2, "{error}");
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    }
    assert_eq!(home.run(&["run", "x", "--json"]).exits(2).json_aside()["error"]["kind"], "usage");
    // Arguments after the command are not ours.
    let done = home.run(&["run", "x", "--ttl", "30", "--", "echo", "--json"]).exits(2);
    assert_eq!(done.out, "");
}

/// Goal: a name that begins with a dash can only be given after `--`.
#[test]
fn a_lock_name_after_the_dashes_may_begin_with_a_dash() {
    let home = Home::new();
    assert_eq!(home.run(&["run", "--", "-x", "echo", "mine"]).text(), "mine");
    let refused = home.run(&["run", "--json", "--", "echo", "hi"]).exits(2).json_aside();
    assert_eq!(refused["error"]["message"], "no lock name was given");
    assert!(refused["error"]["help"].as_str().unwrap().contains("quorlock run NAME -- echo hi"), "{refused}");
}

/// Goal: others cannot read the password of a node, and the user learns if they can.
#[test]
fn a_configuration_file_with_a_password_that_others_may_read_gets_a_warning() {
    let home = Home::new();
    let file = home.file("quorlock.toml");
    let show = |text: &str, mode: u32| {
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        home.run(&["config", "show", "--quiet"]).exits(0).err
    };
    let secret = "nodes = [\"redis://a\", \"redis://:hunter2@b\"]\n";
    for mode in [0o644, 0o640, 0o604] {
        let said = show(secret, mode);
        assert!(said.contains("chmod 600") && said.contains("quorlock.toml"), "{mode:o}: {said}");
        assert!(said.lines().count() == 1 && !said.contains("hunter2"), "{mode:o}: {said}");
    }
    assert_eq!(show(secret, 0o600), "");
    assert_eq!(show("nodes = [\"redis://user@a\"]\n", 0o644), "");
}

#[test]
fn a_bad_configuration_file_is_named_with_line_and_key() {
    let home = Home::new();
    fs::write(home.file("quorlock.toml"), "ttl = \"20s\"\nlifetime = 3\n").unwrap();
    let done = home.run(&["run", "x", "--", "true"]).exits(2);
    for word in ["quorlock.toml", "line 2", "lifetime"] {
        assert!(done.err.contains(word), "{word}: {}", done.err);
    }
}

/// Goal: a configuration file that never ends blocks nothing, and no error quotes a password.
#[test]
fn a_configuration_that_is_a_pipe_or_holds_a_password_is_refused_with_care() {
    let home = Home::new();
    let pipe = home.file("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    for path in [pipe.to_str().unwrap(), "/dev/zero"] {
        let done = home.run(&["--config", path, "config", "show"]).exits(2);
        done.complains(&[path, "no regular file"]);
    }
    fs::write(home.file("quorlock.toml"), "nodes = [\"redis://:hunter2@a\", 3]\n").unwrap();
    let done = home.run(&["run", "x", "--", "true"]).exits(2);
    done.complains(&["line 1", "nodes = "]);
    assert!(!done.err.contains("hunter2"), "{done:?}");
}

/// Goal: nodes that were meant but cannot be read are never replaced by a lock within this machine.
#[test]
fn a_list_of_nodes_that_is_none_is_refused() {
    let home = Home::new();
    for (nodes, word) in [(OsStr::from_bytes(b"redis://\xff"), "UTF-8"), (OsStr::new(" , "), "names no node")]
    {
        let run = Running::new(home.command(&["run", "x", "--", "true"]).env("QUORLOCK_NODES", nodes));
        run.end().exits(2).complains(&["QUORLOCK_NODES", word]);
    }
    let run = Running::new(home.command(&["run", "x", "--", "true"]).env("QUORLOCK_NODES", ""));
    run.end().exits(0);
}

#[test]
fn settings_come_from_flag_environment_project_and_user_in_this_order() {
    let home = Home::new();
    fs::create_dir_all(home.file("config/quorlock")).unwrap();
    fs::write(
        home.file("config/quorlock/config.toml"),
        "nodes = [\"redis://u\"]\nwait = \"3s\"\nttl = \"9s\"\n",
    )
    .unwrap();
    let shown = |args: &[&str]| home.run(&[args, &["config", "show", "--json"]].concat()).exits(0).json();
    let before = shown(&[]);
    assert_eq!(before["nodes"]["value"], "redis://u:6379");
    fs::write(home.file("quorlock.toml"), "nodes = [\"redis://:secret@p\"]\nttl = \"8s\"\n").unwrap();
    let with_project = shown(&[]);
    assert_eq!(with_project["nodes"]["value"], "redis://p:6379", "and no password is shown");
    assert_eq!((&with_project["ttl"]["value"], &with_project["wait"]["value"]), (&"8s".into(), &"3s".into()));
    assert!(with_project["ttl"]["source"].as_str().unwrap().ends_with("quorlock.toml"));
    let flagged = shown(&["--nodes", "redis://f"]);
    assert_eq!(
        (&flagged["nodes"]["value"], &flagged["nodes"]["source"]),
        (&"redis://f:6379".into(), &"--nodes".into())
    );
    let with_env = home.command(&["config", "show"]).env("QUORLOCK_NODES", "redis://e").output().unwrap();
    assert!(String::from_utf8(with_env.stdout).unwrap().contains("environment QUORLOCK_NODES"));
}

#[test]
fn unreachable_nodes_are_no_quorum_and_each_is_named() {
    let ports = [Port::claim(), Port::claim(), Port::claim()];
    let urls: Vec<String> = ports.iter().map(|port| format!("redis://127.0.0.1:{}", port.number())).collect();
    let home = Home::with_nodes(&urls);
    let done = home.run(&["run", "x", "-n", "--", "true"]).exits(69);
    for url in &urls {
        assert!(done.err.contains(url.trim_start_matches("redis://")), "{done:?}");
    }
    assert!(done.err.contains("quorlock doctor"), "{done:?}");
    let error = &home.run(&["--json", "run", "x", "-n", "--", "true"]).exits(69).json_aside()["error"];
    assert_eq!((&error["kind"], error["nodes"].as_array().unwrap().len()), (&"no_quorum".into(), 3));
}

#[test]
fn a_state_directory_that_cannot_be_used_is_named() {
    let home = Home::new();
    let file = home.file("file");
    fs::write(&file, "").unwrap();
    let url = format!("file:{}/sub", file.display());
    let done = home.run(&["run", "x", "--nodes", &url, "--", "true"]).exits(2);
    assert!(done.err.contains(file.to_str().unwrap()), "{done:?}");
}
