//! The controller `clusterrole-aggregation-controller`: writes the rules of cluster roles that aggregate
//! others.
//!
//! Every change of a cluster role leads to one look at all that aggregate. Their rules are applied under the
//! name of the controller, and only if they are different.

use crate::corrections::Corrections;
use crate::follow::{StartFrom, follow};
use crate::objects::{decode, mentions};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use auth::rbac::{GROUP, PolicyRule};
use cache::{Entry, Filter, Freshness, Query, Resource};
use object::{Map, Value};
use registry::{Address, Client};
use schema::view::View;
use schema::views::rbac::v1::ClusterRole;
use schema::{Status, json};
use std::collections::HashSet;
use std::sync::Arc;

pub(crate) const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: "clusterrole-aggregation",
    account: NAME,
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

/// Also its name in managed fields.
const NAME: &str = "clusterrole-aggregation-controller";

async fn run(context: Context) {
    let Some(roles) = context.resource("clusterroles.rbac.authorization.k8s.io") else { return };
    let queue = Arc::new(Queue::default());
    let _roles = follow(roles.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |_| queue.add(())
    });
    let client = context.client.clone().with_field_manager(NAME);
    let corrections = context.corrections.clone();
    queue.work(&context, 1, Arc::new(Aggregation { client, roles, corrections })).await;
}

struct Aggregation {
    client: Client,
    roles: Arc<Resource>,
    corrections: Arc<Corrections>,
}

impl Reconcile for Aggregation {
    type Key = ();

    /// One look at all roles.
    async fn reconcile(&self, (): &()) -> Result<RequeueAfter, Status> {
        let list = self.roles.list(Query::new(Freshness::Any, Filter::all())).await;
        let entries: Vec<Arc<Entry>> = list.map_err(registry::status)?.collect();
        let mut outcome = Ok(None);
        for entry in entries.iter().filter(|entry| mentions(entry, r#""aggregationRule":"#)) {
            if let Err(error) = self.aggregate(entry, &entries).await {
                log::error!(role = entry.name(), error:% = error.message; "the rules of a cluster role could not be aggregated");
                outcome = Err(error);
            }
        }
        outcome
    }
}

impl Aggregation {
    /// Writes the rules of a role that aggregates others.
    async fn aggregate(&self, entry: &Entry, all: &[Arc<Entry>]) -> Result<(), Status> {
        let role = decode(ClusterRole::schema(), entry)?;
        let role = ClusterRole::of(&role);
        let Some(rule) = role.aggregation_rule() else { return Ok(()) };
        let mut seen = HashSet::new();
        let mut rules = Vec::new();
        for selector in rule.cluster_role_selectors().iter() {
            let selector = kinds::label_selector::compile(selector)
                .map_err(|error| Status::internal_error(&error.to_string()))?;
            // Entries are in the order of names.
            for part in all.iter().filter(|part| selector.matches(&***part) && part.name() != entry.name()) {
                let part = decode(ClusterRole::schema(), part)?;
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
        let address = Address::v1(GROUP, "clusterroles", "").named(entry.name());
        self.corrections.write(entry, &config, self.client.apply(address, &config)).await.map(drop)
    }
}

/// The configuration that is applied to a cluster role: its name and its aggregated rules.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use registry::DeleteOptions;

    impl Fixture {
        async fn put(&self, name: &str, label: &str, fields: &str) {
            let text = format!(r#"{{"metadata":{{"name":"{name}","labels":{{{label}}}}},{fields}}}"#);
            self.create(Address::v1(GROUP, "clusterroles", ""), &text).await;
        }

        /// Waits until the rules of a role have these resources.
        async fn until_resources(&self, name: &str, expected: &str) {
            self.until(expected, async || {
                let role = self.client.get(Address::v1(GROUP, "clusterroles", "").named(name)).await.unwrap();
                let rules = PolicyRule::read(ClusterRole::of(role.as_map().unwrap()).rules());
                let resources = rules.iter().flat_map(|rule| rule.resources.iter().map(|text| text.as_str()));
                resources.collect::<Vec<_>>().join(" ") == expected
            })
            .await;
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
        let _running = fixture.start(&CONTROLLER);
        fixture.put("view", r#""to-edit":"true""#, &aggregating("to-view")).await;
        fixture.put("edit", r#""to-edit":"true""#, &aggregating("to-edit")).await;
        fixture.put("b", r#""to-view":"true""#, &rules(&["pods", "services"])).await;
        fixture.put("a", r#""to-view":"true""#, &rules(&["nodes", "pods"])).await;
        fixture.put("c", r#""to-edit":"true""#, &rules(&["secrets", "nodes"])).await;
        fixture.put("other", "", &rules(&["events"])).await;
        fixture.until_resources("view", "nodes pods services").await;
        fixture.until_resources("edit", "secrets nodes pods services").await;
        fixture.until_resources("other", "events").await;
        let address = Address::v1(GROUP, "clusterroles", "");
        fixture.client.delete(address.named("a"), &DeleteOptions::default()).await.unwrap();
        fixture.client.delete(address.named("b"), &DeleteOptions::default()).await.unwrap();
        fixture.until_resources("view", "").await;
        fixture.until_resources("edit", "secrets nodes").await;
    }

    #[tokio::test]
    async fn rules_are_applied_under_the_name_of_the_controller() {
        let fixture = Fixture::new().await;
        fixture.put("view", "", &format!("{},{}", aggregating("to-view"), rules(&["secrets"]))).await;
        fixture.put("a", r#""to-view":"true""#, &rules(&["nodes"])).await;
        let _running = fixture.start(&CONTROLLER);
        fixture.until_resources("view", "nodes").await;
        let entry = fixture.lookup("clusterroles.rbac.authorization.k8s.io", "", "view").unwrap();
        let text = str::from_utf8(entry.bytes()).unwrap();
        assert!(text.contains(&format!(r#""manager":"{NAME}","operation":"Apply""#)), "{text}");
    }
}
