//! How etcd writes things in JSON: bytes in base64, numbers as text, and nothing at all for what is zero
//! or empty.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use std::str::FromStr;

/// `bytes` in base64, as etcd expects them.
pub(crate) fn text(bytes: impl AsRef<[u8]>) -> String {
    STANDARD.encode(bytes)
}

/// One entry of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Entry {
    #[serde(deserialize_with = "bytes")]
    pub(crate) key: Vec<u8>,
    #[serde(deserialize_with = "bytes")]
    pub(crate) value: Vec<u8>,
    /// The revision of its last change.
    #[serde(deserialize_with = "number")]
    pub(crate) mod_revision: u64,
    /// The lease that it ends with; 0 if it does not end.
    #[serde(deserialize_with = "number")]
    pub(crate) lease: i64,
}

/// The answer to a read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Range {
    pub(crate) kvs: Vec<Entry>,
    /// Whether there is more than was asked for.
    pub(crate) more: bool,
}

/// The answer to a transaction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    /// Whether all comparisons held.
    pub(crate) succeeded: bool,
    pub(crate) responses: Vec<Response>,
}

/// What became of one step of a transaction.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Response {
    response_range: Option<Range>,
    response_txn: Option<Answer>,
}

impl Answer {
    /// The entry that step number `at` read, if there is one.
    pub(crate) fn read(&self, at: usize) -> Option<&Entry> {
        self.responses.get(at)?.response_range.as_ref()?.kvs.first()
    }

    /// The answer to the transaction that was step number `at`.
    pub(crate) fn inner(&self, at: usize) -> Option<&Answer> {
        self.responses.get(at)?.response_txn.as_ref()
    }
}

/// A transaction: what is compared, and what is done if all comparisons hold, or else.
#[derive(Clone, Debug, Default)]
pub(crate) struct Txn {
    compare: Vec<Value>,
    success: Vec<Value>,
    failure: Vec<Value>,
}

impl Txn {
    pub(crate) fn when(mut self, comparison: Value) -> Self {
        self.compare.push(comparison);
        self
    }

    pub(crate) fn then(mut self, step: Value) -> Self {
        self.success.push(step);
        self
    }

    pub(crate) fn otherwise(mut self, step: Value) -> Self {
        self.failure.push(step);
        self
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({ "compare": self.compare, "success": self.success, "failure": self.failure })
    }

    /// The transaction as a step of another one.
    pub(crate) fn into_step(self) -> Value {
        json!({ "request_txn": self.to_json() })
    }
}

/// Nothing is stored under `key`.
pub(crate) fn is_free(key: &[u8]) -> Value {
    is_unchanged(key, 0)
}

/// `key` was last changed at `revision`; never, if that is 0.
pub(crate) fn is_unchanged(key: &[u8], revision: u64) -> Value {
    json!({ "key": text(key), "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() })
}

/// The value under `key` is greater than `value`, byte by byte.
pub(crate) fn is_above(key: &[u8], value: &[u8]) -> Value {
    json!({ "key": text(key), "target": "VALUE", "result": "GREATER", "value": text(value) })
}

pub(crate) fn read(key: &[u8]) -> Value {
    json!({ "request_range": { "key": text(key) } })
}

/// Writes `value`, which ends with `lease` unless that is 0.
pub(crate) fn put(key: &[u8], value: &[u8], lease: i64) -> Value {
    json!({ "request_put": { "key": text(key), "value": text(value), "lease": lease.to_string() } })
}

pub(crate) fn delete(key: &[u8]) -> Value {
    json!({ "request_delete_range": { "key": text(key) } })
}

/// A number that etcd writes as text, and older versions as a number.
pub(crate) fn number<'de, D, N>(from: D) -> Result<N, D::Error>
where
    D: Deserializer<'de>,
    N: FromStr + TryFrom<i64>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        Number(i64),
    }
    let parsed = match Either::deserialize(from)? {
        Either::Text(text) => text.parse().ok(),
        Either::Number(number) => N::try_from(number).ok(),
    };
    parsed.ok_or_else(|| serde::de::Error::custom("it is no number"))
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
    STANDARD.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_empty_and_numbers_may_be_text() {
        let answer: Answer = serde_json::from_str(
            r#"{"header":{"revision":"7"},"succeeded":true,"responses":[{"response_put":{}},
                {"response_range":{"kvs":[{"key":"YQ==","mod_revision":"7","lease":"-3","version":"1"}]}},
                {"response_txn":{"responses":[{"response_range":{"kvs":[{"value":"Yg=="}]}}]}},
                {"response_range":{"count":"0"}}]}"#,
        )
        .unwrap();
        let entry = Entry { key: b"a".to_vec(), mod_revision: 7, lease: -3, ..Entry::default() };
        assert!(answer.succeeded);
        assert_eq!((answer.read(0), answer.read(1), answer.read(3)), (None, Some(&entry), None));
        let inner = answer.inner(2).unwrap();
        assert!(!inner.succeeded && inner.read(0).unwrap().value == b"b");
        assert_eq!(serde_json::from_str::<Entry>(r#"{"lease":5}"#).unwrap().lease, 5);
        assert!(serde_json::from_str::<Entry>(r#"{"lease":"x"}"#).is_err());
        assert!(serde_json::from_str::<Entry>(r#"{"key":"?"}"#).is_err());
    }
}
