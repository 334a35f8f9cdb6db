//! Who may do what.

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
        path                      nobody  reader-reader-reader  locker-locker-locker  writer-writer-writer
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
            let shown = (*secret != "nobody").then_some(*secret);
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
    let nobody = Lab::open_to(Scope::None);
    nobody.get("/v1/overview").await.problem(403, "forbidden");
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
    assert!(matches!(missing, Err(SidecarError::Keys(_))));
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_from_outside_is_not_served() {
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
    // What anybody may do without a secret a page that was given our address must not.
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
