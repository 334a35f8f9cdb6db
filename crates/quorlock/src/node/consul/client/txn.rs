//! Transactions: operations that are executed all or not at all, and their results.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};

/// One operation of a transaction.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Op {
    #[serde(rename = "KV")]
    kv: KvOp,
}

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct KvOp {
    verb: &'static str,
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    flags: u64,
    #[serde(skip_serializing_if = "is_zero")]
    index: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    session: String,
}

/// What a holder's key is to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: &'a [u8],
    pub(crate) flags: u64,
}

impl Op {
    /// Every key that begins with `prefix`.
    pub(crate) fn read_tree(prefix: &str) -> Self {
        Self::new("get-tree", prefix, KvOp::default())
    }

    /// Fails if `key` exists.
    pub(crate) fn is_free(key: &str) -> Self {
        Self::new("check-not-exists", key, KvOp::default())
    }

    /// Fails unless `key` was last changed at `index`.
    pub(crate) fn is_unchanged(key: &str, index: u64) -> Self {
        Self::new("check-index", key, KvOp { index, ..KvOp::default() })
    }

    /// Changes a key that was last changed at `index`, or creates it if that is 0. Whoever has locked it keeps it.
    ///
    /// Consul changes nothing, not even the index, if the key has this content already.
    pub(crate) fn swap(content: Content<'_>, index: u64) -> Self {
        Self::new("cas", content.key, KvOp { index, ..KvOp::of(content) })
    }

    /// Lets `session` lock the key. Succeeds, too, if `session` has locked it before.
    pub(crate) fn lock(content: Content<'_>, session: &str) -> Self {
        Self::new("lock", content.key, KvOp { session: session.to_owned(), ..KvOp::of(content) })
    }

    /// Takes the key from `session`. Fails if another one has locked it.
    pub(crate) fn unlock(content: Content<'_>, session: &str) -> Self {
        Self::new("unlock", content.key, KvOp { session: session.to_owned(), ..KvOp::of(content) })
    }

    /// Deletes `key`, whatever it holds. (`delete-cas` succeeds if there is no key, so it shows nothing.)
    pub(crate) fn delete(key: &str) -> Self {
        Self::new("delete", key, KvOp::default())
    }

    /// The key that it writes, unless it deletes it.
    pub(crate) fn written(&self) -> Option<&str> {
        matches!(self.kv.verb, "cas" | "lock").then_some(self.kv.key.as_str())
    }

    fn new(verb: &'static str, key: &str, op: KvOp) -> Self {
        Self { kv: KvOp { verb, key: key.to_owned(), ..op } }
    }
}

impl KvOp {
    fn of(content: Content<'_>) -> Self {
        Self { value: Some(STANDARD.encode(content.value)), flags: content.flags, ..Self::default() }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// A key and what it holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Entry {
    pub(crate) key: String,
    #[serde(deserialize_with = "bytes")]
    pub(crate) value: Vec<u8>,
    pub(crate) flags: u64,
    pub(crate) modify_index: u64,
    /// The session that has locked it; empty if none has.
    pub(crate) session: String,
}

/// Consul writes values in base64, and none as null.
fn bytes<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u8>, D::Error> {
    let text: Option<String> = Option::deserialize(input)?;
    STANDARD.decode(text.unwrap_or_default()).map_err(serde::de::Error::custom)
}

/// What became of a transaction.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It was executed. What its operations read and wrote, without the values that they wrote.
    Done(Vec<Entry>),
    /// Nothing of it was executed.
    Refused(Refusal),
}

/// Why a transaction was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A session that it names has ended.
    NoSession,
    /// Something is not as it was expected to be.
    Conflict(String),
}

/// An answer as Consul writes it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Answer {
    results: Option<Vec<AnswerResult>>,
    errors: Option<Vec<AnswerError>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnswerResult {
    #[serde(rename = "KV")]
    kv: Entry,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct AnswerError {
    what: String,
}

impl Answer {
    /// Everything that was read or written.
    pub(crate) fn entries(self) -> Vec<Entry> {
        self.results.unwrap_or_default().into_iter().map(|result| result.kv).collect()
    }

    /// Why each operation that failed did.
    pub(crate) fn causes(&self) -> impl Iterator<Item = &str> {
        self.errors.iter().flatten().map(|error| error.what.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_answers_have_the_form_that_consul_knows() {
        let content = Content { key: "a", value: b"v", flags: 7 };
        let written =
            serde_json::to_string(&[Op::swap(content, 9), Op::lock(content, "s"), Op::is_free("b")]);
        assert_eq!(
            written.unwrap(),
            concat!(
                r#"[{"KV":{"Verb":"cas","Key":"a","Value":"dg==","Flags":7,"Index":9}},"#,
                r#"{"KV":{"Verb":"lock","Key":"a","Value":"dg==","Flags":7,"Session":"s"}},"#,
                r#"{"KV":{"Verb":"check-not-exists","Key":"b"}}]"#
            )
        );
        let read = r#"{"Results":[{"KV":{"LockIndex":1,"Key":"a","Flags":7,"Value":"dg==","CreateIndex":3,
            "ModifyIndex":4,"Session":"s"}},{"KV":{"Key":"b","Value":null}}],"Errors":null}"#;
        let entries = serde_json::from_str::<Answer>(read).unwrap().entries();
        assert_eq!((entries[0].value.as_slice(), entries[0].modify_index), (b"v".as_slice(), 4));
        assert_eq!((entries[1].value.as_slice(), entries[1].session.as_str()), (b"".as_slice(), ""));
        let refused = r#"{"Results":null,"Errors":[{"OpIndex":0,"What":"no"}]}"#;
        assert_eq!(serde_json::from_str::<Answer>(refused).unwrap().causes().collect::<Vec<_>>(), ["no"]);
    }
}
