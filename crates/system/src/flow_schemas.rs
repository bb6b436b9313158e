//! The condition `Dangling` of flow schemas: whether the priority level that a schema names is there.
//!
//! Every change of a flow schema or a priority level leads to one look at all schemas; those whose condition
//! is wrong are written.

use std::sync::Arc;
use std::time::Duration;

use admission::Lister;
use cache::Resource;
use cache::watch::{self, Start, WatchOptions};
use object::Map;
use object::quote::Quoted;
use object::time::Time;
use registry::{Client, Registry};
use schema::view::View as _;
use schema::views::flowcontrol::v1::FlowSchema;
use schema::{Status, json};
use tokio::task::JoinSet;

use super::flow_control::{LEVELS, SCHEMAS};
/// The field manager of the reference.
const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// So many conditions are written at the same time.
const AT_ONCE: usize = 64;

/// All flow schemas.
pub(super) struct FlowSchemas {
    client: Client,
    schemas: Lister<Schema>,
    /// What `schemas` follows.
    resource: Arc<Resource>,
    levels: Arc<Resource>,
}

/// What counts of a flow schema.
struct Schema {
    name: String,
    level: String,
    /// What its condition says, if it is written as it has to be.
    is_dangling: Option<bool>,
}

impl FlowSchemas {
    /// None if one of the resources does not exist.
    pub(super) fn new(registry: &Arc<Registry>) -> Option<Self> {
        let find = |address: registry::Address<'_>| {
            registry.cache().resource(&format!("{}.{}", address.resource, address.group))
        };
        let (resource, levels) = (find(SCHEMAS)?, find(LEVELS)?);
        let client = Client::of_startup(registry.clone(), MANAGER);
        let schemas =
            Lister::new(resource.clone(), FlowSchema::schema(), |object| Some(Schema::read(object)));
        Some(Self { client, schemas, resource, levels })
    }

    /// Runs until the process ends.
    pub(super) async fn run(self: Arc<Self>) {
        while watch::resubscribe_after("flow schemas", self.follow().await).await {}
    }

    /// Writes conditions, until changes cannot be followed from where they were.
    async fn follow(&self) -> Result<(), cache::Error> {
        let watch = async |resource: &Arc<Resource>| {
            resource.watch(WatchOptions::new(Start::After(resource.revision()))).await
        };
        let mut schemas = watch(&self.resource).await?;
        let mut levels = watch(&self.levels).await?;
        loop {
            let outcome = self.set_conditions().await;
            let change = async {
                tokio::select! {
                    changed = schemas.next() => changed.map(drop),
                    changed = levels.next() => changed.map(drop),
                }
            };
            match outcome {
                Ok(()) => change.await?,
                Err(error) => {
                    log::error!(error:% = error.message; "the condition of a flow schema could not be written");
                    tokio::time::timeout(PAUSE, change).await.unwrap_or(Ok(()))?;
                }
            }
        }
    }

    /// Writes the conditions that are wrong.
    pub(super) async fn set_conditions(&self) -> Result<(), Status> {
        let schemas = self.schemas.all();
        let is_dangling = |schema: &Schema| !matches!(self.levels.lookup("", &schema.level), Ok(Some(_)));
        let all = schemas.iter().map(|schema| (schema, is_dangling(schema)));
        let wrong: Vec<_> = all.filter(|(schema, now)| schema.is_dangling != Some(*now)).collect();
        for some in wrong.chunks(AT_ONCE) {
            let mut tasks = JoinSet::new();
            for (schema, is_dangling) in some {
                let (client, schema, is_dangling) = (self.client.clone(), Arc::clone(schema), *is_dangling);
                tasks.spawn(async move { schema.write(&client, is_dangling).await });
            }
            super::finish(tasks).await?;
        }
        Ok(())
    }
}

impl Schema {
    fn read(object: &Map) -> Self {
        let schema = FlowSchema::of(object);
        let level = schema.spec().priority_level_configuration().name();
        let conditions = schema.status().conditions();
        let condition = conditions.iter().find(|condition| condition.r#type() == "Dangling");
        let is_dangling = condition.and_then(|condition| {
            [true, false].into_iter().find(|dangling| {
                let Words { status, reason, message } = Words::new(*dangling, level);
                condition.status() == status && condition.reason() == reason && condition.message() == message
            })
        });
        Self { name: kinds::metadata(object).name().to_owned(), level: level.to_owned(), is_dangling }
    }

    async fn write(&self, client: &Client, is_dangling: bool) -> Result<(), Status> {
        let Words { status, reason, message } = Words::new(is_dangling, &self.level);
        let config = format!(
            r#"{{"apiVersion":"{}/v1","kind":"FlowSchema","metadata":{{"name":{}}},"status":{{"conditions":[{{"type":"Dangling",
            "status":"{status}","lastTransitionTime":"{}","reason":"{reason}","message":{}}}]}}}}"#,
            SCHEMAS.group,
            json::string(&self.name),
            Time::now(),
            json::string(&message),
        );
        let address = SCHEMAS.named(&self.name).subresource("status");
        match client.apply(address, config.as_bytes()).await {
            Err(gone) if gone.code == 404 => Ok(()),
            outcome => outcome,
        }
    }
}

/// The texts of a condition.
struct Words {
    status: &'static str,
    reason: &'static str,
    message: String,
}

impl Words {
    fn new(is_dangling: bool, level: &str) -> Self {
        let (status, reason, state) = match is_dangling {
            true => ("True", "NotFound", "but there is no such object"),
            false => ("False", "Found", "and it exists"),
        };
        let level = Quoted(level);
        let message =
            format!("This FlowSchema references the PriorityLevelConfiguration object named {level} {state}");
        Self { status, reason, message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::registry;
    use registry::DeleteOptions;

    #[tokio::test(flavor = "multi_thread")]
    async fn condition_follows_the_priority_level() {
        let registry = registry().await;
        let schemas = FlowSchemas::new(&registry).unwrap();
        let client = schemas.client.clone();
        let make = async |address, text: &str| {
            client.create(address, client.decode(address, text).unwrap()).await.unwrap();
        };
        let condition = async || {
            let object = client.get(SCHEMAS.named("s")).await.unwrap();
            let schema = FlowSchema::of(object.as_map().unwrap());
            let conditions = schema.status().conditions();
            assert!(conditions.len() < 2);
            conditions.get(0).map(|condition| {
                assert!(condition.last_transition_time().is_some());
                format!(
                    "{} {} {}: {}",
                    condition.r#type(),
                    condition.status(),
                    condition.reason(),
                    condition.message()
                )
            })
        };
        let text = r#"{"metadata":{"name":"s"},"spec":{"priorityLevelConfiguration":{"name":"l"},"matchingPrecedence":5}}"#;
        make(SCHEMAS, text).await;
        assert_eq!(condition().await, None);
        schemas.set_conditions().await.unwrap();
        let missing = r#"Dangling True NotFound: This FlowSchema references the PriorityLevelConfiguration object named "l" but there is no such object"#;
        assert_eq!(condition().await.as_deref(), Some(missing));
        let before = registry.cache().committed();
        schemas.set_conditions().await.unwrap();
        assert_eq!(registry.cache().committed(), before);

        let task = tokio::spawn(Arc::new(schemas).run());
        let becomes = async |wanted: &str| {
            for _ in 0..500 {
                if condition().await.as_deref() == Some(wanted) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            panic!("{:?} instead of {wanted}", condition().await);
        };
        make(LEVELS, r#"{"metadata":{"name":"l"},"spec":{"type":"Limited","limited":{"limitResponse":{"type":"Reject"}}}}"#).await;
        becomes(r#"Dangling False Found: This FlowSchema references the PriorityLevelConfiguration object named "l" and it exists"#).await;
        client.delete(LEVELS.named("l"), &DeleteOptions::default()).await.unwrap();
        becomes(missing).await;
        task.abort();
    }
}
