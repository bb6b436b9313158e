//! What tests of the scheduler share: pods and nodes of a few words, and a registry over a store in memory.

use crate::node::Facts;
use crate::resources::Resources;
use crate::taints::taints;
use auth::{Authorizer, SystemIdentity};
use cache::{Cache, CacheOptions};
use object::{Map, Value};
use registry::{Address, Client, Registry};
use schema::view::View as _;
use schema::views::core::v1;
use schema::{Limits, Type, json};
use std::sync::Arc;
use store::memory::Memory;

/// The JSON of a pod in the namespace `ns` with the fields of its specification.
pub(crate) fn pod(name: &str, spec: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"ns"}},"spec":{{{spec}}}}}"#)
}

/// The object of the JSON of a pod.
pub(crate) fn map(text: &str) -> Map {
    decode(v1::Pod::schema(), text)
}

fn decode(ty: &'static Type, text: &str) -> Map {
    let value = json::decode(schema::Ref::Static(ty), text.as_bytes(), &Limits::REQUEST).unwrap().value;
    value.as_map().unwrap().clone()
}

/// A node with labels, and with fields of its object such as `"spec":{...}`.
pub(crate) fn facts(name: &str, labels: &str, fields: &str) -> Facts {
    let comma = if fields.is_empty() { "" } else { "," };
    let text = format!(r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}}}}{comma}{fields}}}"#);
    let map = decode(v1::Node::schema(), &text);
    let node = v1::Node::of(&map);
    Facts {
        name: name.into(),
        labels: node.metadata().labels().iter().collect(),
        taints: taints(node.spec().taints()),
        is_unschedulable: node.spec().unschedulable(),
        allocatable: Resources::of_entries(node.status().allocatable()),
    }
}

/// A registry without a server, in which everybody may do everything.
pub(crate) struct Fixture {
    pub(crate) client: Client,
    pub(crate) cache: Arc<Cache>,
}

impl Fixture {
    /// A registry over an empty store, with the namespace `ns`.
    pub(crate) async fn new() -> Self {
        let store = Arc::new(Memory::default());
        let cache = Cache::open(store, registry::specs().unwrap(), CacheOptions::default()).await.unwrap();
        let cache = Arc::new(cache);
        let config = registry::Config {
            authorizer: Authorizer::always_allow(),
            ..registry::Config::new(&cache).unwrap()
        };
        let registry = Arc::new(Registry::new(cache.clone(), config).unwrap());
        let client = Client::new(registry, SystemIdentity::ApiServer, "test");
        let fixture = Self { client, cache };
        fixture.create(Address::core("namespaces", ""), r#"{"metadata":{"name":"ns"}}"#).await;
        fixture
    }

    /// Makes an object of its JSON.
    pub(crate) async fn create(&self, address: Address<'_>, text: &str) -> Value {
        let object = self.client.decode(address, text).unwrap();
        self.client.create(address, object).await.unwrap_or_else(|error| panic!("{}: {text}", error.message))
    }

    /// Makes a node that can give so much, with labels, and fields of its specification.
    pub(crate) async fn node(&self, name: &str, labels: &str, spec: &str, allocatable: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}}}},"spec":{{{spec}}},
            "status":{{"capacity":{{{allocatable}}},"allocatable":{{{allocatable}}}}}}}"#
        );
        self.create(Address::core("nodes", ""), &text).await;
    }

    /// Makes a pod in `ns` of one container without requests, with labels and further fields.
    pub(crate) async fn pod(&self, name: &str, labels: &str, spec: &str) {
        let comma = if spec.is_empty() { "" } else { "," };
        let containers = match spec.contains(r#""containers""#) {
            true => "",
            false => r#","containers":[{"name":"c","image":"i"}]"#,
        };
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{{labels}}}}},
            "spec":{{"terminationGracePeriodSeconds":0{containers}{comma}{spec}}}}}"#
        );
        self.create(Address::core("pods", "ns"), &text).await;
    }

    /// A pod in `ns` as it is; `None` if it is gone.
    pub(crate) async fn get(&self, name: &str) -> Option<Map> {
        let pod = self.client.get(Address::core("pods", "ns").named(name)).await.ok()?;
        pod.as_map().cloned()
    }

    /// The node of a pod; empty without one.
    pub(crate) async fn node_of(&self, name: &str) -> String {
        let pod = self.get(name).await;
        pod.map(|pod| v1::Pod::of(&pod).spec().node_name().to_owned()).unwrap_or_default()
    }

    /// Waits for the node of a pod.
    pub(crate) async fn scheduled(&self, name: &str) -> String {
        self.until("a node", async || !self.node_of(name).await.is_empty()).await;
        self.node_of(name).await
    }

    /// Waits for the message of the condition of a pod without a node.
    pub(crate) async fn rejected(&self, name: &str) -> String {
        self.until("a rejection", async || !self.message(name).await.is_empty()).await;
        self.message(name).await
    }

    /// The message of the condition `PodScheduled`; empty without one.
    pub(crate) async fn message(&self, name: &str) -> String {
        let Some(pod) = self.get(name).await else { return String::new() };
        let mut conditions = v1::Pod::of(&pod).status().conditions().iter();
        let condition = conditions.find(|condition| condition.r#type() == "PodScheduled");
        condition.map(|condition| condition.message().to_owned()).unwrap_or_default()
    }

    /// Waits until something holds.
    pub(crate) async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        for _ in 0..2_000 {
            if holds().await {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("there is never {what}");
    }
}
