//! What people read: the overview, events and metrics.

use crate::kit::{Lab, event, text};
use quorlock_serve::Peer;
use quorlock_testkit::exposition;
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn the_overview_shows_nodes_locks_and_the_last_minutes() {
    let lab = Lab::new();
    let lease = lab.acquire("a").await;
    lab.post("/v1/locks/a/acquire", &json!({})).await.problem(409, "held");
    let seen = lab.get("/v1/overview").await.ok();
    assert_eq!((&seen["quorum"], &seen["sessions"], &seen["scope"]), (&json!(1), &json!(1), &json!("lock")));
    assert_eq!(
        (&seen["locks"][0]["name"], &seen["locks_total"], &seen["complete"]),
        (&json!("a"), &json!(1), &json!(true))
    );
    assert_eq!((&seen["nodes"][0]["node"], &seen["nodes"][0]["can_vote"]), (&json!("memory:"), &json!(true)));
    for field in ["at", "acquires", "releases", "refused", "losses", "p50_ms", "p99_ms"] {
        assert_eq!(seen["series"][field].as_array().unwrap().len(), 300, "{field}");
    }
    lab.post("/v1/locks/a/release", &json!({ "token": lease["token"] })).await.ok();
    quorlock_testkit::until("the second is over", Duration::from_secs(30), async || {
        let series = lab.get("/v1/overview").await.ok()["series"].clone();
        let sum =
            |field: &str| series[field].as_array().unwrap().iter().filter_map(|n| n.as_u64()).sum::<u64>();
        let has_time = series["p99_ms"].as_array().unwrap().iter().any(|n| n.is_number());
        (sum("acquires"), sum("releases"), sum("refused")) == (1, 1, 1) && has_time
    })
    .await;
}

#[tokio::test]
async fn a_lost_lock_has_a_banner() {
    let lab = Lab::of(Lab::builder(&["memory:lost-on-a-banner"]));
    let other = Lab::from(Lab::builder(&["memory:lost-on-a-banner"]).build().unwrap(), Peer::Unix);
    let (_, mut body) = lab.open("/v1/locks/a/hold?ttl_ms=400").await;
    let lease = event(&mut body, "held").await;
    other.post("/v1/locks/a/force-release", &json!({ "token": lease["token"] })).await.ok();
    assert_eq!(event(&mut body, "lost").await["reason"], "taken");
    quorlock_testkit::until("the banner", Duration::from_secs(30), async || {
        let seen = lab.get("/v1/overview").await.ok();
        let banner = &seen["banners"][0];
        banner["code"] == "lock_lost" && banner["severity"] == "warning" && banner["action"].is_string()
    })
    .await;
}

/// Goal: the end of a lease that its caller did not extend is shown, but not as a loss: no banner, no mark,
/// and a reason that no alert fires on.
#[tokio::test]
async fn a_lease_that_its_caller_did_not_extend_is_no_loss() {
    let lab = Lab::new();
    let (_, mut live) = lab.open("/v1/events").await;
    lab.post("/v1/locks/never-extended/acquire", &json!({ "ttl_ms": 400 })).await.ok();
    let ended = event(&mut live, "lease_expired").await;
    assert_eq!((&ended["lock"], &ended["reason"]), (&json!("never-extended"), &json!("lease_expired")));
    let samples = exposition::parse(&lab.get("/metrics").await.text);
    let ours = |series: &&String| series.contains("losses_total") && series.contains("never-extended");
    let counted: Vec<_> = samples.keys().filter(ours).collect();
    assert_eq!(counted, ["redlock_losses_total{reason=\"lease_expired\",resource=\"never-extended\"}"]);
    // The series shows whole seconds, so a loss would be seen once the next one has begun.
    let began = lab.get("/v1/overview").await.ok()["series"]["at"][299].clone();
    quorlock_testkit::until("two seconds are over", Duration::from_secs(30), async || {
        lab.get("/v1/overview").await.ok()["series"]["at"][297] == began
    })
    .await;
    let seen = lab.get("/v1/overview").await.ok();
    assert_eq!(seen["banners"], json!([]));
    assert!(seen["series"]["losses"].as_array().unwrap().iter().all(|count| *count == 0), "{seen}");
}

#[tokio::test]
async fn events_are_sent_as_they_happen_and_again_to_a_reader_that_missed_them() {
    let lab = Lab::new();
    let (_, mut live) = lab.open("/v1/events").await;
    let lease = lab.acquire("a").await;
    let acquired = event(&mut live, "acquired").await;
    assert_eq!(
        (&acquired["lock"], &acquired["fence"], &acquired["kind"]),
        (&json!("a"), &lease["fence"], &json!("acquired"))
    );
    assert!(acquired["text"].as_str().unwrap().contains("`a`") && acquired["at"].is_u64());
    lab.post("/v1/locks/a/release", &json!({ "token": lease["token"] })).await.ok();
    let (_, mut late) = lab.open(&format!("/v1/events?after={}", acquired["seq"])).await;
    let released = event(&mut late, "released").await;
    assert!(released["seq"].as_u64() > acquired["seq"].as_u64());
    let seen = acquired["seq"].to_string();
    let (_, mut late) = lab.open_with("/v1/events", &[("last-event-id", &seen)]).await;
    assert_eq!(event(&mut late, "released").await["seq"], released["seq"]);
    let (_, mut late) = lab.open("/v1/events?after=999999").await;
    event(&mut late, "gap").await;
}

#[tokio::test]
async fn routine_events_are_sent_only_on_request() {
    let lab = Lab::new();
    lab.acquire("a").await;
    lab.post("/v1/locks/a/acquire", &json!({})).await.problem(409, "held");
    let (_, mut all) = lab.open("/v1/events?after=0&all=true").await;
    assert_eq!(event(&mut all, "refused").await["lock"], "a");
    let (_, mut rare) = lab.open("/v1/events?after=0").await;
    let events = text(&mut rare, "event: gave_up").await;
    assert!(events.contains("event: acquired") && !events.contains("event: refused"), "{events}");
}

#[tokio::test]
async fn prometheus_can_read_the_metrics() {
    let lab = Lab::new();
    lab.acquire("a").await;
    let scrape = lab.get("/metrics").await;
    assert_eq!(scrape.status, 200);
    let samples = exposition::parse(&scrape.text);
    assert!(
        samples
            .keys()
            .any(|series| series
                .starts_with("redlock_sidecar_requests_total{route=\"/v1/locks/{name}/acquire\"")),
        "{}",
        scrape.text
    );
    assert!(samples.contains_key("redlock_sidecar_connections"));
    assert!(samples.contains_key("redlock_sidecar_sessions{kind=\"lease\"}"));
    if let Some(verdict) = exposition::promtool_agrees(&scrape.text) {
        verdict.unwrap();
    }
}

/// Goal: readers, names and permits are counted as holds of the name that their callers chose.
#[tokio::test]
async fn metrics_count_readers_names_and_permits() {
    let lab = Lab::new();
    for (name, body) in [
        ("metrics-shared", json!({ "mode": "shared" })),
        ("metrics-shared", json!({ "mode": "shared" })),
        ("metrics-one", json!({ "names": ["metrics-two"] })),
        ("metrics-slots", json!({ "slots": 3 })),
        ("metrics-slots", json!({ "slots": 3 })),
    ] {
        lab.post(&format!("/v1/locks/{name}/acquire"), &body).await.ok();
    }
    let held = |text: &str, name: &str| {
        let series = format!("redlock_locks_held{{resource=\"{name}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&series)?.parse::<u32>().ok())
    };
    let text = lab.get("/metrics").await.text;
    for (name, count) in [("metrics-shared", 2), ("metrics-one", 1), ("metrics-two", 1), ("metrics-slots", 2)]
    {
        assert_eq!(held(&text, name), Some(count), "{name}");
    }
    assert!(!text.contains("quorlock:slot"), "slots have no series of their own");
    let (_, mut events) = lab.open("/v1/events?after=0&lock=metrics-slots").await;
    assert_eq!(event(&mut events, "acquired").await["mode"], "exclusive");
}
