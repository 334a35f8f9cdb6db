//! The benchmark measures, and leaves nothing behind.

use crate::{ask, home, init};
use quorlock_testkit::{Servers, until_blocking};
use rustix::process::Signal;
use std::time::Duration;

#[test]
fn the_nodes_are_measured_and_no_lock_stays() {
    let (home, servers) = (home(), Servers::start(3));
    init(&home, &servers.urls());
    for names in ["own", "one"] {
        let args = ["bench", "--seconds", "1", "--clients", "8", "--names", names];
        let measured = ask(&home, &servers.urls(), &args).exits(0).json();
        assert_eq!((&measured["nodes"], &measured["failures_tolerated"]), (&3.into(), &1.into()));
        assert_eq!((&measured["clients"], &measured["names"]), (&8.into(), &names.into()));
        assert!(measured["cycles"].as_u64().unwrap() > 0, "{measured}");
        assert!(measured["cycles_per_second"].as_u64().unwrap() > 0, "{measured}");
        let (p50, p99) = (&measured["acquire_us"]["p50"], &measured["acquire_us"]["p99"]);
        assert!(p50.as_u64().unwrap() > 0 && p50.as_u64() <= p99.as_u64(), "{measured}");
        assert!(measured["failures"].is_object(), "{measured}");
    }
    for server in servers.iter() {
        assert_eq!(server.cli(&["KEYS", "quorlock-bench:*"]), "");
    }
}

#[test]
fn people_get_a_table_and_a_warning_that_it_writes() {
    let (home, servers) = (home(), Servers::start(1));
    let nodes = servers.urls().join(",");
    let measured = home.run(&["bench", "--seconds", "1", "--clients", "2", "--nodes", &nodes]).exits(0);
    assert!(measured.out.starts_with("NODES  MAY FAIL  CLIENTS  CYCLES/S"), "{}", measured.out);
    assert!(measured.err.contains("writes locks named `quorlock-bench:"), "{}", measured.err);
}

#[test]
fn ctrl_c_ends_it_early_and_prints_what_was_measured_so_far() {
    let (home, servers) = (home(), Servers::start(1));
    let nodes = servers.urls().join(",");
    let mut running = home.start(&["bench", "--seconds", "600", "--names", "one", "--nodes", &nodes]);
    running.says("writes locks named");
    // A lock was taken in this run, not just before it.
    until_blocking("it is under way", Duration::from_secs(20), || {
        !servers[0].cli(&["KEYS", "quorlock-bench:*"]).is_empty()
    });
    running.signal(Signal::INT);
    let ended = running.end();
    assert!(ended.out.starts_with("NODES  MAY FAIL"), "{ended:?}");
}

#[test]
fn without_quorum_there_is_nothing_to_measure() {
    let (home, mut servers) = (home(), Servers::start(3));
    init(&home, &servers.urls());
    servers[0].kill();
    servers[1].kill();
    let refused = ask(&home, &servers.urls(), &["bench", "--seconds", "1"]).exits(69).json();
    assert_eq!(refused["error"]["kind"], "no_quorum", "{refused}");
}

#[test]
fn a_load_beyond_all_measure_is_refused() {
    let home = home();
    for args in [["--clients", "0"], ["--clients", "100000"], ["--seconds", "0"], ["--names", "two"]] {
        home.run(&[&["bench"], &args[..]].concat()).exits(2);
    }
}
