//! Programs made for Dapr's lock API.

use crate::kit::Lab;
use axum::body::Body;
use axum::http::Request;
use quorlock::Locker;
use serde_json::{Value, json};

async fn lock(lab: &Lab, resource: &str, owner: &str) -> Value {
    let body = json!({ "resourceId": resource, "lockOwner": owner, "expiryInSeconds": 10 });
    lab.post("/v1.0-alpha1/lock/any", &body).await.ok()["success"].clone()
}

async fn unlock(lab: &Lab, resource: &str, owner: &str) -> Value {
    let body = json!({ "resourceId": resource, "lockOwner": owner });
    lab.post("/v1.0-alpha1/unlock/other", &body).await.ok()["status"].clone()
}

#[tokio::test]
async fn locks_are_taken_and_given_back_by_their_owners() {
    let lab = Lab::new();
    assert_eq!(unlock(&lab, "a", "ann").await, 1);
    assert_eq!(lock(&lab, "a", "ann").await, true);
    assert_eq!(lock(&lab, "a", "bob").await, false);
    assert_eq!(lock(&lab, "a", "ann").await, false, "not twice, not even for its owner");
    assert_eq!(unlock(&lab, "a", "bob").await, 2);
    assert_eq!(unlock(&lab, "a", "ann").await, 0);
    assert_eq!(unlock(&lab, "a", "ann").await, 1);
    assert_eq!(lock(&lab, "a", "bob").await, true);
}

#[tokio::test]
async fn an_owner_unlocks_through_another_sidecar() {
    let (one, other) = (Lab::of(Lab::builder(&["memory:dapr"])), Lab::of(Lab::builder(&["memory:dapr"])));
    assert_eq!(lock(&one, "a", "ann b é %41").await, true);
    assert_eq!(unlock(&other, "a", "ann_b é %41").await, 2);
    assert_eq!(unlock(&other, "a", "ann b é %41").await, 0);
    assert!(!one.is_held("a").await);
}

#[tokio::test]
async fn locks_of_others_belong_to_others() {
    let lab = Lab::of(Lab::builder(&["memory:dapr-others"]));
    let locker = Locker::builder().nodes(["memory:dapr-others"]).owner("ann").build().unwrap();
    let _guard = locker.named("a").unwrap().acquire().await.unwrap();
    assert_eq!(lock(&lab, "a", "ann").await, false);
    assert_eq!(unlock(&lab, "a", "ann").await, 2);
}

#[tokio::test]
async fn mistakes_are_told_in_the_words_of_dapr() {
    let lab = Lab::new();
    let fine = json!({ "resourceId": "a", "lockOwner": "ann", "expiryInSeconds": 10 });
    for (field, value) in [
        ("resourceId", json!("")),
        ("resourceId", json!("quorlock:x")),
        ("resourceId", json!(7)),
        ("lockOwner", json!("")),
        ("lockOwner", json!("x".repeat(300))),
        ("expiryInSeconds", json!(0)),
        ("expiryInSeconds", json!(-1)),
        ("expiryInSeconds", json!(3600)),
    ] {
        let mut body = fine.clone();
        body[field] = value;
        let answer = lab.post("/v1.0-alpha1/lock/any", &body).await;
        assert_eq!(answer.status, 400, "{body}");
        assert_eq!(answer.json()["errorCode"], "ERR_MALFORMED_REQUEST", "{body}");
        assert!(answer.json()["message"].is_string());
    }
    let request = Request::post("/v1.0-alpha1/lock/any").header("host", "localhost");
    let answer = lab.send(request.body(Body::from(fine.to_string())).unwrap()).await;
    assert_eq!(answer.status, 415);
}

#[tokio::test]
async fn without_a_quorum_the_answer_is_internal() {
    let port = quorlock_testkit::Port::claim();
    let url = format!("redis://127.0.0.1:{}", port.number());
    let lab = Lab::of(Lab::builder(&[&url]));
    let body = json!({ "resourceId": "a", "lockOwner": "ann", "expiryInSeconds": 10 });
    let answer = lab.post("/v1.0-alpha1/lock/any", &body).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["errorCode"]), (500, &json!("ERR_TRY_LOCK")));
    assert_eq!(unlock(&lab, "a", "ann").await, 3);
}
