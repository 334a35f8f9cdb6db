//! Transactions: what is compared, what is done if all comparisons hold or else, and what was found.

use crate::node::etcd::client::messages::{
    Compare, CompareResult, CompareTarget, CompareWith, DeleteRequest, Entry, PutRequest, RangeRequest,
    RangeResponse, SortOrder, SortTarget, Step, StepAnswerKind, StepKind, TxnRequest, TxnResponse,
};

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

    pub(crate) fn request(&self) -> RangeRequest {
        RangeRequest { key: self.from.clone(), range_end: self.end.clone(), ..RangeRequest::default() }
    }
}

/// A transaction that is being put together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Txn(TxnRequest);

impl Txn {
    pub(crate) fn when(mut self, comparison: Compare) -> Self {
        self.0.compare.push(comparison);
        self
    }

    pub(crate) fn then(mut self, step: Step) -> Self {
        self.0.success.push(step);
        self
    }

    pub(crate) fn otherwise(mut self, step: Step) -> Self {
        self.0.failure.push(step);
        self
    }

    pub(crate) fn into_request(self) -> TxnRequest {
        self.0
    }

    /// The transaction as a step of another one.
    pub(crate) fn into_step(self) -> Step {
        Step { kind: Some(StepKind::Txn(self.0)) }
    }
}

impl TxnResponse {
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
        self.range(at).map_or(0, |range| usize::try_from(range.count).unwrap_or_default())
    }

    /// How many entries all steps deleted.
    pub(crate) fn deleted(&self) -> i64 {
        let deleted = |answer: &_| match answer {
            &StepAnswerKind::Delete(answer) => answer.deleted,
            _ => 0,
        };
        self.responses.iter().filter_map(|step| step.kind.as_ref()).map(deleted).sum()
    }

    /// The answer to the transaction that was step number `at`.
    pub(crate) fn inner(&self, at: usize) -> Option<&TxnResponse> {
        match self.responses.get(at)?.kind.as_ref()? {
            StepAnswerKind::Txn(answer) => Some(answer),
            _ => None,
        }
    }

    fn range(&self, at: usize) -> Option<&RangeResponse> {
        match self.responses.get(at)?.kind.as_ref()? {
            StepAnswerKind::Range(answer) => Some(answer),
            _ => None,
        }
    }
}

/// Nothing is stored under `key`.
pub(crate) fn is_free(key: &[u8]) -> Compare {
    is_unchanged(key, 0)
}

/// `key` was last changed at `revision`; never, if that is 0.
pub(crate) fn is_unchanged(key: &[u8], revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Mod as i32,
        key: key.to_vec(),
        with: Some(CompareWith::ModRevision(revision)),
        range_end: Vec::new(),
    }
}

/// Nothing is stored in `range`.
pub(crate) fn are_free(range: &KeyRange) -> Compare {
    are_unchanged(range, 0)
}

/// Every key in `range` was last changed at `revision`, and there is one; there is none, if that is 0.
pub(crate) fn are_unchanged(range: &KeyRange, revision: i64) -> Compare {
    Compare { range_end: range.end.clone(), ..is_unchanged(&range.from, revision) }
}

/// The value under `key` is greater than `value`, byte by byte.
pub(crate) fn is_above(key: &[u8], value: &[u8]) -> Compare {
    Compare {
        result: CompareResult::Greater as i32,
        target: CompareTarget::Value as i32,
        key: key.to_vec(),
        with: Some(CompareWith::Value(value.to_vec())),
        range_end: Vec::new(),
    }
}

pub(crate) fn read(key: &[u8]) -> Step {
    range(RangeRequest { key: key.to_vec(), ..RangeRequest::default() })
}

/// Reads up to `limit` entries, those that were changed longest ago first.
pub(crate) fn read_oldest(keys: &KeyRange, limit: usize) -> Step {
    range(RangeRequest {
        limit: limit as i64,
        sort_order: SortOrder::Ascend as i32,
        sort_target: SortTarget::Mod as i32,
        ..keys.request()
    })
}

/// Reads up to `limit` keys without their values.
pub(crate) fn read_keys(keys: &KeyRange, limit: usize) -> Step {
    range(RangeRequest { limit: limit as i64, keys_only: true, ..keys.request() })
}

/// Counts the keys.
pub(crate) fn count(keys: &KeyRange) -> Step {
    range(RangeRequest { count_only: true, ..keys.request() })
}

/// Writes `value`, which ends with `lease` unless that is 0.
pub(crate) fn put(key: &[u8], value: &[u8], lease: i64) -> Step {
    let put = PutRequest { key: key.to_vec(), value: value.to_vec(), lease };
    Step { kind: Some(StepKind::Put(put)) }
}

pub(crate) fn delete(key: &[u8]) -> Step {
    Step { kind: Some(StepKind::Delete(DeleteRequest { key: key.to_vec() })) }
}

fn range(request: RangeRequest) -> Step {
    Step { kind: Some(StepKind::Range(request)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_that_begin_with_a_prefix_are_before_its_end() {
        assert_eq!(KeyRange::with_prefix(b"a/").end, b"a0");
        assert_eq!(KeyRange::with_prefix(b"a\xff\xff").end, b"b");
    }
}
