//! What cannot be used is refused with exit code 2, before any node is asked.

use crate::harness::{Home, Running};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn what_is_no_token_is_refused_and_not_repeated() {
    let home = Home::new();
    for verb in ["extend", "release", "force-release"] {
        for secret in ["s3cret", "0123456789ABCDEF0123456789ABCDEF"] {
            let refused = home.run(&[verb, "job", "--token", secret]).exits(2);
            refused.complains(&["32 lower-case hexadecimal digits", "help:"]);
            assert!(!refused.err.contains(secret), "{refused:?}");
        }
    }
}

#[test]
fn a_missing_token_is_named_with_both_places_for_it() {
    let home = Home::new();
    for verb in ["extend", "release"] {
        home.run(&[verb, "job"]).exits(2).complains(&["no token", "--token", "QUORLOCK_TOKEN"]);
        let mut empty = home.command(&[verb, "job"]);
        Running::new(empty.env("QUORLOCK_TOKEN", "")).end().exits(2).complains(&["no token"]);
    }
}

#[test]
fn mistakes_in_usage_exit_with_2() {
    let home = Home::new();
    let table: [&[&str]; 11] = [
        &["acquire"],
        &["acquire", ""],
        &["acquire", "quorlock:x"],
        &["acquire", "job", "--ttl", "30"],
        &["acquire", "job", "--ttl", "1h"],
        &["acquire", "job", "-n", "--wait", "1s"],
        &["acquire", "job", "--nodes", "http://x"],
        &["extend", "job", "--token", TOKEN, "--ttl", "1h"],
        &["status", "--show-token"],
        &["watch", "--interval", "1ms"],
        &["force-release", "job"],
    ];
    for args in table {
        let refused = home.run(args).exits(2);
        assert!(refused.err.contains("error:") && refused.out.is_empty(), "{args:?}: {refused:?}");
        let error = home.run(&[args, &["--json"]].concat()).exits(2);
        assert_eq!(error.json()["error"]["exit_code"], 2, "{args:?}");
        assert_eq!(error.err, "", "{args:?}");
    }
}
