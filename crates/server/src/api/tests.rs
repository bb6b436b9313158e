//! Requests through the whole API handler, by a user with every permission.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderName};

use super::testing::{Fixture, body, caller};
use super::{Api, ApiConfig, Backends, KubeletClient};
use crate::negotiate::ErrorFormat;
use crate::{Handler as _, Lifecycle, Peer, Request};

mod bindings;
mod components;
mod costs;
mod custom_defaults;
mod custom_kinds;
mod custom_lists;
mod custom_paths;
mod custom_ratcheting;
mod deletes;
mod discovery;
mod evictions;
mod reads;
mod reviews;
mod token_requests;
mod unreadable;
mod writes;

/// A server with the namespace `n`.
struct Server(Api);

/// A response with its whole body.
struct Answer {
    code: u16,
    headers: HeaderMap,
    body: Bytes,
}

impl Server {
    async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// With a change to the configuration of the registry.
    async fn start_with(change: impl FnOnce(&mut registry::Config)) -> Self {
        Box::pin(Self::start_at(None, change)).await
    }

    /// With an address that clients are told.
    async fn start_at(external_address: Option<&str>, change: impl FnOnce(&mut registry::Config)) -> Self {
        let fixture = Fixture::with(change).await;
        let config = ApiConfig {
            request_timeout: Duration::from_secs(10),
            shortest_watch: Duration::from_secs(1),
            cbor: false,
            compression: true,
            stream_bytes_per_second: None,
            external_address: external_address.map(str::to_owned),
            further_paths: Vec::new(),
        };
        let api = Api::new(
            Arc::new(fixture.registry),
            Lifecycle::new(),
            config,
            Backends::new(KubeletClient::default()).unwrap(),
        );
        let server = Self(api);
        let made = server.send("POST", "/api/v1/namespaces", r#"{"metadata":{"name":"n"}}"#).await;
        assert_eq!(made.code, 201, "{}", made.text());
        server
    }

    async fn ask(&self, request: http::request::Builder, body_bytes: &str) -> Answer {
        let length = body_bytes.len();
        let request =
            request.header(CONTENT_LENGTH, length).body(Bytes::from(body_bytes.to_owned())).unwrap();
        let peer = Arc::new(Peer::plain(([127, 0, 0, 1], 1).into()));
        let mut request = Request::in_process(request, peer);
        request.head.extensions.insert(caller().await);
        let response = match self.0.handle(request).await {
            Ok(response) => response,
            Err(error) => error.into_response(ErrorFormat::JSON),
        };
        let (code, headers) = (response.status().as_u16(), response.headers().clone());
        Answer { code, headers, body: body(response).await }
    }

    async fn get(&self, path: &str) -> Answer {
        self.get_as(path, "").await
    }

    async fn get_as(&self, path: &str, accept: &str) -> Answer {
        self.get_with(path, &[(ACCEPT, accept)]).await
    }

    async fn get_with(&self, path: &str, headers: &[(HeaderName, &str)]) -> Answer {
        let mut request = http::Request::get(path);
        for (name, value) in headers {
            request = request.header(name, *value);
        }
        self.ask(request, "").await
    }

    async fn send(&self, method: &str, path: &str, json: &str) -> Answer {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let request = http::Request::builder().method(method).uri(path).header(CONTENT_TYPE, content_type);
        self.ask(request, json).await
    }
}

impl Answer {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// All values of a header.
    fn header(&self, name: &str) -> Vec<&str> {
        self.headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
    }

    /// Asserts the code and a part of the body.
    #[track_caller]
    fn says(&self, code: u16, words: &str) {
        let text = self.text();
        assert!(self.code == code && text.contains(words), "{}: {text}", self.code);
    }
}
