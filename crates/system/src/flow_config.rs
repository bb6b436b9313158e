//! Configures priority and fairness by the flow schemas and priority levels that are stored.
//!
//! Every change of one of them leads to one look at all. Those that cannot be used, because they are broken
//! or name a level that is not there, are passed over. Every ten seconds levels lend and borrow seats.

use std::sync::Arc;
use std::time::Duration;

use admission::Lister;
use cache::Resource;
use cache::watch::{self, Start, WatchOptions};
use flowcontrol::{
    Distinguisher, FlowControl, LevelConfig, PathRule, Queuing, ResourceRule, Rule, Schema, Subject,
};
use object::Map;
use registry::Registry;
use schema::view::View as _;
use schema::views::flowcontrol::v1::{FlowSchema, PriorityLevelConfiguration};

use super::flow_control::{LEVELS, SCHEMAS};

/// How often levels lend and borrow seats.
const ADJUSTMENT: Duration = Duration::from_secs(10);

/// The nominal shares of a level that does not say them.
const DEFAULT_SHARES: i64 = 30;

/// Follows flow schemas and priority levels.
pub struct FlowConfig {
    schemas: Lister<Schema>,
    levels: Lister<LevelConfig>,
    schema_resource: Arc<Resource>,
    level_resource: Arc<Resource>,
}

impl FlowConfig {
    /// None if one of the resources does not exist.
    pub fn new(registry: &Arc<Registry>) -> Option<Self> {
        let find = |address: registry::Address<'_>| {
            registry.cache().resource(&format!("{}.{}", address.resource, address.group))
        };
        let (schema_resource, level_resource) = (find(SCHEMAS)?, find(LEVELS)?);
        Some(Self {
            schemas: Lister::new(schema_resource.clone(), FlowSchema::schema(), |object| {
                Some(schema(object))
            }),
            levels: Lister::new(level_resource.clone(), PriorityLevelConfiguration::schema(), level),
            schema_resource,
            level_resource,
        })
    }

    /// Keeps flow control as it is configured, until the process ends.
    pub async fn run<T: Send + 'static>(self: Arc<Self>, flows: FlowControl<T>) {
        while watch::resubscribe_after("flow control", self.follow(&flows).await).await {}
    }

    /// Configures flow control as it is stored now.
    pub fn configure<T>(&self, flows: &FlowControl<T>) {
        let levels = self.levels.all().iter().map(|level| LevelConfig::clone(level)).collect();
        let schemas = self.schemas.all().iter().map(|schema| Schema::clone(schema)).collect();
        flows.configure(levels, schemas);
    }

    async fn follow<T: Send + 'static>(&self, flows: &FlowControl<T>) -> Result<(), cache::Error> {
        let watch = async |resource: &Arc<Resource>| {
            resource.watch(WatchOptions::new(Start::After(resource.revision()))).await
        };
        let mut schemas = watch(&self.schema_resource).await?;
        let mut levels = watch(&self.level_resource).await?;
        self.configure(flows);
        let mut adjustment = tokio::time::interval(ADJUSTMENT);
        adjustment.tick().await;
        loop {
            tokio::select! {
                changed = schemas.next() => {
                    changed?;
                    self.configure(flows);
                }
                changed = levels.next() => {
                    changed?;
                    self.configure(flows);
                }
                _ = adjustment.tick() => flows.adjust(),
            }
        }
    }
}

fn level(object: &Map) -> Option<LevelConfig> {
    let metadata = kinds::metadata(object);
    let spec = PriorityLevelConfiguration::of(object).spec();
    let number = |value: i64| u32::try_from(value).unwrap_or_default();
    let size = |value: i64| usize::try_from(value).unwrap_or_default();
    let (shares, lendable_percent, borrowing_percent, queuing) = match spec.r#type() {
        "Exempt" => {
            let exempt = spec.exempt()?;
            let shares = exempt.nominal_concurrency_shares().unwrap_or_default();
            (shares, exempt.lendable_percent().unwrap_or_default(), None, Queuing::Exempt)
        }
        "Limited" => {
            let limited = spec.limited()?;
            let response = limited.limit_response();
            let queuing = match response.r#type() {
                "Reject" => Queuing::Reject,
                "Queue" => {
                    let queuing = response.queuing()?;
                    Queuing::Queues {
                        queues: size(queuing.queues()),
                        hand: size(queuing.hand_size()),
                        length: size(queuing.queue_length_limit()),
                    }
                }
                _ => return None,
            };
            let shares = limited.nominal_concurrency_shares().unwrap_or(DEFAULT_SHARES);
            let lendable = limited.lendable_percent().unwrap_or_default();
            (shares, lendable, limited.borrowing_limit_percent().map(number), queuing)
        }
        _ => return None,
    };
    Some(LevelConfig {
        name: metadata.name().into(),
        uid: metadata.uid().into(),
        shares: number(shares),
        lendable_percent: number(lendable_percent),
        borrowing_percent,
        queuing,
    })
}

fn schema(object: &Map) -> Schema {
    let metadata = kinds::metadata(object);
    let spec = FlowSchema::of(object).spec();
    let distinguisher = match spec.distinguisher_method().map(|method| method.r#type().to_owned()).as_deref()
    {
        Some("ByUser") => Distinguisher::User,
        Some("ByNamespace") => Distinguisher::Namespace,
        _ => Distinguisher::None,
    };
    let list = |texts: schema::view::Items<'_, &str>| texts.iter().map(str::to_owned).collect::<Vec<_>>();
    let rules = spec.rules().iter().map(|rule| Rule {
        subjects: rule
            .subjects()
            .iter()
            .filter_map(|subject| match subject.kind() {
                "User" => Some(Subject::User(subject.user()?.name().to_owned())),
                "Group" => Some(Subject::Group(subject.group()?.name().to_owned())),
                "ServiceAccount" => {
                    let account = subject.service_account()?;
                    let (namespace, name) = (account.namespace().to_owned(), account.name().to_owned());
                    Some(Subject::ServiceAccount { namespace, name })
                }
                _ => None,
            })
            .collect(),
        resources: rule
            .resource_rules()
            .iter()
            .map(|rule| ResourceRule {
                verbs: list(rule.verbs()),
                api_groups: list(rule.api_groups()),
                resources: list(rule.resources()),
                cluster_scope: rule.cluster_scope(),
                namespaces: list(rule.namespaces()),
            })
            .collect(),
        paths: rule
            .non_resource_rules()
            .iter()
            .map(|rule| PathRule { verbs: list(rule.verbs()), paths: list(rule.non_resource_urls()) })
            .collect(),
    });
    Schema {
        name: metadata.name().into(),
        uid: metadata.uid().into(),
        level: spec.priority_level_configuration().name().into(),
        precedence: spec.matching_precedence(),
        distinguisher,
        rules: rules.collect(),
    }
}
