//! Searching, sorting and paging the list of held locks.

use crate::kit::{Lab, event, text};
use quorlock_testkit::until;
use serde_json::{Value, json};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// A sidecar with these locks, each acquired later and for longer than the one before, and their leases.
async fn lab_with(locks: &[(&str, &str, &str)]) -> (Lab, Vec<Value>) {
    let (lab, mut leases) = (Lab::new(), Vec::new());
    for (name, owner, reason) in locks {
        let ttl = 10_000 + 500 * leases.len();
        let terms = json!({ "owner": owner, "reason": reason, "ttl_ms": ttl });
        leases.push(lab.post(&format!("/v1/locks/{name}/acquire"), &terms).await.ok());
        // Starts are counted in milliseconds.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    listed(&lab, locks.len()).await;
    (lab, leases)
}

/// Waits until the list, which is cached for a moment, has `count` locks.
async fn listed(lab: &Lab, count: usize) {
    until("the list is new", LIMIT, async || lab.get("/v1/locks").await.ok()["total"] == count).await;
}

fn names(answer: &Value) -> Vec<&str> {
    answer["locks"].as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap()).collect()
}

/// The part of a query that asks for the page after this one.
fn after(page: &Value) -> Option<String> {
    let next = page["next"].as_str()?;
    Some(format!("&after={}", next.replace('%', "%25").replace(' ', "%20").replace('&', "%26")))
}

#[tokio::test]
async fn a_search_covers_name_owner_and_reason_in_any_case() {
    let (lab, leases) = lab_with(&[
        ("orders-1", "web-1", "checkout"),
        ("orders-2", "Ärger", "refund"),
        ("other", "web-2", "nothing"),
        ("report", "cron", "monthly ORDERS"),
    ])
    .await;
    let pid = std::process::id().to_string();
    for (q, found) in [
        ("ORDERS", &["orders-1", "orders-2", "report"][..]),
        ("%C3%A4rg", &["orders-2"]),
        ("web", &["orders-1", "other"]),
        ("CHECK", &["orders-1"]),
        ("", &["orders-1", "orders-2", "other", "report"]),
        (&pid, &["orders-1", "orders-2", "other", "report"]),
        ("absent", &[]),
    ] {
        let answer = lab.get(&format!("/v1/locks?q={q}")).await;
        assert!(leases.iter().all(|lease| !answer.text.contains(lease["token"].as_str().unwrap())));
        let seen = answer.ok();
        assert_eq!(names(&seen), found, "{q}");
        assert_eq!((&seen["total"], &seen["matched"]), (&json!(4), &json!(found.len())), "{q}");
        assert_eq!((&seen["next"], &seen["complete"]), (&json!(null), &json!(true)), "{q}");
        let seen = lab.get(&format!("/v1/overview?q={q}")).await.ok();
        assert_eq!(names(&seen), found, "{q}");
        assert_eq!((&seen["locks_total"], &seen["locks_matched"]), (&json!(4), &json!(found.len())), "{q}");
    }
}

#[tokio::test]
async fn pages_give_each_lock_once_in_each_order() {
    let (lab, leases) =
        lab_with(&[("a%20b", "", ""), ("b%26", "", ""), ("c", "", ""), ("d", "", ""), ("e", "", "")]).await;
    for sort in ["name", "since", "remaining", "-name", "-since", "-remaining"] {
        let mut order = ["a b", "b&", "c", "d", "e"];
        if sort.starts_with('-') {
            order.reverse();
        }
        let (mut seen, mut cursor) = (Vec::new(), String::new());
        for before in [0, 2, 4] {
            let page = lab.get(&format!("/v1/locks?limit=2&sort={sort}{cursor}")).await.ok();
            assert_eq!((&page["matched"], &page["before"]), (&json!(5), &json!(before)), "{sort}");
            seen.extend(names(&page).iter().map(ToString::to_string));
            cursor = after(&page).unwrap_or_default();
        }
        assert_eq!((seen, cursor.as_str()), (order.map(str::to_owned).to_vec(), ""), "{sort}");
    }
    let first = lab.get("/v1/overview?limit=2&sort=since").await.ok();
    assert_eq!((names(&first), &first["locks_before"]), (vec!["a b", "b&"], &json!(0)));
    // The last lock of a page is released, and the next page begins where it was.
    let first = lab.get("/v1/locks?limit=2&sort=since").await.ok();
    lab.post("/v1/locks/b%26/release", &json!({ "token": leases[1]["token"] })).await.ok();
    listed(&lab, 4).await;
    let rest = lab.get(&format!("/v1/locks?sort=since{}", after(&first).unwrap())).await.ok();
    assert_eq!((names(&rest), &rest["before"]), (vec!["c", "d", "e"], &json!(1)));
}

#[tokio::test]
async fn a_wrong_search_is_refused_with_the_valid_parameters() {
    let lab = Lab::new();
    for path in ["/v1/locks", "/v1/overview"] {
        for (query, detail) in [
            ("limit=0", "1 to 10000"),
            ("limit=10001", "1 to 10000"),
            ("limit=-1", "limit (1 to 10000)"),
            ("limit=all", "limit (1 to 10000)"),
            ("sort=fence", "sort (name, since or remaining"),
            ("after=nonsense", "`next`"),
            ("after=", "`next`"),
            ("page=2", "q (text"),
            (&format!("q={}", "x".repeat(513)), "512 bytes"),
        ] {
            let problem = lab.get(&format!("{path}?{query}")).await.problem(400, "bad_request");
            let found = problem["detail"].as_str().unwrap();
            assert!(found.contains(detail), "{path}?{query}: {found}");
        }
        lab.get(&format!("{path}?q={}&limit=10000&sort=-since", "x".repeat(512))).await.ok();
    }
}

#[tokio::test]
async fn events_of_one_lock_come_without_those_of_others() {
    let lab = Lab::new();
    let (_, mut live) = lab.open("/v1/events?lock=a%2Fb").await;
    lab.acquire("other").await;
    let lease = lab.acquire("a%2Fb").await;
    lab.acquire("third").await;
    lab.post("/v1/locks/a%2Fb/release", &json!({ "token": lease["token"] })).await.ok();
    let events = text(&mut live, "event: released").await;
    assert!(events.contains("a/b") && !events.contains("other") && !events.contains("third"), "{events}");
    let (_, mut late) = lab.open("/v1/events?after=0&lock=third").await;
    assert_eq!(event(&mut late, "acquired").await["lock"], "third");
}
