//! New nodes may vote once the user has confirmed it.

use crate::terminal::Terminal;
use crate::{ask, home};
use quorlock_testkit::{Fsync, Server, Servers};

#[test]
fn without_a_terminal_it_must_be_said_on_the_command_line() {
    let (home, servers) = (home(), Servers::start(3));
    let nodes = servers.urls().join(",");
    home.run(&["init", "--nodes", &nodes]).exits(2).complains(&["no terminal", "--yes"]);
    let refused = ask(&home, &servers.urls(), &["init"]).exits(2).json();
    assert_eq!(refused["error"]["kind"], "usage");
    assert_eq!(servers[0].cli(&["DBSIZE"]), "0", "nothing was changed");
}

#[test]
fn marked_nodes_vote_at_once_and_are_left_alone_the_next_time() {
    let (home, servers) = (home(), Servers::start(3));
    let urls = servers.urls();
    ask(&home, &urls, &["run", "job", "--wait", "1s", "--", "true"]).exits(69);
    let marked = ask(&home, &urls, &["init", "--yes", "--longest-ttl", "1m"]).exits(0).json();
    assert_eq!((&marked["can_vote"], &marked["nodes"][2]["result"]), (&3.into(), &"marked".into()));
    assert_eq!(marked["warnings"].as_array().unwrap().len(), 0, "{marked}");
    ask(&home, &urls, &["run", "job", "--longest-ttl", "1m", "--", "true"]).exits(0);
    let epoch = servers[0].cli(&["GET", "quorlock:epoch"]);
    assert!(epoch.contains(":60000:"), "{epoch}");
    let again = ask(&home, &urls, &["init", "--yes", "--longest-ttl", "1m"]).exits(0).json();
    assert_eq!(again["nodes"][0]["result"], "voting");
    assert_eq!(servers[0].cli(&["GET", "quorlock:epoch"]), epoch);
}

/// Goal: one look with other settings must not stop the locks of others.
#[test]
fn read_only_commands_with_a_longer_longest_ttl_change_nothing() {
    let (home, servers) = (home(), Servers::start(3));
    let urls = servers.urls();
    let looks: [(&[&str], i32, i32); 4] = [
        (&["status", "--longest-ttl", "24h"], 0, 0),
        (&["status", "job", "--longest-ttl", "24h"], 0, 0),
        (&["doctor", "--longest-ttl", "24h"], 69, 0),
        (&["release", "job", "--longest-ttl", "24h", "--token", "00000000000000000000000000000000"], 79, 79),
    ];
    for (look, code, _) in looks {
        ask(&home, &urls, look).exits(code);
        for server in servers.iter() {
            assert_eq!(server.cli(&["EXISTS", "quorlock:epoch"]), "0", "{look:?}");
        }
    }
    ask(&home, &urls, &["init", "--yes"]).exits(0);
    let before = servers[0].cli(&["GET", "quorlock:epoch"]);
    for (look, _, code) in looks {
        ask(&home, &urls, look).exits(code);
        assert_eq!(servers[0].cli(&["GET", "quorlock:epoch"]), before, "{look:?}");
    }
    ask(&home, &urls, &["run", "job", "--", "true"]).exits(0);
    // A longer ttl than the recorded one is refused, and says what to do.
    let refused = ask(&home, &urls, &["run", "job", "--longest-ttl", "24h", "--ttl", "24h", "--", "true"]);
    refused.exits(69).complains(&["ttl_not_recorded", "quorlock init --raise"]);
    ask(&home, &urls, &["run", "job", "--", "true"]).exits(0);
}

#[test]
fn a_longer_ttl_is_recorded_on_all_nodes_and_no_lock_waits_for_it() {
    let (home, mut servers) = (home(), Servers::start(3));
    let urls = servers.urls();
    ask(&home, &urls, &["init", "--yes"]).exits(0);
    let raise = ["init", "--raise", "--longest-ttl", "5m"];
    let raised = ask(&home, &urls, &raise).exits(0).json();
    assert_eq!(
        (&raised["longest_ttl_ms"], &raised["nodes"][2]["result"]),
        (&300_000.into(), &"recorded".into())
    );
    ask(&home, &urls, &["run", "job", "--longest-ttl", "5m", "--ttl", "5m", "--", "true"]).exits(0);
    ask(&home, &urls, &["run", "job", "--", "true"]).exits(0);
    // A node that does not vote yet cannot be raised, and is named.
    servers[1].restart();
    ask(&home, &urls, &["run", "job", "--", "true"]).exits(0);
    let failed = ask(&home, &urls, &["init", "--raise", "--longest-ttl", "10m"]).exits(69).json();
    let result = &failed["nodes"][1];
    assert_eq!(result["result"], "failed", "{failed}");
    assert!(["quarantined", "no_epoch"].contains(&result["kind"].as_str().unwrap()), "{failed}");
    home.run(&["init", "--raise", "--yes"]).exits(2);
    home.run(&["init", "--raise", "--longest-ttl", "8d"]).exits(2);
}

#[test]
fn it_asks_on_a_terminal_and_takes_only_yes_for_a_yes() {
    let (home, servers) = (home(), Servers::start(1));
    let nodes = [servers.urls(), vec![format!("redis://127.0.0.1:{}", 1)]].concat().join(",");
    for (answer, code) in [("\n", 1), ("y\n", 1), ("no\n", 1), ("\u{4}", 1), ("yes\n", 69)] {
        let mut terminal = Terminal::open();
        let asking = terminal.start(&mut home.command(&["init", "--nodes", &nodes]));
        let printed = terminal.shows("Type yes: ");
        assert!(printed.contains("will be marked as new") && printed.contains("Go on only if"), "{printed}");
        terminal.types(answer);
        let ended = asking.end().exits(code);
        assert_eq!(ended.out.contains("marked as new"), code == 69, "{ended:?}");
    }
    assert!(servers[0].cli(&["GET", "quorlock:epoch"]).starts_with("v2:"));
}

#[test]
fn signs_that_nodes_are_in_use_are_reported() {
    let (home, mut servers) = (home(), Servers::start(3));
    let urls = servers.urls();
    ask(&home, &urls, &["init", "--yes"]).exits(0);
    // Two forget a lock, and would outvote the one that knows it.
    servers[0].restart();
    servers[1].restart();
    servers[2].cli(&["SET", "payroll", "somebody", "PX", "60000"]);
    servers[2].cli(&["ZADD", "quorlock:fence:{payroll}", "1", "f"]);
    let marked = ask(&home, &urls, &["init", "--yes"]).exits(0).json();
    let warnings = marked["warnings"].to_string();
    assert!(warnings.contains("can vote already"), "{warnings}");
    assert!(warnings.contains("held right now: `payroll`"), "{warnings}");
    assert_eq!(
        (&marked["nodes"][0]["result"], &marked["nodes"][2]["result"]),
        (&"marked".into(), &"voting".into())
    );
}

#[test]
fn a_restart_after_use_is_reported() {
    let (home, mut servers) = (home(), Servers::start_like(&Server::builder().aof(Fsync::Always), 3));
    let urls = servers.urls();
    ask(&home, &urls, &["init", "--yes"]).exits(0);
    for at in 0..3 {
        servers[at].restart();
    }
    let nodes = urls.join(",");
    let marked = home.run(&["init", "--yes", "--nodes", &nodes]).exits(0);
    assert!(
        marked.err.contains("warning:") && marked.err.contains("restarted after it had been in use"),
        "{marked:?}"
    );
    assert!(marked.out.ends_with("3 of 3 can vote\n"), "{marked:?}");
}

#[test]
fn without_a_majority_it_failed() {
    let (home, mut servers) = (home(), Servers::start(3));
    servers[0].kill();
    servers[1].kill();
    let marked = ask(&home, &servers.urls(), &["init", "--yes"]).exits(69).json();
    assert_eq!((&marked["can_vote"], &marked["exit_code"]), (&1.into(), &69.into()));
    assert_eq!(marked["nodes"][0]["kind"], "unreachable");
}

#[test]
fn one_node_alone_has_nothing_to_be_marked() {
    let (home, server) = (home(), Server::start());
    let marked = ask(&home, &[server.url()], &["init"]).exits(0).json();
    assert_eq!(marked["nodes"][0]["result"], "voting");
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}
