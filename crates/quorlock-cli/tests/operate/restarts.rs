//! Nodes that are new, that forgot, and that remember.

use crate::{ask, finding, home, init, troubles};
use quorlock_testkit::{Fsync, Server, Servers, until_blocking};
use serde_json::Value;
use std::time::Duration;

#[test]
fn new_nodes_cannot_vote_and_are_left_as_they_are() {
    let (home, servers) = (home(), Servers::start(3));
    let report = ask(&home, &servers.urls(), &["doctor"]).exits(69).json();
    let no_epoch = finding(&report, "no-epoch");
    assert_eq!(no_epoch["nodes"].as_array().unwrap().len(), 3);
    assert!(no_epoch["do"].as_str().unwrap().contains("quorlock init"), "{no_epoch}");
    assert_eq!(servers[0].cli(&["DBSIZE"]), "0", "the doctor changes nothing");
}

#[test]
fn a_server_that_restarted_is_in_quarantine_and_the_time_left_is_shown() {
    let (home, mut servers) = (home(), Servers::start(3));
    let urls = servers.urls();
    init(&home, &urls);
    servers[1].restart();
    // The first client that comes finds out.
    let quarantined = |report: &Value| report["nodes"][1]["state"] == "quarantined";
    until_blocking("a client has looked at it", Duration::from_secs(20), || {
        ask(&home, &urls, &["run", "job", "--", "true"]).exits(0);
        quarantined(&ask(&home, &urls, &["doctor"]).exits(0).json())
    });
    let report = ask(&home, &urls, &["doctor"]).exits(0).json();
    let what = finding(&report, "quarantined")["what"].as_str().unwrap();
    assert!(what.contains("may not vote for another "), "{what}");
    assert_eq!(report["can_vote"], 2, "{report:#}");
    assert!(troubles(&report).contains(&"no-spare"), "{report:#}");
}

#[test]
fn a_single_server_that_forgets_is_a_warning_and_one_that_syncs_is_none() {
    let home = home();
    let forgetful = Server::start();
    let report = ask(&home, &[forgetful.url()], &["doctor"]).exits(0).json();
    assert_eq!(troubles(&report), ["forgets"], "{report:#}");
    let durable = Server::builder().aof(Fsync::Always).start();
    let url = format!("{}?durable=yes", durable.url());
    let report = ask(&home, &[url], &["doctor"]).exits(0).json();
    assert_eq!(troubles(&report), [""; 0], "{report:#}");
    let url = format!("{}?durable=yes", forgetful.url());
    let report = ask(&home, &[url], &["doctor"]).exits(69).json();
    assert!(troubles(&report).contains(&"not-durable"), "{report:#}");
}
