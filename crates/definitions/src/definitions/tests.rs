use super::*;
use cache::Cache;
use registry::{Config, DeleteOptions, Patch, WriteHooks};
use store::memory::Memory;
use tasks::faults::{Fault, inject};

/// A registry without a server, with the loop that serves definitions.
struct Fixture {
    client: Client,
    _task: Task,
}

impl Fixture {
    async fn start() -> Self {
        let cache = Cache::open(
            Arc::new(Memory::default()),
            registry::specs().unwrap(),
            cache::CacheOptions::default(),
        );
        let cache = Arc::new(cache.await.unwrap());
        let handled = Handled::new(&cache).unwrap();
        let hooks = WriteHooks::default().with(crate::GROUP, crate::RESOURCE, Arc::new(handled.clone()));
        let config = Config { hooks, ..Config::new(&cache).unwrap() };
        let registry = Arc::new(Registry::new(cache.clone(), config).unwrap());
        let services = cache.resource("services").unwrap();
        let clients = Clients::new(admission::webhook::services(services, None));
        let mut definitions = Definitions::new(&registry, handled, clients);
        definitions.load().await;
        let client = Client::new(registry, SystemIdentity::ApiServer, "test");
        Self { client, _task: definitions.start() }
    }

    async fn define(&self, group: &str) {
        let names = r#"{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList","shortNames":["th"],"categories":["all","some"]}"#;
        let schema = r#"{"openAPIV3Schema":{"type":"object"}}"#;
        let version = format!(r#"{{"name":"v1","served":true,"storage":true,"schema":{schema}}}"#);
        let text = format!(
            r#"{{"metadata":{{"name":"things.{group}"}},"spec":{{"group":"{group}","scope":"Cluster","names":{names},"versions":[{version}]}}}}"#
        );
        let definition = self.client.decode(DEFINITIONS, &text).unwrap();
        self.client.create(DEFINITIONS, definition).await.unwrap();
    }

    async fn remove(&self, group: &str) {
        let name = format!("things.{group}");
        self.client.delete(DEFINITIONS.named(&name), &DeleteOptions::default()).await.unwrap();
    }

    /// Waits until a group is served, or is not.
    async fn until_served(&self, group: &str, expected: bool) {
        until(async || self.client.registry().catalog().serves_group(group) == expected).await;
    }
}

async fn until(holds: impl AsyncFn() -> bool) {
    for _ in 0..2_000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never holds");
}

#[tokio::test]
async fn definitions_made_and_removed_after_a_panic_are_served_and_not_served() {
    let fixture = Fixture::start().await;
    fixture.define("stays.example").await;
    fixture.define("goes.example").await;
    fixture.until_served("stays.example", true).await;
    fixture.until_served("goes.example", true).await;

    assert_eq!(inject(Name::Definitions, Fault::Panic), 1);
    tokio::task::yield_now().await;
    fixture.define("comes.example").await;
    fixture.remove("goes.example").await;
    fixture.until_served("comes.example", true).await;
    fixture.until_served("goes.example", false).await;
    assert!(fixture.client.registry().catalog().serves_group("stays.example"));
}

#[tokio::test]
async fn kind_is_served_anew_once_for_each_change_and_before_its_answer() {
    let fixture = Fixture::start().await;
    let registry = fixture.client.registry().clone();
    fixture.define("once.example").await;
    let things = || registry.catalog().find("once.example", "v1", "things").cloned().unwrap();
    let is_retired = async |served: &registry::Served, within| {
        tokio::time::timeout(Duration::from_millis(within), served.retired()).await.is_ok()
    };
    for number in 2..6 {
        let version = format!(
            r#"[{{"op":"add","path":"/spec/versions/-","value":{{"name":"v{number}","served":true,"storage":false,"schema":{{"openAPIV3Schema":{{"type":"object"}}}}}}}}]"#
        );
        let before = things();
        let name = "things.once.example";
        fixture.client.patch(DEFINITIONS.named(name), Patch::Json, version.as_bytes()).await.unwrap();
        assert!(registry.catalog().find("once.example", &format!("v{number}"), "things").is_some());
        assert!(is_retired(&before, 0).await, "watches of the form before end");
    }
    assert!(!is_retired(&things(), 200).await, "watches that began after the answer stay");
}

#[tokio::test]
async fn definition_of_a_kind_that_is_built_in_is_established_and_removed_and_serves_nothing() {
    let fixture = Fixture::start().await;
    let text = r#"{"metadata":{"name":"apiservices.apiregistration.k8s.io","annotations":{"api-approved.kubernetes.io":"unapproved, for a test"}},
        "spec":{"group":"apiregistration.k8s.io","scope":"Cluster","names":{"plural":"apiservices","kind":"Overlap"},
        "versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#;
    let definition = fixture.client.decode(DEFINITIONS, text).unwrap();
    fixture.client.create(DEFINITIONS, definition).await.unwrap();
    let address = DEFINITIONS.named("apiservices.apiregistration.k8s.io");
    let read = async || fixture.client.get(address).await.ok();
    let established = |definition: &Value| {
        let status = definition.get("status").and_then(Value::as_map).unwrap();
        conditions::is_true(conditions_of(status), "Established")
    };
    until(async || read().await.is_some_and(|definition| established(&definition))).await;
    let catalog = fixture.client.registry().catalog();
    let served = catalog.find("apiregistration.k8s.io", "v1", "apiservices").unwrap();
    assert_eq!(served.resource_type.kind.as_str(), "APIService");

    fixture.client.delete(address, &DeleteOptions::default()).await.unwrap();
    until(async || read().await.is_none()).await;
}
