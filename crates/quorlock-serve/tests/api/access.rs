//! What each caller may do.

use crate::kit::Lab;
use axum::http::StatusCode;
use quorlock_serve::{Peer, Scope, SidecarError};
use serde_json::json;
use std::fs;
use tempfile::TempDir;

const SECRETS: &str = "read:reader-reader-reader\nlock:locker-locker-locker\nwrite:writer-writer-writer\n";

fn guarded(anonymous: Option<Scope>) -> (Lab, TempDir) {
    guarded_from(Peer::Remote, anonymous)
}

fn guarded_from(peer: Peer, anonymous: Option<Scope>) -> (Lab, TempDir) {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("tokens");
    fs::write(&path, SECRETS).unwrap();
    let builder = Lab::builder(&["memory:"]).token_file(Some(path)).anonymous(anonymous);
    (Lab::from(builder.build().unwrap(), peer), dir)
}

async fn status(lab: &Lab, secret: Option<&str>, path: &str) -> StatusCode {
    let header = secret.map(|secret| format!("Bearer {secret}"));
    let headers: Vec<_> = header.iter().map(|header| ("authorization", header.as_str())).collect();
    if path.ends_with("acquire") || path.ends_with("force-release") {
        let body = if path.ends_with("acquire") { json!({}) } else { json!({ "token": "0".repeat(32) }) };
        return lab.post_with(path, &headers, &body).await.status;
    }
    lab.get_with(path, &headers).await.status
}

#[tokio::test]
async fn each_scope_includes_those_below() {
    let (lab, _dir) = guarded(None);
    let table = "
        path                      none    reader-reader-reader  locker-locker-locker  writer-writer-writer
        /v1/locks                 401     200                   200                   200
        /v1/overview              401     200                   200                   200
        /metrics                  401     200                   200                   200
        /openapi.json             401     200                   200                   200
        /v1/locks/a/acquire       401     403                   200                   409
        /v1/locks/a/force-release 401     403                   403                   410
        /healthz                  200     200                   200                   200
        /readyz                   200     200                   200                   200
        /                         200     200                   200                   200
        /assets/app.js            200     200                   200                   200";
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|row| row.split_whitespace().collect()).collect();
    for row in &rows[1..] {
        for (secret, expected) in rows[0].iter().zip(row).skip(1) {
            let shown = (*secret != "none").then_some(*secret);
            let found = status(&lab, shown, row[0]).await;
            assert_eq!(found.as_u16().to_string(), *expected, "{} {secret}", row[0]);
        }
    }
}

#[tokio::test]
async fn a_wrong_secret_is_not_the_same_as_none_and_is_not_repeated() {
    let (lab, _dir) = guarded(Some(Scope::Read));
    assert_eq!(lab.get("/v1/locks").await.status, 200);
    for header in [
        "Bearer wrong-wrong-wrong-wrong",
        "Bearer",
        "Bearer ",
        "Basic cmVhZGVyOnJlYWRlcg==",
        "reader-reader-reader",
        "Bearer reader-reader-reade",
        "Bearer é",
    ] {
        let answer = lab.get_with("/v1/locks", &[("authorization", header)]).await;
        assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"quorlock\"");
        assert!(!answer.text.contains("wrong-wrong") && !answer.text.contains("cmVhZGVy"));
        answer.problem(401, "unauthorized");
    }
    let answer = lab.post("/v1/locks/a/acquire", &json!({})).await;
    answer.problem(401, "unauthorized");
    let shown = [("authorization", "bearer reader-reader-reader")];
    let problem = lab.post_with("/v1/locks/a/acquire", &shown, &json!({})).await.problem(403, "forbidden");
    assert!(problem["detail"].as_str().unwrap().contains("`lock`"), "{problem}");
}

#[tokio::test]
async fn what_callers_without_a_secret_may_do_depends_on_where_they_come_from() {
    let local = Lab::new();
    assert_eq!(local.get("/v1/overview").await.ok()["scope"], "lock");
    let owner = Lab::from(local.sidecar.clone(), Peer::Unix);
    assert_eq!(owner.get("/v1/overview").await.ok()["scope"], "write");
    let closed = Lab::open_to(Scope::None);
    closed.get("/v1/overview").await.problem(403, "forbidden");
}

#[tokio::test]
async fn secrets_can_be_changed_while_it_runs_and_a_bad_file_changes_nothing() {
    let (lab, dir) = guarded(None);
    let path = dir.path().join("tokens");
    fs::write(&path, "read:short").unwrap();
    assert!(lab.sidecar.reload().is_err());
    assert_eq!(status(&lab, Some("reader-reader-reader"), "/v1/locks").await, 200);
    fs::write(&path, "read:another-another-another").unwrap();
    lab.sidecar.reload().unwrap();
    assert_eq!(status(&lab, Some("reader-reader-reader"), "/v1/locks").await, 401);
    assert_eq!(status(&lab, Some("another-another-another"), "/v1/locks").await, 200);
}

#[tokio::test]
async fn a_missing_file_of_secrets_is_an_error_at_the_start() {
    let missing = Lab::builder(&["memory:"]).token_file(Some("/nowhere/tokens".into())).build();
    assert!(matches!(missing, Err(SidecarError::Secrets(_))));
}

#[tokio::test]
async fn a_foreign_name_that_resolves_to_this_machine_is_not_served() {
    let lab = Lab::new();
    for host in ["evil.example", "evil.example:7420", "10.0.0.1:7420", "localhost.evil.example"] {
        lab.get_with("/v1/locks", &[("host", host)]).await.problem(421, "wrong_host");
        lab.get_with("/", &[("host", host)]).await.problem(421, "wrong_host");
    }
    for host in ["localhost", "127.0.0.1:7420", "[::1]:7420"] {
        assert_eq!(lab.get_with("/v1/locks", &[("host", host)]).await.status, 200, "{host}");
    }
    let (guarded, _dir) = guarded(None);
    let shown = [("host", "locks.example"), ("authorization", "Bearer reader-reader-reader")];
    assert_eq!(guarded.get_with("/v1/locks", &shown).await.status, 200);
    // A page whose name resolves to this machine must not do what callers without a secret may.
    let (open, _dir) = guarded_from(Peer::Loopback, Some(Scope::Write));
    open.get_with("/v1/locks", &[("host", "evil.example")]).await.problem(421, "wrong_host");
    assert_eq!(open.get_with("/v1/locks", &shown).await.status, 200);
}

#[tokio::test]
async fn pages_of_other_sites_cannot_call() {
    let lab = Lab::new();
    for headers in [
        [("origin", "http://evil.example"), ("x", "y")],
        [("origin", "null"), ("x", "y")],
        [("origin", "http://localhost:3000"), ("x", "y")],
        [("sec-fetch-site", "cross-site"), ("x", "y")],
        [("sec-fetch-site", "same-site"), ("x", "y")],
        [("sec-fetch-site", "same-origin"), ("origin", "http://evil.example")],
        [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
    ] {
        lab.post_with("/v1/locks/a/acquire", &headers, &json!({})).await.problem(403, "cross_site");
        lab.get_with("/v1/locks/a/hold", &headers).await.problem(403, "cross_site");
    }
    assert!(!lab.is_held("a").await);
    let own = [("origin", "http://localhost:7420"), ("sec-fetch-site", "same-origin")];
    lab.post_with("/v1/locks/a/acquire", &own, &json!({})).await.ok();
    // A link to the dashboard may be followed from anywhere.
    let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
    assert_eq!(lab.get_with("/", &link).await.status, 200);
}

#[tokio::test]
async fn the_page_may_load_nothing_from_elsewhere() {
    let lab = Lab::new();
    for (path, kind) in [
        ("/", "text/html"),
        ("/assets/app.js", "text/javascript"),
        ("/assets/style.css", "text/css"),
        ("/assets/uplot.js", "text/javascript"),
        ("/assets/uplot.css", "text/css"),
    ] {
        let answer = lab.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with(kind), "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert_eq!(answer.headers["referrer-policy"], "no-referrer");
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
}

/// Goal: a typing error does not grant the strongest scope.
#[tokio::test]
async fn a_mistyped_or_missing_scope_is_refused_with_its_line() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("tokens");
    for line in ["raed:reader-reader-reader", "reader-reader-reader", "Read:reader-reader-reader"] {
        fs::write(&path, format!("# ours\nlock:locker-locker-locker\n{line}\n")).unwrap();
        let refused = Lab::builder(&["memory:"]).token_file(Some(path.clone())).build().unwrap_err();
        let text = refused.to_string();
        assert!(text.contains("line 3") && text.contains("read, lock or write"), "{text}");
        assert!(!text.contains("reader-reader"), "{text}");
    }
}

#[tokio::test]
async fn readiness_shows_nodes_only_to_callers_that_may_read() {
    let (lab, _dir) = guarded(None);
    let plain = lab.get("/readyz").await.ok();
    assert_eq!(plain, json!({ "ready": true }));
    let wrong = lab.get_with("/readyz", &[("authorization", "Bearer wrong-wrong-wrong-wrong")]).await.ok();
    assert_eq!(wrong, json!({ "ready": true }));
    let shown = [("authorization", "Bearer reader-reader-reader")];
    let full = lab.get_with("/readyz", &shown).await.ok();
    assert_eq!(
        (&full["up"], &full["quorum"], full["nodes"].as_array().map(Vec::len)),
        (&json!(1), &json!(1), Some(1))
    );
    assert_eq!(Lab::new().get("/readyz").await.ok()["up"], 1);
}

/// Goal: a page whose name was rebound to this machine cannot call where callers need no secret.
#[tokio::test]
async fn a_foreign_name_is_not_served_where_callers_need_no_secret() {
    let (open, _dir) = guarded(Some(Scope::Read));
    open.get_with("/v1/locks", &[("host", "evil.example:7420")]).await.problem(421, "wrong_host");
    let shown = [("host", "locks.example"), ("authorization", "Bearer reader-reader-reader")];
    assert_eq!(open.get_with("/v1/locks", &shown).await.status, 200);
    // An address cannot be rebound.
    for host in ["10.0.0.1:7420", "[fd00::1]:7420", "localhost:7420"] {
        assert_eq!(open.get_with("/v1/locks", &[("host", host)]).await.status, 200, "{host}");
    }
    // Probes may call by any name.
    let (closed, _dir) = guarded(None);
    assert_eq!(closed.get_with("/healthz", &[("host", "evil.example")]).await.status, 200);
}

/// Goal: the event log names the caller that released a lock by force, without its secret and the token.
#[tokio::test]
async fn a_forced_release_is_an_event_with_its_caller() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("tokens");
    fs::write(&path, "write:ann:writer-writer-writer\n").unwrap();
    let lab = Lab::from(Lab::builder(&["memory:"]).token_file(Some(path)).build().unwrap(), Peer::Remote);
    let shown = [("authorization", "Bearer writer-writer-writer")];
    let lease = lab.post_with("/v1/locks/job/acquire", &shown, &json!({})).await.ok();
    let body = json!({ "token": lease["token"] });
    lab.post_with("/v1/locks/job/force-release", &shown, &body).await.ok();
    lab.post_with("/v1/locks/job/force-release", &shown, &body).await.problem(410, "lost");
    let (_, mut events) = lab.open_with("/v1/events?after=0", &shown).await;
    let text = crate::kit::text(&mut events, "\"already_gone\"").await;
    let forced: Vec<serde_json::Value> = text
        .split("\n\n")
        .filter(|event| event.contains("event: force_released\n"))
        .map(|event| serde_json::from_str(event.split_once("data: ").unwrap().1).unwrap())
        .collect();
    let outcomes: Vec<_> = forced.iter().map(|event| event["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["released", "already_gone"], "{text}");
    for event in &forced {
        assert_eq!((&event["lock"], &event["secret"]), (&json!("job"), &json!("ann")), "{event}");
        assert_eq!((&event["scope"], &event["peer"]), (&json!("write"), &json!("unknown")), "{event}");
    }
    assert!(!text.contains("writer-writer") && !text.contains(lease["token"].as_str().unwrap()), "{text}");
}

#[tokio::test]
async fn wrong_secrets_are_counted_and_missing_ones_are_not() {
    let (lab, _dir) = guarded(None);
    let count = async || {
        let shown = [("authorization", "Bearer reader-reader-reader")];
        let text = lab.get_with("/metrics", &shown).await.text;
        let line =
            text.lines().find(|line| line.starts_with("redlock_sidecar_wrong_secrets_total ")).unwrap();
        line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
    };
    // Other tests of this process count as well.
    let before = count().await;
    for _ in 0..3 {
        let wrong = [("authorization", "Bearer wrong-wrong-wrong-wrong")];
        lab.get_with("/v1/locks", &wrong).await.problem(401, "unauthorized");
    }
    assert!(count().await >= before + 3.0);
    let text = lab.get_with("/metrics", &[("authorization", "Bearer reader-reader-reader")]).await.text;
    assert!(text.contains("redlock_sidecar_problems_total{code=\"unauthorized\"}"), "{text}");
}

#[tokio::test]
async fn a_published_origin_may_call_by_its_name() {
    let origins = vec!["https://locks.example.com".parse().unwrap()];
    let builder = Lab::builder(&["memory:"]).origins(origins);
    let lab = Lab::of(builder);
    let page = [("origin", "https://locks.example.com"), ("sec-fetch-site", "same-origin")];
    for host in ["locks.example.com", "localhost:7420"] {
        let headers = [&page[..], &[("host", host)]].concat();
        let lease = lab.post_with("/v1/locks/a/acquire", &headers, &json!({})).await.ok();
        lab.post_with("/v1/locks/a/release", &headers, &json!({ "token": lease["token"] })).await.ok();
    }
    for origin in ["http://locks.example.com", "https://evil.example", "https://locks.example.com:8443"] {
        let headers = [("origin", origin), ("host", "localhost:7420")];
        lab.post_with("/v1/locks/a/acquire", &headers, &json!({})).await.problem(403, "cross_site");
    }
    lab.get_with("/v1/locks", &[("host", "evil.example")]).await.problem(421, "wrong_host");
}

/// Goal: one caller cannot fill the nodes, which keep a counter for each name for a week.
#[tokio::test]
async fn new_names_are_bounded_for_each_secret() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("tokens");
    fs::write(&path, "lock:bob:locker-locker-locker\nlock:ann:second-second-second\n").unwrap();
    let mut limits = quorlock_serve::Limits::default();
    limits.new_names = 1;
    let builder = Lab::builder(&["memory:"]).token_file(Some(path)).limits(limits);
    let lab = Lab::from(builder.build().unwrap(), Peer::Remote);
    let acquire = async |secret: &str, name: usize| {
        let header = format!("Bearer {secret}");
        lab.post_with(&format!("/v1/locks/n{name}/acquire"), &[("authorization", &header)], &json!({})).await
    };
    let mut refused = None;
    for name in 0..1000 {
        let answer = acquire("locker-locker-locker", name).await;
        if answer.status != 200 {
            refused = Some((name, answer));
            break;
        }
    }
    let (name, answer) = refused.unwrap();
    assert!((100..200).contains(&name), "the burst is 100 names: {name}");
    assert_eq!(answer.headers["retry-after"], "1");
    answer.problem(429, "too_many_names");
    acquire("locker-locker-locker", 0).await.problem(409, "held");
    acquire("second-second-second", name).await.ok();
    acquire("locker-locker-locker", name).await.problem(409, "held");
}
