//! For tests: answers of the reference, a cache, and an authorizer over it.

pub(crate) mod reference;

use cache::{Cache, CacheOptions, Change, Resource, Spec};
use std::sync::Arc;
use store::memory::Memory;

pub(crate) struct Fixture<A> {
    pub(crate) cache: Cache,
    pub(crate) authorizer: A,
}

impl<A> Fixture<A> {
    /// An authorizer over resources, which `make` finds by their names.
    pub(crate) async fn with<const N: usize>(
        specs: [Spec; N],
        make: impl FnOnce(&dyn Fn(&str) -> Arc<Resource>) -> A,
    ) -> Self {
        let cache = Cache::open(Arc::new(Memory::default()), specs, CacheOptions::default()).await.unwrap();
        let authorizer = make(&|name| cache.resource(name).unwrap());
        Self { cache, authorizer }
    }

    /// Puts an object: `[namespace/]name`, and the fields besides its metadata.
    pub(crate) async fn put(&self, resource: &str, key: &str, fields: &str) {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let json = format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}"}},{fields}}}"#);
        let of = self.cache.resource(resource).unwrap();
        self.cache.commit(Change::put(&of, namespace, name, json)).await.unwrap();
    }

    pub(crate) async fn delete(&self, resource: &str, key: &str) {
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let of = self.cache.resource(resource).unwrap();
        self.cache.commit(Change::delete(&of, namespace, name)).await.unwrap();
    }
}
