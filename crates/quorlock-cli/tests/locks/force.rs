//! Taking a lock away: only from the holder that was named, only with a yes.

use crate::harness::Home;
use quorlock_testkit::Servers;

#[test]
fn without_a_terminal_a_yes_must_be_given() {
    let home = Home::new();
    let token = home.run(&["acquire", "job"]).text();
    let args = ["force-release", "job", "--token", token.as_str()];
    home.run(&args).exits(2).complains(&["needs a confirmation", "--yes", "help:"]);
    let error = home.run(&[&args[..], &["--json"]].concat()).exits(2).json();
    assert_eq!(error["error"]["kind"], "usage");
    home.run(&["acquire", "job", "-n"]).exits(75);
}

/// Goal: a running holder loses its lock to an operator who names it, and the operator learns whom
/// it hit.
#[test]
fn the_named_holder_loses_the_lock() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let mut holder = home.start(&["run", "job", "--ttl", "3s", "-c", "echo ready >&2; sleep 60"]);
    holder.says("ready");
    let status = home.run(&["status", "job", "--show-token", "--json"]).json();
    let token = status["token"].as_str().unwrap();
    let taken = home.run(&["force-release", "job", "--token", token, "--yes"]).exits(0);
    taken.complains(&["lock `job` was taken away", "held by", "(pid ", "since"]);
    holder.end().exits(79);
}

#[test]
fn programs_learn_whom_it_hit() {
    let home = Home::new();
    let taken = home.run(&["acquire", "job", "--reason", "stuck", "--json"]).json();
    let token = taken["token"].as_str().unwrap();
    let released = home.run(&["force-release", "job", "--token", token, "-y", "--json"]).exits(0).json();
    assert_eq!((&released["outcome"], &released["fence"]), (&"released".into(), &taken["fence"]));
    assert_eq!(released["holder"]["reason"], "stuck");
    assert_eq!(home.run(&["status", "job", "--json"]).json()["held"], false);
}

#[test]
fn a_token_of_yesterday_takes_nothing_away() {
    let home = Home::new();
    let old = home.run(&["acquire", "job"]).text();
    home.run(&["release", "job", "--token", &old]).exits(0);
    let args = ["force-release", "job", "--yes", "--token", old.as_str()];
    home.run(&args).exits(79).complains(&["`job` is not held under that token", "nothing to do"]);

    let new = home.run(&["acquire", "job", "--reason", "mine"]).text();
    home.run(&args).exits(79).complains(&["now held by", "(pid ", "since", "quorlock status"]);
    let error = home.run(&[&args[..], &["--json"]].concat()).exits(79).json();
    assert_eq!(error["error"]["holder"]["reason"], "mine");
    home.run(&["extend", "job", "--token", &new]).exits(0);
}

#[test]
fn a_lock_of_another_program_is_not_touched() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    for server in servers.iter() {
        server.cli(&["SET", "job", "b3f1c2d4e5f60718", "PX", "20000"]);
    }
    let token = "0123456789abcdef0123456789abcdef";
    home.run(&["force-release", "job", "-y", "--token", token]).exits(79).complains(&["another program"]);
    assert!(servers.iter().all(|server| server.cli(&["EXISTS", "job"]) == "1"));
}

/// Goal: what is left of a lock on a minority of nodes can be cleared away, too.
#[test]
fn what_a_minority_holds_can_be_taken_away() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let token = "0123456789abcdef0123456789abcdef";
    servers[2].cli(&["SET", "job", &format!("{token} 7 eve@web1 1 1"), "PX", "20000"]);
    let text = home.run(&["status", "job"]).text();
    assert!(
        text.contains("is free (some nodes hold it") && text.contains("held by eve@web1 (pid 1)"),
        "{text}"
    );
    let seen = home.run(&["status", "job", "--json", "--show-token"]).json();
    assert_eq!((&seen["held"], &seen["per_node"][2]["token"]), (&false.into(), &token.into()));
    home.run(&["force-release", "job", "-y", "--token", token]).exits(0);
    assert_eq!(servers[2].cli(&["EXISTS", "job"]), "0");
}
