//! Requests that are wrong in every way that we could think of.

use crate::kit::Lab;
use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

const ACQUIRE: &str = "/v1/locks/a/acquire";

async fn send(lab: &Lab, path: &str, kind: &str, body: impl Into<Body>) -> crate::kit::Answer {
    let request = Request::post(path).header("host", "localhost").header("content-type", kind);
    lab.send(request.body(body.into()).unwrap()).await
}

#[tokio::test]
async fn what_is_no_json_of_ours_is_refused() {
    let lab = Lab::new();
    let secret = "5ecre7".repeat(5);
    for body in [
        "",
        "{",
        "[]",
        "null",
        "7",
        "{\"ttl_ms\": -1}",
        "{\"ttl_ms\": 1.5}",
        "{\"ttl_ms\": \"9\"}",
        "{\"ttl_ms\": 99999999999999999999}",
        "{\"unknown\": 1}",
        "{\"owner\": 1}",
        "{} {}",
        "{\"ttl_ms\": 1, \"ttl_ms\": 1}",
        "\u{0}",
        &format!("{{\"ttl_ms\": \"{secret}\"}}"),
        &format!("{{\"{secret}\": 1}}"),
    ] {
        let answer = send(&lab, ACQUIRE, "application/json", body.to_owned()).await;
        assert!(!answer.text.contains(&secret), "{}", answer.text);
        answer.problem(400, "bad_request");
    }
    send(&lab, ACQUIRE, "application/json", vec![0xff, 0xfe]).await.problem(400, "bad_request");
    let deep = "[".repeat(16_000);
    send(&lab, ACQUIRE, "application/json", deep).await.problem(400, "bad_request");
    assert!(!lab.is_held("a").await);
}

#[tokio::test]
async fn a_body_has_an_end() {
    let lab = Lab::new();
    let body = |bytes: usize| format!("{{\"reason\": \"{}\"}}", "x".repeat(bytes - 14));
    assert_eq!(body(16 * 1024).len(), 16 * 1024);
    assert_eq!(send(&lab, ACQUIRE, "application/json", body(16 * 1024)).await.status, 200);
    send(&lab, ACQUIRE, "application/json", body(16 * 1024 + 1)).await.problem(413, "body_too_large");
    let endless = futures_util::stream::repeat_with(|| Ok::<_, std::io::Error>(vec![b' '; 1000]));
    send(&lab, ACQUIRE, "application/json", Body::from_stream(endless)).await.problem(413, "body_too_large");
}

#[tokio::test]
async fn a_body_must_say_that_it_is_json() {
    let lab = Lab::new();
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp", "multipart/form-data"]
    {
        send(&lab, ACQUIRE, kind, "{}").await.problem(415, "wrong_content_type");
    }
    for kind in ["application/json", "Application/JSON; charset=utf-8"] {
        let answer = send(&lab, &format!("/v1/locks/{}/acquire", kind.len()), kind, "{}").await;
        assert_eq!(answer.status, 200, "{kind}");
    }
    let bare = Request::post(ACQUIRE).header("host", "localhost").body(Body::from("{}")).unwrap();
    lab.send(bare).await.problem(415, "wrong_content_type");
}

#[tokio::test]
async fn names_that_no_lock_may_have_are_refused() {
    let lab = Lab::new();
    let long = "x".repeat(513);
    for name in ["%00", "a%0Ab", "%7F", "quorlock:epoch", "%71uorlock%3Aepoch", "%FF", "%C3%28", &long] {
        let answer = lab.post(&format!("/v1/locks/{name}/acquire"), &json!({})).await;
        answer.problem(400, "bad_name");
        lab.get(&format!("/v1/locks/{name}")).await.problem(400, "bad_name");
    }
    lab.post("/v1/locks//acquire", &json!({})).await.problem(400, "bad_name");
    for path in [
        "/v1/locks/a/b/acquire",
        "/v1/locks/",
        "/v2",
        "/v1.0-alpha1/lock/store",
        "/v1/locks/a/",
        "/..",
        "/assets/../app.js",
        "/assets/..%2Fapp.js",
        "/assets/nope",
    ] {
        lab.get(path).await.problem(404, "not_found");
    }
}

#[tokio::test]
async fn odd_names_are_valid_names() {
    let lab = Lab::new();
    for (path, name) in [
        ("..", ".."),
        ("%2E%2E%2F%2E%2E%2Fetc%2Fpasswd", "../../etc/passwd"),
        ("a%20b", "a b"),
        ("a+b", "a+b"),
        ("%25", "%"),
        ("%C3%A9", "é"),
        ("a%3Fb%23c", "a?b#c"),
        ("{name}", "{name}"),
        ("acquire", "acquire"),
    ] {
        let path = path.replace('{', "%7B").replace('}', "%7D");
        assert_eq!(lab.acquire(&path).await["name"], name);
    }
    let longest = "x".repeat(512);
    assert_eq!(lab.acquire(&longest).await["name"], longest);
}

#[tokio::test]
async fn ttls_waits_and_tokens_have_bounds() {
    let lab = Lab::new();
    for ttl in [0, 1, 31_000, u64::MAX] {
        lab.post(ACQUIRE, &json!({ "ttl_ms": ttl })).await.problem(400, "bad_ttl");
    }
    lab.post(ACQUIRE, &json!({ "wait_ms": 3_600_001 })).await.problem(400, "bad_request");
    let lease = lab.acquire("a").await;
    lab.post("/v1/locks/a/extend", &json!({ "token": lease["token"], "ttl_ms": 31_000 }))
        .await
        .problem(400, "bad_ttl");
    for token in ["", "x", &"A".repeat(32), &"a".repeat(33), "é"] {
        for verb in ["extend", "release"] {
            let answer = lab.post(&format!("/v1/locks/a/{verb}"), &json!({ "token": token })).await;
            answer.problem(400, "bad_token");
        }
    }
    lab.post("/v1/locks/a/release", &json!({})).await.problem(400, "bad_request");
    assert!(lab.is_held("a").await);
}

#[tokio::test]
async fn each_path_has_its_methods() {
    let lab = Lab::new();
    let answer = lab.get(ACQUIRE).await;
    assert_eq!(answer.headers["allow"], "POST");
    answer.problem(405, "method_not_allowed");
    lab.post("/v1/locks", &json!({})).await.problem(405, "method_not_allowed");
    let delete = Request::delete("/v1/locks/a").header("host", "localhost").body(Body::empty()).unwrap();
    lab.send(delete).await.problem(405, "method_not_allowed");
}

#[tokio::test]
async fn unknown_parameters_are_refused() {
    let lab = Lab::new();
    for query in ["x=1", "ttl_ms=abc", "ttl_ms=-1", "wait_ms=3600001"] {
        lab.get(&format!("/v1/locks/a/hold?{query}")).await.problem(400, "bad_request");
    }
    lab.get("/v1/events?x=1").await.problem(400, "bad_request");
    assert!(!lab.is_held("a").await);
}

#[tokio::test]
async fn responses_are_not_cached() {
    let lab = Lab::new();
    for path in ["/healthz", "/v1/locks", "/nothing"] {
        assert_eq!(lab.get(path).await.headers["cache-control"], "no-store", "{path}");
    }
    let described: Value = lab.get("/openapi.json").await.ok();
    assert_eq!(described["paths"].as_object().unwrap().len(), 15);
}
