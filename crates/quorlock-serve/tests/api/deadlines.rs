//! When a lease ends: an absolute end on the boot clock, and an end for clients on other machines.

use crate::kit::{Lab, event};
use quorlock::{Clock, SystemClock};
use serde_json::{Value, json};
use std::time::Duration;

fn boot_ms() -> u64 {
    u64::try_from(SystemClock.now().since_boot().as_millis()).unwrap()
}

/// Checks the response to a request that was sent at `sent`, for a lease that nodes keep until `ends` on
/// the boot clock.
#[track_caller]
fn assert_bounded(response: &Value, sent: u64, ends: u64) {
    let number = |field: &str| response[field].as_u64().unwrap_or_else(|| panic!("no {field}: {response}"));
    let (deadline, left, age) =
        (number("deadline_boot_ms"), number("remaining_ms"), number("request_age_ms"));
    assert!(deadline <= ends, "{response}: over at {ends}");
    assert!(sent + age + left <= deadline, "{response}: sent at {sent}");
    // Each of them was rounded down.
    assert!(deadline <= boot_ms() + left + 1, "{response}: read at {}", boot_ms());
}

#[tokio::test]
async fn a_lease_says_when_it_ends_and_how_long_ago_it_was_asked_for() {
    let lab = Lab::new();
    let sent = boot_ms();
    let lease = lab.post("/v1/locks/a/acquire", &json!({ "ttl_ms": 5_000 })).await.ok();
    assert_bounded(&lease, sent, boot_ms() + 5_000);
    let sent = boot_ms();
    let longer =
        lab.post("/v1/locks/a/extend", &json!({ "token": lease["token"], "ttl_ms": 9_000 })).await.ok();
    assert_bounded(&longer, sent, boot_ms() + 9_000);
    assert!(longer["deadline_boot_ms"].as_u64() > lease["deadline_boot_ms"].as_u64());
    // Through a sidecar that did not grant it.
    let other = Lab::of(Lab::builder(&["memory:deadline-of-another"]));
    let stranger = Lab::of(Lab::builder(&["memory:deadline-of-another"]));
    let lease = other.acquire("a").await;
    let sent = boot_ms();
    let body = json!({ "token": lease["token"], "ttl_ms": 9_000 });
    assert_bounded(&stranger.post("/v1/locks/a/extend", &body).await.ok(), sent, boot_ms() + 9_000);
}

/// Goal: a client that counts from before its request knows how much of that it waited, and loses no
/// more than the time that its request travelled.
#[tokio::test]
async fn the_time_that_a_caller_waited_is_not_part_of_its_lease() {
    let lab = Lab::new();
    lab.post("/v1/locks/a/acquire", &json!({ "ttl_ms": 1_000 })).await.ok();
    let sent = boot_ms();
    let lease = lab.post("/v1/locks/a/acquire", &json!({ "ttl_ms": 9_000, "wait_ms": 60_000 })).await.ok();
    assert_bounded(&lease, sent, boot_ms() + 9_000);
    assert!(lease["request_age_ms"].as_u64().unwrap() >= 500, "{lease}");
}

#[tokio::test]
async fn each_event_of_a_hold_says_when_it_ends() {
    let lab = Lab::new();
    let sent = boot_ms();
    let (_, mut body) = lab.open("/v1/locks/a/hold?ttl_ms=600").await;
    let held = event(&mut body, "held").await;
    assert_bounded(&held, sent, boot_ms() + 600);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let extended = event(&mut body, "extended").await;
    assert_bounded(&extended, sent, boot_ms() + 600);
    assert!(extended["deadline_boot_ms"].as_u64() > held["deadline_boot_ms"].as_u64());
}

/// Goal: an event that was read late says the same as one that was read at once.
#[tokio::test]
async fn an_event_is_as_old_as_it_says() {
    let lab = Lab::new();
    let (_, mut body) = lab.open("/v1/locks/a/hold?ttl_ms=600").await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let held = event(&mut body, "held").await;
    assert!(held["deadline_boot_ms"].as_u64().unwrap() <= boot_ms() + 600, "{held}");
}
