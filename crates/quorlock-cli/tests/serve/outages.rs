//! Servers that are down.

use crate::client::{LIMIT, Sidecar};
use crate::harness::Home;
use quorlock_testkit::{Servers, until_blocking};

#[test]
fn the_more_servers_are_down_the_louder_it_gets() {
    let mut servers = Servers::start(5);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    until_blocking("it is ready", LIMIT, || sidecar.get("/readyz").0 == 200);
    let banner = |sidecar: &Sidecar| sidecar.get("/v1/overview").1["banners"][0].clone();
    assert_eq!(banner(&sidecar), serde_json::Value::Null);
    for (down, code, severity) in
        [(0, "nodes_down", "warning"), (1, "quorum_at_risk", "warning"), (2, "no_quorum", "critical")]
    {
        servers[down].kill();
        until_blocking(code, LIMIT, || {
            let banner = banner(&sidecar);
            banner["code"] == code && banner["severity"] == severity
        });
        let (status, problem) = sidecar.post(&format!("/v1/locks/{code}/acquire"), "{}");
        if code == "no_quorum" {
            assert_eq!((status, problem["code"].as_str()), (503, Some("no_quorum")), "{problem}");
            assert_eq!(problem["nodes"].as_array().unwrap().len(), 5);
        } else {
            assert_eq!(status, 200, "{problem}");
        }
    }
    assert_eq!(sidecar.get("/readyz").0, 503);
    assert_eq!(sidecar.get("/healthz").0, 200);
    until_blocking("the last list is old", LIMIT, || sidecar.get("/v1/locks").0 == 503);
}

/// A machine that hangs, or a network that drops packets: connections stay open, and no client has
/// asked for a while.
#[test]
fn servers_that_fall_silent_are_noticed_even_while_no_client_needs_them() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    until_blocking("it is ready", LIMIT, || sidecar.get("/readyz").0 == 200);
    servers[0].pause();
    servers[1].pause();
    let (status, ready) = sidecar.get("/readyz");
    assert_eq!((status, &ready["up"]), (503, &1.into()), "{ready}");
    // What shows the nodes' health without asking them learns of it soon.
    until_blocking("they are down", LIMIT, || {
        let nodes = sidecar.get("/v1/overview").1["nodes"].clone();
        nodes.as_array().unwrap().iter().filter(|node| node["up"] == false).count() == 2
    });
    servers[0].resume();
    servers[1].resume();
    until_blocking("it is ready again", LIMIT, || sidecar.get("/readyz").0 == 200);
}

#[test]
fn a_release_that_too_few_servers_answer_is_not_confirmed() {
    let mut servers = Servers::start(3);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    let token = sidecar.take("job", "{}");
    servers[0].kill();
    servers[1].kill();
    let (status, released) = sidecar.post("/v1/locks/job/release", &format!("{{\"token\": \"{token}\"}}"));
    assert_eq!((status, &released["outcome"]), (200, &"unconfirmed".into()), "{released}");
}
