use super::*;
use cache::Cache;
use registry::{Config, DeleteOptions};
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
        let registry = Arc::new(Registry::new(cache.clone(), Config::new(&cache).unwrap()).unwrap());
        let services = cache.resource("services").unwrap();
        let clients = Clients::new(admission::webhook::services(services, None));
        let mut definitions = Definitions::new(&registry, Handled::new(&cache).unwrap(), clients);
        definitions.load().await;
        let client = Client::new(registry, SystemIdentity::ApiServer, "test");
        Self { client, _task: definitions.start() }
    }

    async fn define(&self, group: &str) {
        let names = r#"{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"}"#;
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
        for _ in 0..2_000 {
            if self.client.registry().catalog().serves_group(group) == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{group} is never {expected}");
    }
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
