//! The messages of etcd's gRPC interface, as far as locks need them.
//!
//! Fields that are not listed are skipped when a message is read.

use prost::{Enumeration, Message, Oneof};

/// What each answer begins with.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Header {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

/// One entry of the store.
#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct Entry {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    /// The revision of its last change.
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
    /// The lease that it ends with; 0 if it does not end.
    #[prost(int64, tag = "6")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(enumeration = "SortOrder", tag = "5")]
    pub(crate) sort_order: i32,
    #[prost(enumeration = "SortTarget", tag = "6")]
    pub(crate) sort_target: i32,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum SortOrder {
    None = 0,
    Ascend = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum SortTarget {
    Key = 0,
    Mod = 3,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<Entry>,
    /// Whether there is more than was asked for.
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
    /// How many entries there are, even if fewer were asked for.
    #[prost(int64, tag = "4")]
    pub(crate) count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct PutResponse {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct DeleteResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(crate) deleted: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    #[prost(enumeration = "CompareResult", tag = "1")]
    pub(crate) result: i32,
    #[prost(enumeration = "CompareTarget", tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) key: Vec<u8>,
    #[prost(oneof = "CompareWith", tags = "6, 7")]
    pub(crate) with: Option<CompareWith>,
    #[prost(bytes = "vec", tag = "64")]
    pub(crate) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum CompareWith {
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes, tag = "7")]
    Value(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum CompareResult {
    Equal = 0,
    Greater = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum CompareTarget {
    Version = 0,
    Mod = 2,
    Value = 3,
}

/// One step of a transaction.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Step {
    #[prost(oneof = "StepKind", tags = "1, 2, 3, 4")]
    pub(crate) kind: Option<StepKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum StepKind {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRequest),
    #[prost(message, tag = "4")]
    Txn(TxnRequest),
}

/// What became of one step of a transaction.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StepAnswer {
    #[prost(oneof = "StepAnswerKind", tags = "1, 2, 3, 4")]
    pub(crate) kind: Option<StepAnswerKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum StepAnswerKind {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    Delete(DeleteResponse),
    #[prost(message, tag = "4")]
    Txn(TxnResponse),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<Step>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<Step>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    /// Whether all comparisons held.
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<StepAnswer>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct GrantRequest {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct GrantResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    /// What the lease was granted for, in seconds.
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
}

#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct RevokeRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct RevokeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct TimeToLiveRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct TimeToLiveResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
    #[prost(int64, tag = "4")]
    pub(crate) granted: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct StatusRequest {}

/// The state of the member that answers.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    /// How large its data is, in bytes.
    #[prost(int64, tag = "3")]
    pub(crate) size: i64,
    /// Which member leads; 0 if none does.
    #[prost(uint64, tag = "4")]
    pub(crate) leader: u64,
    /// What is wrong with it, as it reports it.
    #[prost(string, repeated, tag = "8")]
    pub(crate) errors: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct MembersRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MembersResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) members: Vec<MemberEntry>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct MemberEntry {
    #[prost(uint64, tag = "1")]
    pub(crate) id: u64,
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) password: String,
}

impl std::fmt::Debug for AuthenticateRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AuthenticateRequest({})", self.name)
    }
}

#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct AuthenticateResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(string, tag = "2")]
    pub(crate) token: String,
}

impl std::fmt::Debug for AuthenticateResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuthenticateResponse")
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(oneof = "WatchOrder", tags = "1, 2, 3")]
    pub(crate) order: Option<WatchOrder>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WatchOrder {
    #[prost(message, tag = "1")]
    Create(WatchCreate),
    #[prost(message, tag = "2")]
    Cancel(WatchCancel),
    #[prost(message, tag = "3")]
    Progress(WatchProgress),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
    /// What is not reported.
    #[prost(enumeration = "WatchFilter", repeated, tag = "5")]
    pub(crate) filters: Vec<i32>,
    #[prost(int64, tag = "7")]
    pub(crate) watch_id: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Enumeration)]
#[repr(i32)]
pub(crate) enum WatchFilter {
    NoPut = 0,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WatchCancel {
    #[prost(int64, tag = "1")]
    pub(crate) watch_id: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WatchProgress {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(crate) watch_id: i64,
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<WatchEvent>,
}

/// Something that was deleted; what, does not matter.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WatchEvent {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the numbers of fields are those of etcd's description, byte by byte.
    #[test]
    fn a_transaction_is_encoded_as_etcd_expects_it() {
        let free = Compare {
            target: CompareTarget::Mod as i32,
            key: b"a".to_vec(),
            with: Some(CompareWith::ModRevision(0)),
            range_end: b"b".to_vec(),
            ..Compare::default()
        };
        let put = PutRequest { key: b"k".to_vec(), value: b"v".to_vec(), lease: 5 };
        let txn = TxnRequest {
            compare: vec![free],
            success: vec![Step { kind: Some(StepKind::Put(put)) }],
            failure: vec![Step { kind: Some(StepKind::Delete(DeleteRequest { key: b"k".to_vec() })) }],
        };
        let compare = b"\x0a\x0b\x10\x02\x1a\x01a\x30\x00\x82\x04\x01b";
        let success = b"\x12\x0a\x12\x08\x0a\x01k\x12\x01v\x18\x05";
        let failure = b"\x1a\x05\x1a\x03\x0a\x01k";
        assert_eq!(txn.encode_to_vec(), [&compare[..], success, failure].concat());
    }

    #[test]
    fn a_watch_of_deletions_is_encoded_as_etcd_expects_it() {
        let create = WatchCreate {
            key: b"a".to_vec(),
            range_end: b"b".to_vec(),
            start_revision: 7,
            filters: vec![WatchFilter::NoPut as i32],
            watch_id: 3,
        };
        let request = WatchRequest { order: Some(WatchOrder::Create(create)) };
        let inner = b"\x0a\x01a\x12\x01b\x18\x07\x2a\x01\x00\x38\x03";
        assert_eq!(request.encode_to_vec(), [&b"\x0a\x0d"[..], inner].concat());
    }

    #[test]
    fn no_secret_is_shown() {
        let login = AuthenticateRequest { name: "ann".to_owned(), password: "s3cret".to_owned() };
        let granted = AuthenticateResponse { header: None, token: "s3cret".to_owned() };
        assert!(!format!("{login:?} {granted:?}").contains("s3cret"));
    }
}
