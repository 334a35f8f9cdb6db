//! Locks on real servers, through one sidecar and through several.

use crate::client::{LIMIT, Sidecar, is_held};
use crate::harness::Home;
use quorlock_testkit::{Servers, exposition, until_blocking};
use serde_json::json;

#[test]
fn a_lease_outlives_the_sidecar_that_lent_it() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    let (status, lease) =
        sidecar.post("/v1/locks/job/acquire", "{\"owner\": \"ann@web\", \"ttl_ms\": 30000}");
    assert_eq!((status, &lease["nodes"], &lease["quorum"]), (200, &json!(3), &json!(2)), "{lease}");
    let token = lease["token"].as_str().unwrap();
    assert_eq!(sidecar.extend("job", token), 200);
    assert_eq!(sidecar.stop().code, Some(0));
    assert!(is_held(&home, "job"));

    let sidecar = Sidecar::start(&home, &[]);
    let body = format!("{{\"token\": \"{token}\", \"ttl_ms\": 20000}}");
    let (status, again) = sidecar.post("/v1/locks/job/extend", &body);
    assert_eq!((status, &again["fence"]), (200, &lease["fence"]), "{again}");
    let (_, seen) = sidecar.get("/v1/locks/job");
    assert_eq!((&seen["holder"]["owner"], &seen["here"]), (&json!("ann@web"), &json!(false)), "{seen}");
    assert_eq!(sidecar.release("job", token), 200);
    assert_eq!(sidecar.release("job", token), 410);
    assert!(!is_held(&home, "job"));
}

#[test]
fn the_command_line_and_the_sidecar_exclude_each_other() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    let token = sidecar.take("job", "{}");
    home.run(&["acquire", "job", "-n"]).exits(75);
    home.run(&["release", "job", "--token", &token]).exits(0);
    let theirs = home.run(&["acquire", "job", "-n", "--ttl", "20s"]).text();
    assert_eq!(sidecar.post("/v1/locks/job/acquire", "{}").0, 409);
    assert_eq!(sidecar.extend("job", &theirs), 200);
    assert_eq!(sidecar.release("job", &theirs), 200);
}

#[test]
fn whoever_holds_a_lock_learns_that_it_was_forced_away() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    let path = "/v1/locks/job/hold?ttl_ms=2000";
    let mut holding = crate::harness::Running::new(&mut sidecar.curl(&["--no-buffer"], path));
    let held = holding.answers("\n\n");
    let lease: serde_json::Value = serde_json::from_str(held.split_once("data: ").unwrap().1).unwrap();
    let token = lease["token"].as_str().unwrap();
    home.run(&["force-release", "job", "--token", token, "--yes"]).exits(0);
    let printed = holding.end().exits(0).out;
    assert!(printed.contains("event: lost") && printed.contains("\"taken\""), "{printed}");
}

#[test]
fn prometheus_reads_the_metrics_of_a_real_run() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    let token = sidecar.take("job", "{}");
    sidecar.release("job", &token);
    let (status, scrape) = sidecar.ask(&[], "/metrics");
    assert_eq!(status, 200);
    let samples = exposition::parse(&scrape);
    let count = "redlock_acquire_duration_seconds_count{resource=\"job\"}";
    assert_eq!(samples.get(count), Some(&1.0), "{scrape}");
    let requests = "redlock_sidecar_requests_total{route=\"/v1/locks/{name}/acquire\",status=\"200\"}";
    assert_eq!(samples.get(requests), Some(&1.0), "{scrape}");
    if let Some(verdict) = exposition::promtool_agrees(&scrape) {
        verdict.unwrap();
    }
}

#[test]
fn the_overview_knows_the_servers() {
    let servers = Servers::start(3);
    let home = Home::on(&servers);
    let sidecar = Sidecar::start(&home, &[]);
    sidecar.take("job", "{}");
    until_blocking("all is known", LIMIT, || {
        let (_, seen) = sidecar.get("/v1/overview");
        let node = &seen["nodes"][0];
        node["guarantee"] == "restart-guarded"
            && node["round_trip_ms"].is_number()
            && node["epoch_age_ms"].is_number()
            && node["version"].is_string()
            && seen["locks"][0]["name"] == "job"
    });
}

/// Goal: the end of a lease that its caller did not extend is no trouble, and is written to no log
/// as such.
#[test]
fn a_lease_that_its_caller_did_not_extend_is_no_warning() {
    let home = Home::new();
    let sidecar = Sidecar::start(&home, &[]);
    sidecar.take("job", "{\"ttl_ms\": 2500}");
    until_blocking("its end is reported", LIMIT, || {
        let (_, events) = sidecar.ask(&["--max-time", "1"], "/v1/events?after=0");
        events.contains("event: lease_expired")
    });
    let said = sidecar.stop();
    assert!(!said.err.contains("job"), "{}", said.err);
}
