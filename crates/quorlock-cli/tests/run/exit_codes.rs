//! How it exits, and what the command finds.

use crate::harness::{Home, Running};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

#[test]
fn it_exits_as_the_command_does() {
    let home = Home::new();
    for code in [0, 1, 3, 255] {
        home.run(&["run", "x", "--", "sh", "-c", &format!("exit {code}")]).exits(code);
    }
}

#[test]
fn a_command_that_a_signal_ended_exits_with_128_and_the_signal() {
    let home = Home::new();
    home.run(&["run", "x", "--", "sh", "-c", "kill -TERM $$"]).exits(143);
    home.run(&["run", "x", "--", "sh", "-c", "kill -KILL $$"]).exits(137);
}

#[test]
fn a_command_that_is_missing_or_no_program_exits_as_in_shells_and_leaves_the_lock_free() {
    let home = Home::new();
    let done = home.run(&["run", "x", "--", "no-such-command-here"]).exits(127);
    assert!(done.err.contains("cannot run `no-such-command-here`"), "{done:?}");
    let plain = home.file("plain");
    fs::write(&plain, "text").unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    home.run(&["run", "x", "--", plain.to_str().unwrap()]).exits(126);
    home.run(&["run", "x", "-n", "--", "true"]).exits(0);
}

#[test]
fn the_command_finds_name_token_fence_and_end_in_its_environment() {
    let home = Home::new();
    let print = "echo $QUORLOCK_NAME $QUORLOCK_TOKEN $QUORLOCK_FENCE $QUORLOCK_EXPIRES_AT; date +%s";
    let fields = || {
        let done = home.run(&["run", "orders", "-c", print]).exits(0);
        done.out.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let (first, second) = (fields(), fields());
    assert_eq!((first.len(), first[0].as_str(), first[1].len()), (5, "orders", 32));
    assert_ne!(first[1], second[1]);
    let number = |text: &str| text.parse::<u64>().unwrap();
    assert!(number(&first[2]) < number(&second[2]), "fences grow: {first:?} {second:?}");
    assert!(number(&first[3]) > number(&first[4]), "it ends in the future: {first:?}");
}

#[test]
fn stdin_and_stdout_belong_to_the_command() {
    let home = Home::new();
    let mut run = Running::new(home.command(&["run", "x", "--", "cat"]).stdin(Stdio::piped()));
    run.type_in("one\ntwo\n");
    let done = run.end().exits(0);
    assert_eq!((done.out.as_str(), done.err.as_str()), ("one\ntwo\n", ""));
}

#[test]
fn arguments_reach_the_command_as_they_are() {
    let home = Home::new();
    let done = home.run(&["run", "x", "--", "printf", "%s|", "a b", "--ttl", "-n", "*", ""]).exits(0);
    assert_eq!(done.out, "a b|--ttl|-n|*||");
    let done = home.run(&["run", "x", "echo", "-n", "--wait"]).exits(0);
    assert_eq!(done.out, "--wait", "the first word that is no option is the command");
}

#[test]
fn json_reports_how_it_went_next_to_the_command() {
    let home = Home::new();
    let done = home.run(&["run", "x", "--json", "--", "sh", "-c", "echo out; exit 4"]).exits(4);
    assert_eq!(done.out, "out\n");
    let printed: serde_json::Value = serde_json::from_str(&done.err).unwrap();
    assert_eq!(printed["name"], "x");
    assert_eq!(
        (&printed["exit_code"], &printed["release"], &printed["votes"]),
        (&4.into(), &"released".into(), &1.into())
    );
    assert!(printed["lost"].is_null() && printed["fence"].as_u64().is_some());
}

#[test]
fn nothing_stays_locked_behind_it() {
    let home = Home::new();
    for _ in 0..3 {
        home.run(&["run", "x", "-n", "--", "true"]).exits(0);
    }
}

#[test]
fn scripts_and_manual_pages_are_printed_for_people_and_for_programs() {
    let home = Home::new();
    for (args, key, word) in
        [(&["completions", "bash"][..], "script", "_quorlock()"), (&["man"], "page", ".TH quorlock")]
    {
        assert!(home.run(args).exits(0).out.contains(word));
        let printed = home.run(&[args, &["--json"]].concat()).exits(0).json();
        assert!(printed[key].as_str().is_some_and(|text| text.contains(word)), "{printed}");
    }
    home.run(&["man", "--dir", "pages"]).exits(0);
    assert!(home.file("pages/quorlock-run.1").exists());
}
