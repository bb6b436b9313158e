//! The messages of etcd's API that this store sends and receives, with the field numbers of etcd's own
//! definition (`rpc.proto` and `kv.proto` of etcd 3.4 and 3.5).
//!
//! They are declared here by hand, because making them from the definition needs `protoc` on the building
//! machine. Fields that are not used are left out: a decoder skips them, an encoder sends their default. Keys
//! and values are slices of the buffer that a message was read into, without a copy.

use bytes::Bytes;
use prost::{Message, Oneof};

/// A request that has one answer.
pub(super) trait Call: Message + Clone + 'static {
    /// The path of the method.
    const PATH: &'static str;
    /// Its answer.
    type Answer: Answer;
}

/// An answer, whose header says which state it belongs to.
pub(super) trait Answer: Message + Default + 'static {
    fn header(&self) -> Option<&Header>;
}

macro_rules! calls {
    ($($request:ty => $answer:ty, $path:literal;)*) => {
        $(
            impl Call for $request {
                const PATH: &'static str = $path;
                type Answer = $answer;
            }
            impl Answer for $answer {
                fn header(&self) -> Option<&Header> {
                    self.header.as_ref()
                }
            }
        )*
    };
}

calls! {
    RangeRequest => RangeResponse, "/etcdserverpb.KV/Range";
    TxnRequest => TxnResponse, "/etcdserverpb.KV/Txn";
    CompactionRequest => CompactionResponse, "/etcdserverpb.KV/Compact";
    LeaseGrantRequest => LeaseGrantResponse, "/etcdserverpb.Lease/LeaseGrant";
    StatusRequest => StatusResponse, "/etcdserverpb.Maintenance/Status";
}

/// The path of the one method that is a stream in both directions.
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Header {
    #[prost(uint64, tag = "1")]
    pub(super) cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
    #[prost(uint64, tag = "4")]
    pub(super) raft_term: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(int64, tag = "2")]
    pub(super) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    /// How often the key was written since it was created.
    #[prost(int64, tag = "4")]
    pub(super) version: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) value: Bytes,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    /// The end of the range, which does not belong to it; without it the range is one key.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
    /// The most entries in the answer; zero for all.
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    /// The revision to read at; zero for the newest.
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(super) count_only: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    /// Whether the range has more entries than the limit.
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
}

/// One step of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "OpRequest", tags = "1, 2, 3")]
    pub(super) request: Option<OpRequest>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum OpRequest {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
}

impl From<OpRequest> for RequestOp {
    fn from(request: OpRequest) -> Self {
        Self { request: Some(request) }
    }
}

/// The outcome of one step; only that of a range is looked at.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct ResponseOp {
    #[prost(message, optional, tag = "1")]
    pub(super) range: Option<RangeResponse>,
}

/// A condition on a key. `result` and `target` are the numbers of etcd's enums.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "1")]
    pub(super) result: i32,
    #[prost(int32, tag = "2")]
    pub(super) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) key: Bytes,
    #[prost(int64, optional, tag = "4")]
    pub(super) version: Option<i64>,
    #[prost(int64, optional, tag = "6")]
    pub(super) mod_revision: Option<i64>,
}

impl Compare {
    const EQUAL: i32 = 0;
    const GREATER: i32 = 1;
    const VERSION: i32 = 0;
    const MOD: i32 = 2;

    /// The last change of the key has this revision; zero for a key that is absent.
    pub(super) fn mod_revision_is(key: Bytes, revision: i64) -> Self {
        let mod_revision = Some(revision);
        Self { result: Self::EQUAL, target: Self::MOD, key, version: None, mod_revision }
    }

    /// The key exists.
    pub(super) fn exists(key: Bytes) -> Self {
        Self { result: Self::GREATER, ..Self::mod_revision_is(key, 0) }
    }

    /// The key was written this often since it was created; zero for a key that is absent.
    pub(super) fn version_is(key: Bytes, version: i64) -> Self {
        let version = Some(version);
        Self { result: Self::EQUAL, target: Self::VERSION, key, version, mod_revision: None }
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct CompactionResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseGrantRequest {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseGrantResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct StatusRequest {}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    /// The member that leads; zero if there is none.
    #[prost(uint64, tag = "4")]
    pub(super) leader: u64,
    /// The alarms that are set, as text.
    #[prost(string, repeated, tag = "8")]
    pub(super) errors: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) create: Option<WatchCreateRequest>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchCreateRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
    #[prost(bool, tag = "6")]
    pub(super) prev_kv: bool,
    /// Whether the server may send a large response in several messages.
    #[prost(bool, tag = "8")]
    pub(super) fragment: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    /// Set when the watch was canceled because its start is compacted.
    #[prost(int64, tag = "5")]
    pub(super) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    /// Whether the next message has more of this response.
    #[prost(bool, tag = "7")]
    pub(super) fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<WatchEvent>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct WatchEvent {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
    #[prost(message, optional, tag = "3")]
    pub(super) prev_kv: Option<KeyValue>,
}

impl WatchEvent {
    /// The kind of a delete.
    pub(super) const DELETE: i32 = 1;
}

/// The end of the range of keys that start with a prefix.
pub(super) fn prefix_end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return end.into();
        }
    }
    // All keys from the prefix on.
    Bytes::from_static(&[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_key_that_does_not_start_with_it() {
        assert_eq!(prefix_end(b"/registry/"), "/registry0");
        assert_eq!(prefix_end(b"a\xff\xff"), "b");
        assert_eq!(prefix_end(b"\xff"), Bytes::from_static(&[0]));
        assert_eq!(prefix_end(b""), Bytes::from_static(&[0]));
    }
}
