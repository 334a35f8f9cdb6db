//! Clocks that are off, and clocks that run at another rate.

use crate::{ask, finding, findings, home, init};
use quorlock_testkit::{ClockShim, Server, Servers};
use std::time::Duration;

#[test]
fn a_node_whose_clock_is_off_is_named_with_the_drift_that_covers_it() {
    let clock = ClockShim::new();
    clock.jump_wall(Duration::from_millis(2500));
    let builders = vec![Server::builder(), Server::builder(), Server::builder().clock(&clock)];
    let (home, servers) = (home(), Servers::start_all(builders));
    init(&home, &servers.urls());
    let report = ask(&home, &servers.urls(), &["doctor"]).exits(0).json();
    let skew = finding(&report, "clock-skew");
    assert_eq!(skew["severity"], "warning");
    assert_eq!(skew["nodes"][0], format!("127.0.0.1:{}", servers[2].port()));
    let (what, remedy) = (skew["what"].as_str().unwrap(), skew["do"].as_str().unwrap());
    assert!(what.contains("ahead of ours") && what.contains("ahead of most nodes"), "{what}");
    // 2.5 s of a ttl of 30 s, rounded up.
    assert!(remedy.contains("fix NTP") && remedy.contains("drift = 0.08"), "{remedy}");
    ask(&home, &servers.urls(), &["doctor", "--strict"]).exits(1);
}

#[test]
fn if_all_nodes_agree_it_is_our_clock_that_is_off() {
    let clock = ClockShim::new();
    clock.jump_wall_back(Duration::from_secs(2));
    let (home, servers) = (home(), Servers::start_like(&Server::builder().clock(&clock), 3));
    init(&home, &servers.urls());
    let report = ask(&home, &servers.urls(), &["doctor"]).exits(0).json();
    let skew = finding(&report, "clock-skew");
    assert_eq!(skew["nodes"].as_array().unwrap().len(), 0, "{skew}");
    assert!(skew["what"].as_str().unwrap().contains("this machine is"), "{skew}");
}

/// Goal: what a lock depends on is measured, and not mistaken for what a clock shows.
#[test]
fn a_clock_that_runs_too_fast_is_found_by_watching_it() {
    let clock = ClockShim::new();
    let (home, server) = (home(), Server::builder().clock(&clock).start());
    clock.drift(150_000);
    let report = ask(&home, &[server.url()], &["doctor", "--clocks", "2s"]).json();
    let rate = finding(&report, "clock-rate");
    assert_eq!(rate["severity"], "error");
    assert!(rate["what"].as_str().unwrap().contains("too fast"), "{rate}");
    let gain = report["nodes"][0]["clock_rate"]["gain"].as_f64().unwrap();
    assert!((0.1..0.2).contains(&gain), "{gain}");

    let steady = Server::start();
    let report = ask(&home, &[steady.url()], &["doctor", "--clocks", "1s"]).exits(0).json();
    assert!(findings(&report).iter().all(|it| it["code"] != "clock-rate"), "{report:#}");
}
