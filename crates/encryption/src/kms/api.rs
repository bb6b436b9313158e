//! The calls of a KMS plugin, version 2: gRPC over a Unix socket.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use outbound::{RpcClient, RpcError};
use prost::Message;
use zeroize::Zeroize as _;

use crate::families::KMS;

/// Has no fields.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

/// The status of the plugin.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    /// `v2` or `v2beta1`.
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    /// `ok`, or what is wrong.
    #[prost(string, tag = "2")]
    pub(crate) healthz: String,
    /// The key that encrypts now.
    #[prost(string, tag = "3")]
    pub(crate) key_id: String,
}

/// The bytes to decrypt.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DecryptRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) ciphertext: Bytes,
    #[prost(string, tag = "2")]
    pub(crate) uid: String,
    #[prost(string, tag = "3")]
    pub(crate) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(crate) annotations: BTreeMap<String, Vec<u8>>,
}

/// A key in plain bytes.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) plaintext: Vec<u8>,
}

/// A key in plain bytes.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) uid: String,
}

/// An encrypted key, and annotations that the plugin needs to decrypt it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncryptResponse {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) ciphertext: Bytes,
    #[prost(string, tag = "2")]
    pub(crate) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub(crate) annotations: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for DecryptResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecryptResponse").finish_non_exhaustive()
    }
}

impl fmt::Debug for EncryptRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptRequest").field("uid", &self.uid).finish_non_exhaustive()
    }
}

impl Drop for DecryptResponse {
    fn drop(&mut self) {
        self.plaintext.zeroize();
    }
}

impl Drop for EncryptRequest {
    fn drop(&mut self) {
        self.plaintext.zeroize();
    }
}

/// A client of one plugin. A call waits for a plugin that cannot be reached, up to the time-out.
#[derive(Clone)]
pub(crate) struct Client {
    /// The name of the plugin.
    name: Arc<str>,
    rpc: RpcClient,
    timeout: Duration,
}

impl Client {
    /// Has to be called on a runtime.
    pub(crate) fn new(name: &str, socket: String, timeout: Duration) -> Self {
        Self { name: name.into(), rpc: RpcClient::new(socket), timeout }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) async fn status(&self) -> Result<StatusResponse, RpcError> {
        self.call("/v2.KeyManagementService/Status", StatusRequest {}).await
    }

    pub(crate) async fn encrypt(&self, request: EncryptRequest) -> Result<EncryptResponse, RpcError> {
        self.call("/v2.KeyManagementService/Encrypt", request).await
    }

    pub(crate) async fn decrypt(&self, request: DecryptRequest) -> Result<DecryptResponse, RpcError> {
        self.call("/v2.KeyManagementService/Decrypt", request).await
    }

    async fn call<Q, A>(&self, method: &'static str, request: Q) -> Result<A, RpcError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let begin = Instant::now();
        let outcome = self.rpc.call(method, request, self.timeout).await;
        let code = match &outcome {
            Ok(_) => "OK",
            Err(error) if error.is_answer => &error.code,
            Err(_) => "DeadlineExceeded",
        };
        KMS.with([code, method, &self.name]).observe_time(begin.elapsed());
        outcome
    }
}
