//! What must hold for the body of any request.

// Only the fuzz targets reach it from outside.
#![cfg_attr(not(fuzzing), allow(unreachable_pub))]

use super::{Acquire, Extend, Fields, Release, parse_body, parse_token};
use crate::limits::Limits;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;

const ACQUIRE: [&str; 7] = ["ttl_ms", "wait_ms", "owner", "reason", "mode", "names", "slots"];

/// Parses `body` as each request that has one.
///
/// # Panics
/// If something else than an object with known fields is accepted, if a value is not the one in the
/// body, if a wait is over its limit, or if a token is not the text of itself.
pub fn check_body(body: &[u8]) {
    if let Some((acquire, json)) = parsed::<Acquire>(body, &ACQUIRE) {
        assert_eq!(acquire.ttl_ms, json["ttl_ms"].as_u64());
        assert_eq!(acquire.wait_ms, json["wait_ms"].as_u64());
        assert_eq!(acquire.owner.as_deref(), json["owner"].as_str());
        assert_eq!(acquire.reason.as_deref(), json["reason"].as_str());
        assert_eq!(acquire.slots.map(u64::from), json["slots"].as_u64());
        assert_eq!(acquire.names.as_ref().map(Vec::len), json["names"].as_array().map(Vec::len));
        assert_eq!(json!(acquire.mode), json["mode"]);
        assert!(
            acquire.wait(Duration::ZERO).is_ok_and(|wait| wait <= Limits::WAIT) || acquire.wait_ms > Some(0)
        );
    }
    if let Some((extend, json)) = parsed::<Extend>(body, &["token", "ttl_ms", "names", "slot"]) {
        assert_eq!((Some(&*extend.token), extend.ttl_ms), (json["token"].as_str(), json["ttl_ms"].as_u64()));
        check_token(&extend.token);
    }
    if let Some((release, json)) = parsed::<Release>(body, &["token", "names", "slot"]) {
        assert_eq!(Some(&*release.token), json["token"].as_str());
        check_token(&release.token);
    }
}

fn parsed<T: DeserializeOwned + Fields>(body: &[u8], fields: &[&str]) -> Option<(T, Value)> {
    let request = parse_body(body).ok()?;
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let object = json.as_object().unwrap_or_else(|| panic!("accepted without an object: {json}"));
    assert!(object.keys().all(|key| fields.contains(&key.as_str())), "accepted with other fields: {json}");
    Some((request, json))
}

fn check_token(text: &str) {
    if let Ok(token) = parse_token(text) {
        assert_eq!(token.to_string(), text);
    }
}

#[cfg(test)]
mod tests {
    use super::{Acquire, Release, check_body, parse_body};
    use std::fs;
    use std::path::Path;

    #[test]
    fn an_array_is_no_body() {
        assert!(parse_body::<Release>(br#"["01010101010101010101010101010101"]"#).is_err());
        assert!(parse_body::<Acquire>(b"[null, null, null, null, null, null, null]").is_err());
        assert!(parse_body::<Acquire>(b" {}").is_ok());
    }

    #[test]
    fn the_bodies_that_fuzzing_starts_from_are_accepted_as_they_are_or_refused() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/sidecar_body");
        for file in fs::read_dir(corpus).unwrap() {
            check_body(&fs::read(file.unwrap().path()).unwrap());
        }
    }
}
