//! A token moves between processes: the process that has it extends and releases the lock.

use crate::harness::{Answer, Home, Running};
use crate::until_free;
use quorlock_testkit::{Etcd, Servers};
use serde_json::Value;

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

fn is_token(text: &str) -> bool {
    text.len() == 32 && text.chars().all(|c| c.is_ascii_hexdigit())
}

/// Goal: acquire, extend and release in three processes act on one lock.
fn take_keep_and_give_back(home: &Home) {
    let taken = home.run(&["acquire", "job"]).exits(0);
    assert_eq!(taken.err, "", "stderr is no terminal");
    let token = taken.text();
    assert!(is_token(&token), "{token}");
    home.run(&["acquire", "job", "-n"]).exits(75);
    let extended = home.run(&["extend", "job", "--token", &token]).exits(0);
    assert_eq!((extended.out.as_str(), extended.err.as_str()), ("", ""));
    home.run(&["release", "job", "--token", &token]).exits(0);
    home.run(&["acquire", "job", "-n"]).exits(0);
}

#[test]
fn on_one_machine_a_lock_outlives_the_process_that_took_it() {
    take_keep_and_give_back(&Home::new());
}

#[test]
fn on_three_servers_a_lock_outlives_the_process_that_took_it() {
    let servers = Servers::start(3);
    take_keep_and_give_back(&Home::on(&servers));
}

#[test]
fn on_an_etcd_cluster_a_lock_outlives_the_process_that_took_it_and_is_listed_and_run_under() {
    let etcd = Etcd::start(3);
    let home = Home::with_nodes(&[etcd.url()]);
    take_keep_and_give_back(&home);
    let listed = home.run(&["status"]).text();
    assert!(listed.contains("job") && listed.contains("1/1"), "{listed}");
    let mut command =
        home.command(&["run", "other", "--", "sh", "-c", "exit $((QUORLOCK_FENCE > 0 ? 7 : 1))"]);
    Running::new(&mut command).end().exits(7);
    home.run(&["run", "job", "-n", "--", "true"]).exits(75);
}

#[test]
fn the_token_comes_from_the_environment_too() {
    let home = Home::new();
    let token = home.run(&["acquire", "job"]).text();
    let with_token = |args: &[&str]| -> Answer {
        let mut command = home.command(args);
        Running::new(command.env("QUORLOCK_TOKEN", &token)).end()
    };
    with_token(&["extend", "job"]).exits(0);
    with_token(&["release", "job"]).exits(0);
}

#[test]
fn programs_get_name_token_fence_time_and_votes() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let taken = home.run(&["acquire", "job", "--ttl", "20s", "--json"]).exits(0).json();
    assert_eq!(
        keys(&taken),
        ["fence", "mode", "name", "nodes", "remaining_ms", "token", "votes", "waited_ms"]
    );
    let token = taken["token"].as_str().unwrap();
    let left = taken["remaining_ms"].as_u64().unwrap();
    assert!((10_000..20_000).contains(&left), "{left}");
    assert_eq!((&taken["name"], &taken["nodes"]), (&"job".into(), &3.into()));

    let extended = home.run(&["extend", "job", "--token", token, "--ttl", "30s", "--json"]).exits(0).json();
    assert_eq!(keys(&extended), ["fence", "name", "nodes", "remaining_ms", "token", "votes"]);
    assert!(extended["remaining_ms"].as_u64().unwrap() > 20_000, "{extended}");
    assert_eq!(extended["fence"], taken["fence"]);

    let released = home.run(&["release", "job", "--token", token, "--json"]).exits(0).json();
    assert_eq!(keys(&released), ["fence", "name", "nodes", "outcome", "remaining_ms", "token", "votes"]);
    assert_eq!((&released["outcome"], &released["fence"]), (&"released".into(), &taken["fence"]));
    assert_eq!(released["votes"], 3);
}

#[test]
fn every_node_gets_the_lock_and_the_release_before_the_program_ends() {
    let servers = Servers::start(5);
    let home = Home::on(&servers);
    let stored = || servers.iter().filter(|server| server.cli(&["EXISTS", "job"]) == "1").count();
    for _ in 0..5 {
        let token = home.run(&["acquire", "job"]).text();
        assert_eq!(stored(), 5);
        home.run(&["release", "job", "--token", &token]).exits(0);
        assert_eq!(stored(), 0);
    }
}

#[test]
fn a_lock_whose_time_ran_out_is_lost() {
    let home = Home::new();
    let token = home.run(&["acquire", "job", "--ttl", "500ms"]).text();
    until_free(&home, "job");
    let args = ["extend", "job", "--token", token.as_str()];
    home.run(&args).exits(79).complains(&["`job` is not held under that token", "ttl ran out", "help:"]);
    let error = home.run(&[&args[..], &["--json"]].concat()).exits(79).json();
    assert_eq!(error["error"]["kind"], "lost");

    let args = ["release", "job", "--token", token.as_str()];
    home.run(&args).exits(79).complains(&["gone already", "ttl ran out, or another client removed it"]);
    let error = home.run(&[&args[..], &["--json"]].concat()).exits(79).json();
    assert_eq!(error["error"]["outcome"], "already_gone");
    assert_eq!(error["error"]["exit_code"], 79);
}

#[test]
fn a_release_too_late_says_who_has_the_lock_now_and_leaves_it_alone() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let old = home.run(&["acquire", "job", "--ttl", "2500ms"]).text();
    let new = home.run(&["acquire", "job", "--wait", "20s"]).text();
    let late = home.run(&["release", "job", "--token", &old]).exits(79);
    late.complains(&["gone already", "now held by", "pid"]);
    home.run(&["extend", "job", "--token", &new]).exits(0);
}

#[test]
fn fences_grow_from_holder_to_holder() {
    let home = Home::new();
    let mut last = 0;
    for _ in 0..3 {
        let taken = home.run(&["acquire", "job", "--json"]).exits(0).json();
        let fence = taken["fence"].as_u64().unwrap();
        assert!(fence > last);
        last = fence;
        home.run(&["release", "job", "--token", taken["token"].as_str().unwrap()]).exits(0);
    }
}
