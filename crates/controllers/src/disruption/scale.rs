//! How many pods a budget can expect: the sum of the scales of those that control its pods.

use super::Member;
use crate::Context;
use crate::objects::{controller_of, decode, failure};
use cache::Resource;
use kinds::object_meta;
use object::int_or_string::{IntOrString, Round};
use object::quote::Quoted;
use object::{Map, Value};
use registry::{Address, Client};
use schema::status::Reason;
use schema::view::View as _;
use schema::views::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use schema::views::core::v1::ReplicationController;
use schema::views::meta::v1::OwnerReference;
use schema::views::policy::v1::PodDisruptionBudget;
use schema::{Status, Type};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The numbers that a budget stands for.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Expected {
    /// How many pods there should be.
    pub(super) pods: i64,
    /// How many of them should be healthy.
    pub(super) healthy: i64,
    /// Whether pods have no controller.
    pub(super) has_unmanaged: bool,
}

/// Finds the scales of controllers.
pub(super) struct Scales {
    client: Client,
    replication_controllers: Option<Arc<Resource>>,
    deployments: Option<Arc<Resource>>,
    replica_sets: Option<Arc<Resource>>,
    stateful_sets: Option<Arc<Resource>>,
}

/// A controller, by its uid, and its scale.
struct Found {
    uid: String,
    replicas: i64,
}

impl Scales {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            client: context.client.clone(),
            replication_controllers: context.resource("replicationcontrollers"),
            deployments: context.resource("deployments.apps"),
            replica_sets: context.resource("replicasets.apps"),
            stateful_sets: context.resource("statefulsets.apps"),
        }
    }

    /// What a budget expects of the pods that it selects.
    pub(super) async fn expected(&self, budget: &Map, pods: &[Member]) -> Result<Expected, Status> {
        let spec = PodDisruptionBudget::of(budget).spec();
        let count = i64::try_from(pods.len()).unwrap_or(i64::MAX);
        match (spec.max_unavailable(), spec.min_available()) {
            (Some(most), _) => {
                let (scale, has_unmanaged) = self.sum(pods).await?;
                let healthy = (scale - share(most, scale)?).max(0);
                Ok(Expected { pods: scale, healthy, has_unmanaged })
            }
            (None, Some(Value::Int(healthy))) => {
                Ok(Expected { pods: count, healthy: *healthy, has_unmanaged: false })
            }
            (None, Some(least)) => {
                let (scale, has_unmanaged) = self.sum(pods).await?;
                Ok(Expected { pods: scale, healthy: share(least, scale)?, has_unmanaged })
            }
            (None, None) => Ok(Expected::default()),
        }
    }

    /// The sum of the scales of the controllers of pods, and whether some pods have none.
    async fn sum(&self, pods: &[Member]) -> Result<(i64, bool), Status> {
        let mut scales: BTreeMap<String, i64> = BTreeMap::new();
        let mut has_unmanaged = false;
        for pod in pods {
            let Some(owner) = controller_of(&pod.pod) else {
                has_unmanaged = true;
                continue;
            };
            if scales.contains_key(owner.uid()) {
                continue;
            }
            let namespace = pod.entry.namespace();
            let Some(found) = self.find(owner, namespace).await? else {
                return Err(failure(format!("found no controllers for pod {}", Quoted(pod.entry.name()))));
            };
            scales.insert(found.uid, found.replicas);
        }
        Ok((scales.values().sum(), has_unmanaged))
    }

    async fn find(&self, owner: OwnerReference<'_>, namespace: &str) -> Result<Option<Found>, Status> {
        let group = owner.api_version().split_once('/').map_or("", |(group, _)| group);
        let of = |resource: &Option<Arc<Resource>>, ty: &'static Type| lookup(resource, ty, owner, namespace);
        let found = match (group, owner.kind()) {
            ("", "ReplicationController") => {
                let found = of(&self.replication_controllers, ReplicationController::schema())?;
                found.map(|found| (ReplicationController::of(&found).spec().replicas().unwrap_or(1), found))
            }
            ("apps" | "extensions", "ReplicaSet") => {
                let Some(set) = of(&self.replica_sets, ReplicaSet::schema())? else {
                    return self.scale_of(owner, namespace).await;
                };
                match controller_of(&set).filter(|owner| owner.kind() == "Deployment") {
                    None => Some((ReplicaSet::of(&set).spec().replicas().unwrap_or(1), set)),
                    Some(above) => lookup(&self.deployments, Deployment::schema(), above, namespace)?
                        .map(|found| (Deployment::of(&found).spec().replicas().unwrap_or(1), found)),
                }
            }
            ("apps", "StatefulSet") => {
                let found = of(&self.stateful_sets, StatefulSet::schema())?;
                found.map(|found| (StatefulSet::of(&found).spec().replicas().unwrap_or(1), found))
            }
            _ => None,
        };
        match found {
            Some((replicas, found)) => {
                Ok(Some(Found { uid: object_meta::text(&found, "uid").to_owned(), replicas }))
            }
            None => self.scale_of(owner, namespace).await,
        }
    }

    /// The scale of any object that has one.
    async fn scale_of(&self, owner: OwnerReference<'_>, namespace: &str) -> Result<Option<Found>, Status> {
        let (group, version) = owner.api_version().split_once('/').unwrap_or(("", owner.api_version()));
        let catalog = self.client.registry().catalog();
        let served = catalog
            .served()
            .find(|served| served.group == group && served.version == version && served.kind == owner.kind());
        let Some(served) = served else {
            let why = format!(
                "no matches for kind {} in version {}",
                Quoted(owner.kind()),
                Quoted(owner.api_version())
            );
            return Err(failure(why));
        };
        if !served.subresources.iter().any(|subresource| subresource.name == "scale") {
            let resource = if group.is_empty() {
                served.resource.to_string()
            } else {
                format!("{}.{group}", served.resource)
            };
            let why = format!("{resource} does not implement the scale subresource");
            return Err(failure(why));
        }
        let address = Address {
            group,
            version,
            resource: &served.resource,
            subresource: "scale",
            namespace,
            name: owner.name(),
        };
        let scale = match self.client.get(address).await {
            Err(error) if error.reason == Reason::NotFound => return Ok(None),
            scale => scale?,
        };
        let uid = scale.as_map().map(|scale| object_meta::text(scale, "uid")).unwrap_or_default().to_owned();
        let replicas = scale.get("spec").and_then(|spec| spec.get("replicas")).and_then(Value::as_i64);
        Ok((uid == owner.uid()).then(|| Found { uid, replicas: replicas.unwrap_or_default() }))
    }
}

/// An owner, if it is still the same object.
fn lookup(
    resource: &Option<Arc<Resource>>,
    ty: &'static Type,
    owner: OwnerReference<'_>,
    namespace: &str,
) -> Result<Option<Map>, Status> {
    let Some(resource) = resource else { return Ok(None) };
    let found = resource.lookup(namespace, owner.name()).map_err(registry::status)?;
    found.filter(|found| found.uid() == owner.uid()).map(|found| decode(ty, &found)).transpose()
}

/// A number, or a percentage of a scale, rounded up.
fn share(value: &Value, scale: i64) -> Result<i64, Status> {
    let value = match value {
        Value::Int(number) => return Ok(*number),
        other => IntOrString::String(other.as_str().unwrap_or_default().into()),
    };
    value.scaled_value(scale, Round::Up).map_err(|error| failure(error.to_string()))
}
