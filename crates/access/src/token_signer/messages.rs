//! The messages of the API `externaljwt`, version `v1alpha1`.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct SignJwtRequest {
    /// The claims in base64, as the token has them.
    #[prost(string, tag = "1")]
    pub(super) claims: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SignJwtResponse {
    /// The header in base64, as the token has it.
    #[prost(string, tag = "1")]
    pub(super) header: String,
    /// The signature in base64, as the token has it.
    #[prost(string, tag = "2")]
    pub(super) signature: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FetchKeysRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct FetchKeysResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) keys: Vec<Key>,
    /// When the program got the keys.
    #[prost(message, optional, tag = "2")]
    pub(super) data_timestamp: Option<Timestamp>,
    /// When to ask again.
    #[prost(int64, tag = "3")]
    pub(super) refresh_hint_seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Key {
    #[prost(string, tag = "1")]
    pub(super) key_id: String,
    /// The public key as a `SubjectPublicKeyInfo`.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) key: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(super) exclude_from_oidc_discovery: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetadataRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetadataResponse {
    #[prost(int64, tag = "1")]
    pub(super) max_token_expiration_seconds: i64,
}
