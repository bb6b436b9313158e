//! The API `metrics.k8s.io` for pods and nodes on paper, as long as there are some and nobody else serves it.
//!
//! The objects are computed when a client reads them ([`registry::Computed`]). An `APIService` without a
//! service says that the API is here; one with a service is another server's, and takes precedence.

use crate::usage::{self, Usage};
use crate::work::Shared;
use cache::{Cache, Entry, Filter, Freshness, Query, Resource, Update};
use controllers::{StartFrom, follow};
use kinds::{Cell, Column, ColumnDefinition, Description, ResourceType, Row, RowFn, Scope, Verb};
use object::time::Time;
use object::{Map, Text, Value};
use registry::{Address, Client, Computed, DeleteOptions};
use schema::status::Reason;
use schema::view::View as _;
use schema::views::apiregistration::v1::APIService;
use schema::{Builder, FieldBuilder, GroupVersionKind, Shape, Status, stored};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tasks::{BoxFuture, Task};

const GROUP: &str = "metrics.k8s.io";
const VERSION: &str = "v1beta1";
/// The API service of the group version.
const SERVICE: &str = "v1beta1.metrics.k8s.io";
const SERVICES: Address<'static> = Address::v1("apiregistration.k8s.io", "apiservices", "");
/// The label of an API service that was made here.
const OWN: (&str, &str) = ("keelson.io/served-by", "paper-nodes");
/// The time that usage is about: it is what pods say now.
const WINDOW: &str = "1s";
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// The kinds: resource, kind, scope.
const KINDS: [(&str, &str, Scope); 2] =
    [("nodes", "NodeMetrics", Scope::Cluster), ("pods", "PodMetrics", Scope::Namespaced)];

/// Serves the API while it is wanted, until the future is dropped.
pub(crate) async fn run(client: Client, shared: Arc<Shared>) {
    let registry = client.registry().clone();
    let Some(services) = registry.cache().resource("apiservices.apiregistration.k8s.io") else { return };
    let foreign = Arc::new(AtomicBool::new(false));
    let _following = follow_service(services, &foreign, &shared);
    let mut is_served = false;
    loop {
        let has_nodes = !shared.lock().nodes.is_empty();
        let is_wanted = has_nodes && !foreign.load(Ordering::Relaxed);
        if is_wanted != is_served {
            match is_wanted {
                true => {
                    let kinds = KINDS.map(|kind| served(kind, &shared, registry.cache()));
                    registry.serve_computed(kinds.into_iter().collect()).await;
                }
                false => registry.stop_computed(KINDS.map(|(resource, ..)| (GROUP, resource))).await,
            }
            is_served = is_wanted;
        }
        match keep_service(&client, is_wanted).await {
            Ok(()) => shared.metrics_due.notified().await,
            Err(error) => {
                log::debug!(error:% = error.message; "the API service of {GROUP} could not be written");
                // Either outcome leads to another look.
                drop(tokio::time::timeout(PAUSE, shared.metrics_due.notified()).await);
            }
        }
    }
}

/// Notes whether the API service of the group names another server.
fn follow_service(services: Arc<Resource>, foreign: &Arc<AtomicBool>, shared: &Arc<Shared>) -> Task {
    let (foreign, shared) = (foreign.clone(), shared.clone());
    follow(services, StartFrom::State, move |update| {
        let Update::Change { before, after } = update else { return };
        if before.or(after).is_none_or(|entry| entry.name() != SERVICE) {
            return;
        }
        foreign.store(after.is_some_and(|entry| is_foreign(entry)), Ordering::Relaxed);
        shared.metrics_due.notify_one();
    })
}

fn is_foreign(entry: &Entry) -> bool {
    let service = stored::logged(entry, stored::decode(APIService::schema(), entry.bytes()));
    service.is_some_and(|service| APIService::of(&service).spec().service().is_some())
}

/// Makes the API service, or removes the one that was made here. One of somebody else stays as it is.
async fn keep_service(client: &Client, is_wanted: bool) -> Result<(), Status> {
    let found = match client.get(SERVICES.named(SERVICE)).await {
        Err(error) if error.reason == Reason::NotFound => None,
        found => Some(found?),
    };
    match (found, is_wanted) {
        (None, true) => match client.create(SERVICES, api_service().into()).await {
            Err(error) if error.reason == Reason::AlreadyExists => Ok(()),
            outcome => outcome.map(drop),
        },
        (Some(found), false) if is_own(&found) => {
            match client.delete(SERVICES.named(SERVICE), &DeleteOptions::default()).await {
                Err(error) if error.reason == Reason::NotFound => Ok(()),
                outcome => outcome,
            }
        }
        _ => Ok(()),
    }
}

fn is_own(service: &Value) -> bool {
    let labels = service.get("metadata").and_then(|metadata| metadata.get("labels"));
    let label = labels.and_then(|labels| labels.get(OWN.0)).and_then(Value::as_str);
    let has_service =
        service.get("spec").is_some_and(|spec| spec.get("service").is_some_and(|it| !it.is_null()));
    label == Some(OWN.1) && !has_service
}

fn api_service() -> Map {
    let mut spec = Map::from_iter([("group", GROUP), ("version", VERSION)]);
    spec.insert("groupPriorityMinimum", 100i64);
    spec.insert("versionPriority", 100i64);
    let mut metadata = Map::from_iter([("name", SERVICE)]);
    metadata.insert("labels", Map::from_iter([OWN]));
    let mut service = Map::new();
    service.insert("metadata", metadata);
    service.insert("spec", spec);
    service
}

/// A kind, and what computes its objects.
fn served(
    (resource, kind, scope): (&'static str, &'static str, Scope),
    shared: &Arc<Shared>,
    cache: &Arc<Cache>,
) -> (ResourceType, Arc<dyn Computed>) {
    let kind = GroupVersionKind { group: GROUP.into(), version: VERSION.into(), kind: kind.into() };
    let name = format!("io.k8s.metrics.pkg.apis.metrics.v1beta1.{}", kind.kind);
    let builder = Builder::new(name)
        .kind(kind.clone())
        .object()
        .field("timestamp", FieldBuilder::new(Shape::Time))
        .field("window", FieldBuilder::new(Shape::String))
        .preserve_unknown_fields();
    let column = |name: &str, format: &str, about: &str| ColumnDefinition {
        name: name.into(),
        ty: "string".into(),
        format: format.into(),
        priority: 0,
        description: Description::Text(about.into()),
    };
    let resource_type = ResourceType {
        verbs: vec![Verb::Get, Verb::List],
        singular: Text::default(),
        announced_storage: None,
        columns: vec![
            ColumnDefinition::from(&Column::NAME),
            column("cpu", "quantity", "The CPU that is used"),
            column("memory", "quantity", "The memory that is used"),
            column("Window", "duration", "The time that the usage is about"),
        ],
        row: RowFn::Custom(Arc::new(row)),
        ..ResourceType::custom(&kind, resource, scope, builder.build())
    };
    let metrics =
        Metrics { shared: Arc::downgrade(shared), cache: cache.clone(), is_of_pods: resource == "pods" };
    (resource_type, Arc::new(metrics))
}

fn row(object: &Map) -> Row {
    let mut sum = [object::quantity::Quantity::default(), object::quantity::Quantity::default()];
    let containers = object.get("containers").and_then(Value::as_list).unwrap_or_default();
    let own = object.get("usage");
    for usage in own.into_iter().chain(containers.iter().filter_map(|container| container.get("usage"))) {
        for (sum, name) in sum.iter_mut().zip(["cpu", "memory"]) {
            let amount = usage.get(name).and_then(Value::as_str).and_then(|text| text.parse().ok());
            if let Some(amount) = amount {
                *sum += &amount;
            }
        }
    }
    let window = object.get("window").and_then(Value::as_str).unwrap_or_default();
    let [cpu, memory] = sum.map(|amount| Cell::Text(amount.to_string()));
    vec![Cell::name(object), cpu, memory, Cell::text(window)].into()
}

/// Computes the objects of one of the kinds.
struct Metrics {
    /// The nodes that are played. Without them nobody knows what is used.
    shared: Weak<Shared>,
    cache: Arc<Cache>,
    is_of_pods: bool,
}

impl Computed for Metrics {
    fn objects<'a>(
        &'a self,
        namespace: &'a str,
        name: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>> {
        Box::pin(async move {
            let unknown =
                || Status::service_unavailable("the nodes on paper are not played by this server now");
            let shared = self.shared.upgrade().ok_or_else(unknown)?;
            match self.is_of_pods {
                true => self.of_pods(&shared, namespace, name).await,
                false => self.of_nodes(&shared, name).await,
            }
        })
    }
}

impl Metrics {
    async fn list(&self, prefix: &str, filter: Filter) -> Result<cache::List, Status> {
        let Some(resource) = self.cache.resource(prefix) else { return Ok(cache::List::none()) };
        resource.list(Query::new(Freshness::Any, filter)).await.map_err(registry::status)
    }

    async fn of_pods(
        &self,
        shared: &Shared,
        namespace: &str,
        name: Option<&str>,
    ) -> Result<Vec<Value>, Status> {
        let mut filter = if namespace.is_empty() { Filter::all() } else { Filter::namespace(namespace) };
        if let Some(name) = name {
            filter = filter.name(name);
        }
        let pods = self.list("pods", filter).await?;
        let now = Time::now().text();
        let mut metrics = Vec::new();
        for pod in pods.filter(|pod| is_played(shared, pod)) {
            let Some(containers) = usage::of_pod(&pod) else { continue };
            let mut object = object(&pod, &now);
            object.insert("containers", usage::shown(&containers));
            metrics.push(object.into());
        }
        Ok(metrics)
    }

    async fn of_nodes(&self, shared: &Shared, name: Option<&str>) -> Result<Vec<Value>, Status> {
        let mut filter = Filter::all();
        if let Some(name) = name {
            filter = filter.name(name);
        }
        let nodes = self.list("nodes", filter).await?;
        let mut used: HashMap<Text, Usage> = HashMap::new();
        for pod in self.list("pods", Filter::all()).await? {
            let node = pod.field("spec.nodeName").unwrap_or_default();
            if name.is_some_and(|name| name != node) {
                continue;
            }
            let sum = used.entry(node.into()).or_default();
            usage::of_pod(&pod).into_iter().flatten().for_each(|container| sum.add(container.usage));
        }
        let now = Time::now().text();
        let played = nodes.filter(|node| shared.lock().nodes.contains_key(node.name()));
        let metrics = played.map(|node| {
            let mut object = object(&node, &now);
            object.insert("usage", used.get(node.name()).copied().unwrap_or_default().to_map());
            object.into()
        });
        Ok(metrics.collect())
    }
}

fn is_played(shared: &Shared, pod: &Entry) -> bool {
    let node = pod.field("spec.nodeName").unwrap_or_default();
    shared.lock().nodes.contains_key(node)
}

/// The part that both kinds have: the metadata and the time.
fn object(of: &Entry, now: &Text) -> Map {
    let mut metadata = Map::from_iter([("name", of.name())]);
    if !of.namespace().is_empty() {
        metadata.insert("namespace", of.namespace());
    }
    metadata.insert("creationTimestamp", now.clone());
    let labels: Map = of.labels().collect();
    if !labels.is_empty() {
        metadata.insert("labels", labels);
    }
    let mut object = Map::new();
    object.insert("metadata", metadata);
    object.insert("timestamp", now.clone());
    object.insert("window", WINDOW);
    object
}
