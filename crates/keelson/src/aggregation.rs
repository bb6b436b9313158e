//! The controller `clusterrole-aggregation-controller`: writes the rules of cluster roles that aggregate others.
//!
//! Every change of a cluster role leads to one look at all that aggregate. Their rules are applied under the name of the controller,
//! and only if they are different.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use auth::rbac::{GROUP, PolicyRule};
use cache::watch::{Request, Start};
use cache::{Entry, Filter, Freshness, Query, Resource};
use object::{Map, Value};
use registry::{Address, Client};
use schema::view::View;
use schema::views::rbac::v1::ClusterRole;
use schema::{Limits, Status, json};

/// Its name in `--controllers` and in managed fields.
pub(crate) const NAME: &str = "clusterrole-aggregation-controller";
/// Its name in `--controllers` of old.
pub(crate) const ALIAS: &str = "clusterrole-aggregation";

/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until the process ends; not at all if cluster roles are not served.
pub(crate) async fn run(client: Client, roles: Arc<Resource>) {
    while client.serves(Address::v1(GROUP, "clusterroles", "")) {
        match round(&client, &roles).await {
            Ok(()) | Err(cache::Error::TooOld { .. }) => {}
            Err(cache::Error::Closed) => return,
            Err(error) => {
                log::error!(error:%; "cluster roles cannot be followed");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// One look at all roles, and the wait for the next change.
async fn round(client: &Client, roles: &Arc<Resource>) -> Result<(), cache::Error> {
    let list = roles.list(Query::new(Freshness::Any, Filter::all())).await?;
    let revision = list.revision;
    let entries: Vec<Arc<Entry>> = list.collect();
    let mut failed = false;
    for entry in entries.iter().filter(|entry| may_aggregate(entry)) {
        if let Err(error) = aggregate(client, entry, &entries).await {
            log::error!(role = entry.name(), error:% = error.message; "the rules of a cluster role could not be aggregated");
            failed = true;
        }
    }
    let mut watcher = roles.watch(Request::new(Start::After(revision))).await?;
    match failed {
        true => tokio::time::timeout(PAUSE, watcher.next()).await.map_or(Ok(()), |changed| changed.map(drop)),
        false => watcher.next().await.map(drop),
    }
}

/// Whether a role can have an aggregation rule, by its bytes.
fn may_aggregate(entry: &Entry) -> bool {
    const FIELD: &[u8] = b"\"aggregationRule\":";
    entry.bytes().windows(FIELD.len()).any(|window| window == FIELD)
}

/// Writes the rules of a role that aggregates others.
async fn aggregate(client: &Client, entry: &Entry, all: &[Arc<Entry>]) -> Result<(), Status> {
    let role = decode(entry)?;
    let role = ClusterRole::of(&role);
    let Some(rule) = role.aggregation_rule() else { return Ok(()) };
    let mut seen = HashSet::new();
    let mut rules = Vec::new();
    for selector in rule.cluster_role_selectors().iter() {
        let selector = kinds::label_selector::compile(selector)
            .map_err(|error| Status::internal_error(&error.to_string()))?;
        // Entries are in the order of names.
        for part in all.iter().filter(|part| selector.matches(&***part) && part.name() != entry.name()) {
            let part = decode(part)?;
            for rule in PolicyRule::read(ClusterRole::of(&part).rules()).iter() {
                if seen.insert(rule.clone()) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    if *rules == *PolicyRule::read(role.rules()) {
        return Ok(());
    }
    let config = configuration(entry.name(), &rules);
    client.apply(Address::v1(GROUP, "clusterroles", "").named(entry.name()), &config).await
}

/// What is applied.
fn configuration(name: &str, rules: &[PolicyRule]) -> Vec<u8> {
    let mut metadata = Map::new();
    metadata.insert("name", name);
    let mut config = Map::new();
    config.insert("kind", "ClusterRole");
    config.insert("apiVersion", format!("{GROUP}/v1"));
    config.insert("metadata", metadata);
    if !rules.is_empty() {
        config.insert("rules", rules.iter().map(PolicyRule::to_value).collect::<Value>());
    }
    let mut out = Vec::new();
    json::encode_shape(&schema::Shape::Any, &config.into(), &mut out);
    out
}

fn decode(entry: &Entry) -> Result<Map, Status> {
    match json::decode(ClusterRole::schema(), entry.bytes(), &Limits::STORED) {
        Ok(decoded) => Ok(decoded.value.as_map().cloned().unwrap_or_default()),
        Err(error) => Err(Status::internal_error(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::SystemIdentity;
    use registry::{DeleteOptions, Registry};
    use store::memory::Memory;

    struct Fixture {
        client: Client,
        roles: Arc<Resource>,
    }

    impl Fixture {
        async fn new() -> Self {
            let specs = registry::specs().unwrap();
            let cache = cache::Cache::open(Arc::new(Memory::default()), specs, cache::Options::default());
            let cache = Arc::new(cache.await.unwrap());
            let roles = cache.resource(&format!("clusterroles.{GROUP}")).unwrap();
            let config = registry::Config::new(&cache).unwrap();
            let registry = Arc::new(Registry::new(cache, config).unwrap());
            Self { client: Client::new(registry, SystemIdentity::ApiServer, NAME), roles }
        }

        async fn put(&self, name: &str, label: &str, fields: &str) {
            let address = Address::v1(GROUP, "clusterroles", "");
            let text = format!(r#"{{"metadata":{{"name":"{name}","labels":{{{label}}}}},{fields}}}"#);
            let object = self.client.decode(address, &text).unwrap();
            self.client.create(address, object).await.unwrap();
        }

        /// Aggregates until nothing changes.
        async fn settle(&self) {
            for _ in 0..10 {
                let before = self.client.registry().cache().committed();
                // The wait for the next change is given up.
                let _ =
                    tokio::time::timeout(Duration::from_millis(20), round(&self.client, &self.roles)).await;
                if self.client.registry().cache().committed() == before {
                    return;
                }
            }
            panic!("rules change again and again");
        }

        /// The resources of the rules of a role.
        async fn resources(&self, name: &str) -> String {
            let role = self.client.get(Address::v1(GROUP, "clusterroles", "").named(name)).await.unwrap();
            let rules = PolicyRule::read(ClusterRole::of(role.as_map().unwrap()).rules());
            let resources = rules.iter().flat_map(|rule| rule.resources.iter().map(|text| text.as_str()));
            resources.collect::<Vec<_>>().join(" ")
        }
    }

    fn rules(resources: &[&str]) -> String {
        let rule =
            |resource: &&str| format!(r#"{{"verbs":["get"],"apiGroups":[""],"resources":["{resource}"]}}"#);
        format!(r#""rules":[{}]"#, resources.iter().map(rule).collect::<Vec<_>>().join(","))
    }

    fn aggregating(label: &str) -> String {
        format!(r#""aggregationRule":{{"clusterRoleSelectors":[{{"matchLabels":{{"{label}":"true"}}}}]}}"#)
    }

    #[tokio::test]
    async fn rules_come_from_selected_roles_by_name_each_once_and_through_other_aggregating_roles() {
        let fixture = Fixture::new().await;
        fixture.put("view", r#""to-edit":"true""#, &aggregating("to-view")).await;
        fixture.put("edit", r#""to-edit":"true""#, &aggregating("to-edit")).await;
        fixture.put("b", r#""to-view":"true""#, &rules(&["pods", "services"])).await;
        fixture.put("a", r#""to-view":"true""#, &rules(&["nodes", "pods"])).await;
        fixture.put("c", r#""to-edit":"true""#, &rules(&["secrets", "nodes"])).await;
        fixture.put("other", "", &rules(&["events"])).await;
        fixture.settle().await;
        assert_eq!(fixture.resources("view").await, "nodes pods services");
        assert_eq!(fixture.resources("edit").await, "secrets nodes pods services");
        assert_eq!(fixture.resources("other").await, "events");
        let address = Address::v1(GROUP, "clusterroles", "");
        fixture.client.delete(address.named("a"), &DeleteOptions::default()).await.unwrap();
        fixture.client.delete(address.named("b"), &DeleteOptions::default()).await.unwrap();
        fixture.settle().await;
        assert_eq!(fixture.resources("view").await, "");
        assert_eq!(fixture.resources("edit").await, "secrets nodes");
    }

    #[tokio::test]
    async fn rules_are_applied_under_the_name_of_the_controller() {
        let fixture = Fixture::new().await;
        fixture.put("view", "", &format!("{},{}", aggregating("to-view"), rules(&["secrets"]))).await;
        fixture.put("a", r#""to-view":"true""#, &rules(&["nodes"])).await;
        fixture.settle().await;
        assert_eq!(fixture.resources("view").await, "nodes");
        let entry = fixture.roles.lookup("", "view").unwrap().unwrap();
        let text = str::from_utf8(entry.bytes()).unwrap();
        assert!(text.contains(&format!(r#""manager":"{NAME}","operation":"Apply""#)), "{text}");
    }
}
