//! A registry in memory, for tests of responses.

use std::sync::Arc;

use auth::{Authenticators, Credentials, StaticToken, Tokens, User};
use bytes::Bytes;
use cache::{Cache, Change, Entry, Freshness, Query};
use http::header::{ACCEPT, AUTHORIZATION};
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt;
use registry::{Config, List, Registry};

use super::represent::{Include, ObjectEncoder};
use crate::cost::Meter;
use crate::large::LargeWork;
use crate::negotiate::{AllowedTransforms, ClientPreferences, Negotiator};
use crate::unsent::Payer;
use crate::{Limits, Response};

/// The time of every request.
pub(crate) const NOW: &str = "2025-01-03T21:00:00.000000Z";
pub(crate) const NEGOTIATOR: Negotiator = Negotiator { cbor: true, compression: true, custom: false };
/// Ends of `Accept` values.
pub(crate) const PARTIAL: &str = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub(crate) const PARTIAL_LIST: &str = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
pub(crate) const TABLE: &str = ";as=Table;g=meta.k8s.io;v=v1";

pub(crate) struct Fixture {
    pub(crate) cache: Arc<Cache>,
    pub(crate) registry: Registry,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    /// With a change to the configuration.
    pub(crate) async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let store = Arc::new(store::memory::Memory::default());
        let cache =
            Cache::open(store, registry::specs().unwrap(), cache::CacheOptions::default()).await.unwrap();
        let cache = Arc::new(cache);
        let mut config = Config::new(&cache).unwrap();
        change(&mut config);
        let registry = Registry::new(cache.clone(), config).unwrap();
        Self { cache, registry }
    }

    pub(crate) async fn put(&self, resource: &str, name: &str, json: String) -> Arc<Entry> {
        let resource = self.cache.resource(resource).unwrap();
        let committed = self.cache.commit(Change::put(&resource, "n", name, json)).await.unwrap();
        committed.entry().unwrap().clone()
    }

    /// A config map with one value.
    pub(crate) async fn config_map(&self, name: &str, value: &str) -> Arc<Entry> {
        let json = format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n","creationTimestamp":"2025-01-01T00:00:00Z"}},"data":{{"k":"{value}"}}}}"#
        );
        self.put("configmaps", name, json).await
    }

    pub(crate) fn encoder(&self, group: &str, resource: &str, accept: &str) -> ObjectEncoder {
        let headers: HeaderMap = [(ACCEPT, accept.parse().unwrap())].into_iter().collect();
        let preferences = ClientPreferences::of(&headers, crate::Query::new(""));
        ObjectEncoder {
            served: self.registry.catalog().find(group, "v1", resource).unwrap().clone(),
            cache: self.cache.clone(),
            accept: NEGOTIATOR.accept(&preferences, AllowedTransforms::All).unwrap(),
            include: Include::default(),
            now: NOW.parse().unwrap(),
            converted: None,
            large: LargeWork::default(),
            payer: Payer::alone(&Limits::default()),
            meter: Meter::default(),
        }
    }

    pub(crate) async fn list(&self, resource: &str) -> List {
        let resource = self.cache.resource(resource).unwrap();
        let objects = resource.list(Query::new(Freshness::MostRecent, Default::default())).await.unwrap();
        List { objects, token: String::new(), remaining: None }
    }
}

/// All of a body.
pub(crate) async fn body(response: Response) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The user of the requests of tests.
pub(crate) async fn caller() -> auth::Authenticated {
    let user = User { name: "admin".into(), ..User::default() };
    let tokens = Tokens::new(vec![StaticToken::new("t", user)]).method(Vec::new());
    let authenticators = Authenticators { tokens: vec![Arc::new(tokens)], ..Authenticators::default() };
    let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer t"))]);
    let credentials = Credentials { headers: &headers, path: "/", certified: None };
    authenticators.authenticate(&credentials).await.unwrap()
}
