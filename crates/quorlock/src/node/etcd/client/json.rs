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
    /// How many entries there are, even if fewer were asked for.
    #[serde(deserialize_with = "number")]
    count: usize,
}

/// The keys from `from` on that come before `end`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) from: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl KeyRange {
    /// The keys that begin with `prefix`, which must not be empty.
    pub(crate) fn with_prefix(prefix: &[u8]) -> Self {
        let mut end = prefix.to_vec();
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                break;
            }
        }
        Self { from: prefix.to_vec(), end }
    }

    /// `object`, which is about these keys.
    pub(crate) fn in_json(&self, mut object: Value) -> Value {
        object["key"] = text(&self.from).into();
        object["range_end"] = text(&self.end).into();
        object
    }
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
        self.range(at)?.kvs.first()
    }

    /// All entries that step number `at` read.
    pub(crate) fn read_all(&self, at: usize) -> &[Entry] {
        self.range(at).map_or(&[], |range| &range.kvs)
    }

    /// How many entries step number `at` counted.
    pub(crate) fn count(&self, at: usize) -> usize {
        self.range(at).map_or(0, |range| range.count)
    }

    fn range(&self, at: usize) -> Option<&Range> {
        self.responses.get(at)?.response_range.as_ref()
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

/// Nothing is stored in `range`.
pub(crate) fn are_free(range: &KeyRange) -> Value {
    are_unchanged(range, 0)
}

/// Every key in `range` was last changed at `revision`, and there is one; there is none, if that is 0.
pub(crate) fn are_unchanged(range: &KeyRange, revision: u64) -> Value {
    range.in_json(json!({ "target": "MOD", "result": "EQUAL", "mod_revision": revision.to_string() }))
}

/// The value under `key` is greater than `value`, byte by byte.
pub(crate) fn is_above(key: &[u8], value: &[u8]) -> Value {
    json!({ "key": text(key), "target": "VALUE", "result": "GREATER", "value": text(value) })
}

pub(crate) fn read(key: &[u8]) -> Value {
    json!({ "request_range": { "key": text(key) } })
}

/// Reads up to `limit` entries, those that were changed longest ago first.
pub(crate) fn read_oldest(range: &KeyRange, limit: usize) -> Value {
    let order = json!({ "limit": limit.to_string(), "sort_order": "ASCEND", "sort_target": "MOD" });
    json!({ "request_range": range.in_json(order) })
}

/// Reads up to `limit` keys without their values.
pub(crate) fn read_keys(range: &KeyRange, limit: usize) -> Value {
    json!({ "request_range": range.in_json(json!({ "limit": limit.to_string(), "keys_only": true })) })
}

/// Counts the keys.
pub(crate) fn count(range: &KeyRange) -> Value {
    json!({ "request_range": range.in_json(json!({ "count_only": true })) })
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
                {"response_range":{"count":"3"}}]}"#,
        )
        .unwrap();
        let entry = Entry { key: b"a".to_vec(), mod_revision: 7, lease: -3, ..Entry::default() };
        assert!(answer.succeeded);
        assert_eq!((answer.read(0), answer.read(1), answer.read(3)), (None, Some(&entry), None));
        assert_eq!((answer.read_all(1), answer.count(1), answer.count(3)), (&[entry][..], 0, 3));
        let inner = answer.inner(2).unwrap();
        assert!(!inner.succeeded && inner.read(0).unwrap().value == b"b");
        assert_eq!(serde_json::from_str::<Entry>(r#"{"lease":5}"#).unwrap().lease, 5);
        assert!(serde_json::from_str::<Entry>(r#"{"lease":"x"}"#).is_err());
        assert!(serde_json::from_str::<Entry>(r#"{"key":"?"}"#).is_err());
    }

    #[test]
    fn all_keys_that_begin_with_a_prefix_are_before_its_end() {
        assert_eq!(KeyRange::with_prefix(b"a/").end, b"a0");
        assert_eq!(KeyRange::with_prefix(b"a\xff\xff").end, b"b");
    }
}
