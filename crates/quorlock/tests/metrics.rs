//! What the metrics say after real lock cycles on real servers.
#![allow(clippy::unwrap_used)]

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use metrics_util::MetricKindMask;
use quorlock::metrics::{BUCKETS, Metrics, record_health};
use quorlock::{Builder, Locker};
use quorlock_testkit::{Servers, exposition, until, within};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(20);

fn recorder() -> (PrometheusRecorder, PrometheusHandle) {
    let mut builder = PrometheusBuilder::new();
    for (name, buckets) in BUCKETS {
        builder = builder.set_buckets_for_metric(Matcher::Full((*name).to_owned()), buckets).unwrap();
    }
    let recorder = builder.build_recorder();
    let handle = recorder.handle();
    (recorder, handle)
}

fn builder(servers: &Servers) -> Builder {
    Locker::builder().nodes(servers.urls()).node_timeout(Duration::from_millis(500))
}

fn metrics() -> Metrics {
    Metrics::new().every(Duration::from_millis(100))
}

/// The value of a series, if there is one.
fn value(handle: &PrometheusHandle, series: &str) -> Option<f64> {
    handle.run_upkeep();
    exposition::parse(&handle.render()).get(series).copied()
}

/// Goal: a cycle with contention on healthy servers is seen with every number right.
#[tokio::test]
async fn a_lock_cycle_is_counted() {
    let (recorder, seen) = recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let servers = Servers::start(3);
    let (one, other) = (
        builder(&servers).metrics(metrics()).build().unwrap(),
        builder(&servers).metrics(metrics()).build().unwrap(),
    );
    quorlock_testkit::init_nodes(&one).await;
    let guard = one.named("a").unwrap().acquire().await.unwrap();
    assert_eq!(value(&seen, "redlock_locks_held{resource=\"a\"}"), Some(1.0));
    let waits = other.named("a").unwrap().wait_timeout(Duration::from_millis(300));
    waits.acquire().await.unwrap_err();
    guard.extend().await.unwrap();
    let _ = guard.release().await;

    for (series, wanted) in [
        ("redlock_acquire_duration_seconds_count{resource=\"a\"}", 1.0),
        ("redlock_quorum_size{resource=\"a\"}", 2.0),
        ("redlock_locks_held{resource=\"a\"}", 0.0),
        ("redlock_wait_seconds_count{resource=\"a\"}", 2.0),
        ("redlock_hold_seconds_count{resource=\"a\"}", 1.0),
        ("redlock_acquire_attempts_sum{resource=\"a\"}", 1.0),
        ("redlock_acquire_failures_total{reason=\"held\",resource=\"a\"}", 1.0),
        ("redlock_extensions_total{resource=\"a\"}", 1.0),
        ("redlock_extension_validity_left_seconds_count{resource=\"a\"}", 1.0),
        ("redlock_releases_total{outcome=\"released\",resource=\"a\"}", 1.0),
    ] {
        assert_eq!(value(&seen, series), Some(wanted), "{series}\n{}", seen.render());
    }
    for series in ["redlock_attempts_refused_total", "redlock_waits_total"] {
        assert!(value(&seen, &format!("{series}{{resource=\"a\"}}")) >= Some(1.0), "{series}");
    }
    assert!(value(&seen, "redlock_wait_seconds_sum{resource=\"a\"}") >= Some(0.3));
    assert!(exposition::promtool_agrees(&seen.render()).is_none_or(|verdict| verdict.is_ok()));
}

/// Goal: a killed node is counted by node and by cause, and its gauges go to 0.
#[tokio::test]
async fn a_killed_node_is_seen() {
    let (recorder, seen) = recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let mut servers = Servers::start(3);
    let locker = builder(&servers).metrics(metrics()).build().unwrap();
    quorlock_testkit::init_nodes(&locker).await;
    let node = |name: &str, number: usize| format!("{name}{{node=\"{}\"}}", locker.health()[number].node);
    let lock = locker.named("a").unwrap();
    let _ = lock.acquire().await.unwrap().release().await;
    record_health(&locker.health());
    for number in 0..3 {
        for name in ["redlock_node_up", "redlock_node_can_vote"] {
            assert_eq!(value(&seen, &node(name, number)), Some(1.0), "{}", seen.render());
        }
        assert!(value(&seen, &node("redlock_node_round_trip_seconds", number)) > Some(0.0));
        assert_eq!(value(&seen, &node("redlock_node_failures_total", number)), Some(0.0));
    }

    servers[0].kill();
    until("the loss of the node is seen", SOON, async || {
        let _ = lock.acquire().await.unwrap().release().await;
        value(&seen, &node("redlock_node_failures_total", 0)) > Some(0.0)
            && value(&seen, &node("redlock_node_up", 0)) == Some(0.0)
    })
    .await;
    for gauge in
        ["can_vote", "round_trip_seconds", "clock_offset_seconds", "quarantine_seconds", "queue_depth"]
    {
        assert_eq!(value(&seen, &node(&format!("redlock_node_{gauge}"), 0)), Some(0.0), "{gauge}");
    }
    assert!(value(&seen, &node("redlock_node_downs_total", 0)) >= Some(1.0));
    assert_eq!(value(&seen, &node("redlock_node_up", 1)), Some(1.0));
    let by_cause: f64 = exposition::parse(&seen.render())
        .iter()
        .filter(|(series, _)| series.starts_with("redlock_node_failures_by_cause_total{cause="))
        .map(|(_, value)| value)
        .sum();
    assert!(by_cause >= 1.0, "{}", seen.render());
}

/// Goal: new servers are seen as up but without a vote, without anybody asking for gauges.
#[tokio::test]
async fn quarantine_is_seen() {
    let (recorder, seen) = recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let servers = Servers::start(3);
    let locker = builder(&servers).metrics(metrics()).build().unwrap();
    locker.connect().await.unwrap_err();
    let node = locker.health()[0].node.clone();
    let of = |name: &str| value(&seen, &format!("redlock_node_{name}{{node=\"{node}\"}}"));
    until("the gauges come by themselves", SOON, async || {
        of("up") == Some(1.0) && of("can_vote") == Some(0.0) && of("quarantine_seconds") > Some(1.0)
    })
    .await;
}

/// Goal: a lost lock counts once as held and once as lost, however its guard ends.
#[tokio::test]
async fn a_loss_is_counted_once() {
    let (recorder, seen) = recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let locker = Locker::builder().nodes(["memory:"]).metrics(metrics()).build().unwrap();
    let lock = locker.named("a").unwrap().max_hold(Duration::from_millis(500));
    let guard = lock.acquire().await.unwrap();
    within("the loss", Duration::from_secs(20), guard.lost()).await;
    let _ = guard.release().await;
    assert_eq!(value(&seen, "redlock_losses_total{reason=\"max_hold\",resource=\"a\"}"), Some(1.0));
    assert_eq!(value(&seen, "redlock_hold_seconds_count{resource=\"a\"}"), Some(1.0));
    assert_eq!(value(&seen, "redlock_locks_held{resource=\"a\"}"), Some(0.0));
}

/// Goal: a lock that moves to another process, or fails to, leaves the number of held locks right.
#[tokio::test]
async fn a_lock_that_moves_is_held_once() {
    let (recorder, seen) = recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let locker = Locker::builder().nodes(["memory:"]).metrics(metrics()).build().unwrap();
    let held = || value(&seen, "redlock_locks_held{resource=\"a\"}");
    let handle = locker.named("a").unwrap().acquire().await.unwrap().into_handle().await.unwrap();
    assert_eq!(held(), Some(0.0));
    let adopted = locker.adopt(&handle).await.unwrap();
    assert_eq!(held(), Some(1.0));
    let _ = adopted.release().await;
    locker.adopt(&handle).await.unwrap_err();
    assert_eq!(held(), Some(0.0));
    assert_eq!(value(&seen, "redlock_adoptions_total{resource=\"a\"}"), Some(1.0));
    assert_eq!(value(&seen, "redlock_handoffs_total{resource=\"a\"}"), Some(1.0));
}

/// Goal: names beyond the bound share one label.
#[tokio::test]
async fn names_beyond_the_bound_are_other() {
    let (recorder, seen) = recorder();
    let _local = metrics::set_default_local_recorder(&recorder);
    let locker = Locker::builder().nodes(["memory:"]).metrics(metrics().with_names(2)).build().unwrap();
    for name in ["a", "b", "c", "d", "a"] {
        let _ = locker.named(name).unwrap().acquire().await.unwrap().release().await;
    }
    let count =
        |name: &str| value(&seen, &format!("redlock_acquire_duration_seconds_count{{resource=\"{name}\"}}"));
    assert_eq!(["a", "b", "c", "other"].map(count), [Some(2.0), Some(1.0), None, Some(2.0)]);
}

/// Goal: an exporter that drops idle series drops none of a lock that is held, and gets those that it dropped again
/// when they are used.
#[tokio::test]
async fn series_of_a_held_lock_are_not_idle() {
    let timeout = Duration::from_millis(600);
    let recorder = PrometheusBuilder::new().idle_timeout(MetricKindMask::ALL, Some(timeout)).build_recorder();
    let seen = recorder.handle();
    let _local = metrics::set_default_local_recorder(&recorder);
    let locker = Locker::builder().nodes(["memory:"]).metrics(metrics()).build().unwrap();
    let lock = locker.named("a").unwrap();
    let _ = lock.acquire().await.unwrap().release().await;
    let guard = lock.watchdog(false).ttl(Duration::from_secs(25)).acquire().await.unwrap();
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(value(&seen, "redlock_locks_held{resource=\"a\"}"), Some(1.0));
        let releases = "redlock_releases_total{outcome=\"released\",resource=\"a\"}";
        assert_eq!(value(&seen, releases), Some(1.0));
    }
    assert_eq!(value(&seen, "redlock_quorum_size{resource=\"a\"}"), None, "the timeout is over");
    let _ = guard.release().await;
    assert_eq!(value(&seen, "redlock_locks_held{resource=\"a\"}"), Some(0.0));
    let _again = locker.named("a").unwrap().acquire().await.unwrap();
    assert_eq!(value(&seen, "redlock_quorum_size{resource=\"a\"}"), Some(1.0));
}
