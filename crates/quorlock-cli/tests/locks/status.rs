//! Who holds what: for people as a table, for programs as an object.

use crate::harness::{Home, Running};
use quorlock_testkit::Servers;
use std::fs;

#[test]
fn a_free_lock_is_free_and_remembers_its_last_fence() {
    let home = Home::new();
    let never = home.run(&["status", "job"]).text();
    assert!(never.starts_with("lock `job` is free; it never had a fence"), "{never}");
    let taken = home.run(&["acquire", "job", "--json"]).json();
    home.run(&["release", "job", "--token", taken["token"].as_str().unwrap()]).exits(0);
    let free = home.run(&["status", "job"]).text();
    assert!(free.starts_with(&format!("lock `job` is free; last fence {}", taken["fence"])), "{free}");
    let object = home.run(&["status", "job", "--json"]).json();
    assert_eq!((&object["held"], &object["last_fence"]), (&false.into(), &taken["fence"]));
    assert!(object["holder"].is_null() && object["remaining_ms"].is_null());
}

#[test]
fn a_held_lock_shows_holder_time_fence_votes_and_reason() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let taken = home.run(&["acquire", "job", "--reason", "release 12", "--json"]).json();
    let text = home.run(&["status", "job"]).text();
    let lines: Vec<&str> = text.lines().collect();
    let header: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(header, ["NAME", "HOLDER", "SINCE", "REMAINING", "FENCE", "VOTES", "REASON"]);
    let fence = taken["fence"].to_string();
    for part in ["job", "@", "(pid ", "s ago)", &fence, "3/3", "release 12"] {
        assert!(lines[1].contains(part), "{part}: {text}");
    }
    assert_eq!(lines.iter().filter(|line| line.contains("holds it")).count(), 3, "{text}");
}

#[test]
fn programs_see_seconds_since_1970_milliseconds_and_each_node() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let taken = home.run(&["acquire", "job", "--ttl", "20s", "--json"]).json();
    let seen = home.run(&["status", "job", "--json"]).exits(0).json();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let since = seen["holder"]["since"].as_u64().unwrap();
    assert!((now - 60..=now).contains(&since), "{since} and now {now}");
    assert!(seen["held_ms"].as_u64().unwrap() < 60_000);
    assert!((1..=20_000).contains(&seen["remaining_ms"].as_u64().unwrap()));
    assert_eq!(seen["fence"], taken["fence"]);
    assert_eq!((&seen["votes"], &seen["nodes"]), (&3.into(), &3.into()));
    let nodes = seen["per_node"].as_array().unwrap();
    assert!(nodes.iter().all(|node| node["state"] == "holds" && node["fence"] == taken["fence"]), "{seen}");
}

#[test]
fn the_token_is_shown_only_if_asked_for() {
    let home = Home::new();
    let token = home.run(&["acquire", "my job"]).text();
    for args in [vec!["status"], vec!["status", "my job"], vec!["status", "my job", "-v"]] {
        assert!(!home.run(&args).text().contains(&token), "{args:?}");
        let json = [&args[..], &["--json"]].concat();
        assert!(!home.run(&json).text().contains(&token), "{json:?}");
    }
    let text = home.run(&["status", "my job", "--show-token"]).text();
    let line = format!("quorlock force-release 'my job' --token {token}");
    assert_eq!(text.lines().last(), Some(line.as_str()));
    let object = home.run(&["status", "my job", "--show-token", "--json"]).json();
    assert_eq!(object["token"], token.as_str());
}

/// Goal: a program that shows all locks sees those of other processes, in the order of their names.
fn lists_all(home: &Home) {
    assert_eq!(home.run(&["status"]).text(), "no lock is held");
    assert_eq!(home.run(&["status", "--json"]).json()["locks"], serde_json::json!([]));
    home.run(&["acquire", "b", "--reason", "second"]).exits(0);
    let mut running = home.start(&["run", "a", "-c", "echo ready >&2; sleep 60", "--reason", "first"]);
    running.says("ready");
    let text = home.run(&["status"]).text();
    let first: Vec<&str> = text.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(first, ["NAME", "a", "b"], "{text}");
    assert!(text.contains("first") && text.contains("second"), "{text}");
    let object = home.run(&["status", "--json"]).json();
    assert_eq!(object["complete"], true);
    assert_eq!(object["locks"][1]["holder"]["reason"], "second");
}

#[test]
fn locks_of_other_processes_are_listed_on_one_machine() {
    lists_all(&Home::new());
}

#[test]
fn locks_of_other_processes_are_listed_on_five_servers() {
    let servers = Servers::start(5);
    lists_all(&Home::on(&servers));
}

/// Goal: a lock of redsync and the like is seen as held, its value is not given away, and it cannot
/// be taken.
#[test]
fn a_lock_of_another_program_is_shown_as_such() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    for server in servers.iter() {
        assert_eq!(server.cli(&["SET", "job", "aGVsbG8gd29ybGQ=", "NX", "PX", "20000"]), "OK");
    }
    let text = home.run(&["status", "job"]).text();
    assert!(text.contains("another program (value `aGVsbG..`)") && text.contains("3/3"), "{text}");
    assert!(!text.contains("aGVsbG8gd29ybGQ="), "{text}");
    let object = home.run(&["status", "job", "--json", "--show-token"]).json();
    assert_eq!((&object["held"], &object["token"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!(object["per_node"][0]["state"], "foreign");
    home.run(&["acquire", "job", "-n"]).exits(75).complains(&["another program"]);
}

/// Goal: a script never takes an answer that a full disk swallowed for a good one.
#[test]
fn an_answer_that_cannot_be_written_is_an_error() {
    let home = Home::new();
    for args in [&["status"][..], &["status", "x", "--json"], &["config", "show"], &["man"], &["watch"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let done = Running::new(home.command(args).stdout(full)).end();
        assert_ne!(done.code, Some(0), "{args:?}");
        assert!(done.err.contains("No space left"), "{args:?}: {done:?}");
    }
}

/// Goal: one lock with a long name, owner or reason leaves the table readable, and no value is
/// lost.
#[test]
fn long_values_are_cut_in_tables_and_whole_for_programs_and_alone() {
    let home = Home::new();
    let (long, reason, user) = ("n".repeat(200), "r".repeat(150), "u".repeat(150));
    let mut theirs = home.command(&["acquire", &long, "--reason", &reason]);
    Running::new(theirs.env("USER", &user)).end().exits(0);
    home.run(&["acquire", "short", "--reason", "why"]).exits(0);
    let table = home.run(&["status"]).text();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "one line per lock: {table}");
    for (header, values) in [("VOTES", ["1/1", "1/1"]), ("REASON", ["rrr", "why"])] {
        let at = lines[0].split(header).next().unwrap().chars().count();
        assert!(at < 160, "{table}");
        for (line, value) in lines[1..].iter().zip(values) {
            assert_eq!(line.chars().skip(at).take(3).collect::<String>(), value, "{table}");
        }
    }
    assert_eq!(table.matches('\u{2026}').count(), 3, "an ellipsis for each value that was cut: {table}");
    let one = home.run(&["status", &long]).text();
    for value in [&long, &reason, &user] {
        assert!(one.contains(value), "{one}");
    }
    let object = &home.run(&["status", "--json"]).json()["locks"][0];
    assert_eq!((&object["name"], &object["holder"]["reason"]), (&long.into(), &reason.into()));
    assert!(!home.run(&["status", "short"]).text().contains('\u{2026}'));
}
