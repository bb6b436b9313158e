//! An APIService for every group and version that this server serves, and the condition `Available` of all of
//! them.
//!
//! Those of built-in kinds are made at the start, and put right if they differ; one of an earlier start whose
//! version is not served any more is removed. What users do to them later stays until the next start. Those
//! of custom kinds come and go with these, and are put right at once. Those without the label are the users'
//! own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use admission::Lister;
use cache::Resource;
use cache::watch::{self, Start, WatchOptions};
use kinds::metadata;
use object::quote::Quoted;
use object::{Map, Value};
use registry::{Address, Catalog, Client, DeleteOptions, Registry, conditions};
use schema::Status;
use schema::stored;
use schema::view::View as _;
use schema::views::apiregistration::v1::APIService;
use schema::views::core::v1::{Endpoints, Service};
use tokio::task::JoinSet;

pub(super) const API_SERVICES: Address<'static> = Address::v1("apiregistration.k8s.io", "apiservices", "");

/// The label of those that a server makes.
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// They are made at the start.
const ON_START: &str = "onstart";
/// They are there as long as something else is: a custom kind.
const ALWAYS: &str = "true";

/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The least time between two looks, in which changes are collected.
const COLLECT: Duration = Duration::from_millis(50);

/// A group: its name, its priority among all groups, and the priorities of its versions.
struct Priority(&'static str, i64, &'static [(&'static str, i64)]);

/// The priorities of groups and versions with custom kinds alone.
const CUSTOM: (i64, i64) = (1_000, 100);

/// The priorities of the reference. A version without custom kinds that is not in here gets no APIService.
const PRIORITIES: &[Priority] = &[
    Priority("", 18_000, &[("v1", 1)]),
    Priority("apps", 17_800, &[("v1", 15)]),
    Priority("events.k8s.io", 17_750, &[("v1", 15)]),
    Priority("authentication.k8s.io", 17_700, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    Priority("authorization.k8s.io", 17_600, &[("v1", 15)]),
    Priority("autoscaling", 17_500, &[("v2", 30), ("v1", 15)]),
    Priority("batch", 17_400, &[("v1", 15)]),
    Priority("certificates.k8s.io", 17_300, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    Priority("networking.k8s.io", 17_200, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    Priority("policy", 17_100, &[("v1", 15)]),
    Priority("rbac.authorization.k8s.io", 17_000, &[("v1", 15)]),
    Priority("storage.k8s.io", 16_800, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    Priority("apiextensions.k8s.io", 16_700, &[("v1", 15)]),
    Priority("admissionregistration.k8s.io", 16_700, &[("v1", 15), ("v1beta1", 12), ("v1alpha1", 9)]),
    Priority("scheduling.k8s.io", 16_600, &[("v1", 15)]),
    Priority("coordination.k8s.io", 16_500, &[("v1", 15), ("v1beta1", 13), ("v1alpha2", 12)]),
    Priority("node.k8s.io", 16_300, &[("v1", 15)]),
    Priority("discovery.k8s.io", 16_200, &[("v1", 15)]),
    Priority("resource.k8s.io", 16_200, &[("v1beta2", 15), ("v1beta1", 9), ("v1alpha3", 1)]),
    Priority("flowcontrol.apiserver.k8s.io", 16_100, &[("v1", 21), ("v1beta3", 18)]),
    Priority("internal.apiserver.k8s.io", 16_000, &[("v1alpha1", 9)]),
];

/// All API services.
pub(super) struct ApiServices {
    client: Client,
    known: Lister<Registration>,
    /// What `known` follows.
    resource: Arc<Resource>,
    services: Arc<Resource>,
    endpoints: Arc<Resource>,
}

/// What counts of an API service.
struct Registration {
    name: String,
    uid: String,
    is_managed_always: bool,
    spec: Map,
    backend: Option<Backend>,
    /// What it says of being available.
    available: Option<Available>,
}

/// The service behind an API service.
struct Backend {
    namespace: String,
    name: String,
    port: i64,
}

/// The texts of a condition.
#[derive(Debug, PartialEq, Eq)]
struct Available {
    status: String,
    reason: String,
    message: String,
}

impl Available {
    fn new(status: &str, reason: &str, message: impl Into<String>) -> Self {
        Self { status: status.to_owned(), reason: reason.to_owned(), message: message.into() }
    }

    fn no(reason: &str, message: String) -> Self {
        Self::new("False", reason, message)
    }
}

impl ApiServices {
    /// None if one of the resources does not exist.
    pub(super) fn new(registry: &Arc<Registry>) -> Option<Self> {
        let find = |name: &str| registry.cache().resource(name);
        let resource = find(&format!("{}.{}", API_SERVICES.resource, API_SERVICES.group))?;
        Some(Self {
            client: Client::of_startup(registry.clone(), super::MANAGER),
            known: Lister::new(resource.clone(), APIService::schema(), |object| {
                Some(Registration::read(object))
            }),
            resource,
            services: find("services")?,
            endpoints: find("endpoints")?,
        })
    }

    /// Makes those of this server, and puts those right that an earlier start made.
    pub(super) async fn register(&self) -> Result<(), Status> {
        let existing = self.client.list_objects(API_SERVICES).await?;
        let existing: Vec<&Map> = existing.iter().filter_map(Value::as_map).collect();
        let mut tasks = JoinSet::new();
        let mut names = BTreeSet::new();
        for (name, object) in own(&self.client.registry().catalog()) {
            names.insert(name.clone());
            let found = existing.iter().find(|object| metadata(object).name() == name);
            let found = found.map(|object| Map::clone(object));
            let client = self.client.clone();
            tasks.spawn(async move {
                match found {
                    None => super::unless_there(client.create(API_SERVICES, object.into()).await),
                    Some(found) => put_right(&client, found, &object).await,
                }
            });
        }
        for object in existing {
            let metadata = metadata(object);
            if is_managed(object) && !names.contains(metadata.name()) {
                let (name, uid) = (metadata.name().to_owned(), metadata.uid().to_owned());
                let client = self.client.clone();
                tasks.spawn(async move { remove(&client, &name, &uid).await });
            }
        }
        super::finish(tasks).await
    }

    /// Keeps conditions until the process ends.
    pub(super) async fn run(self: Arc<Self>) {
        while watch::resubscribe_after("API services", self.follow().await).await {}
    }

    /// Writes conditions, until changes cannot be followed from where they were.
    async fn follow(&self) -> Result<(), cache::Error> {
        let watch = async |resource: &Arc<Resource>| {
            resource.watch(WatchOptions::new(Start::After(resource.revision()))).await
        };
        let mut objects = watch(&self.resource).await?;
        let mut services = watch(&self.services).await?;
        let mut endpoints = watch(&self.endpoints).await?;
        let mut catalog = self.client.registry().follow_catalog();
        loop {
            catalog.mark_unchanged();
            let outcome = self.look().await;
            let has_backends = self.known.all().iter().any(|known| known.backend.is_some());
            let change = async {
                tokio::select! {
                    changed = objects.next() => changed.map(drop),
                    // The registry is there as long as this is.
                    _ = catalog.changed() => Ok(()),
                    changed = services.next(), if has_backends => changed.map(drop),
                    changed = endpoints.next(), if has_backends => changed.map(drop),
                }
            };
            match outcome {
                Ok(()) => change.await?,
                Err(error) => {
                    log::error!(error:% = error.message; "the condition of an API service could not be written");
                    tokio::time::timeout(PAUSE, change).await.unwrap_or(Ok(()))?;
                }
            }
            tokio::time::sleep(COLLECT).await;
        }
    }

    /// Writes the conditions that are wrong. Those of custom kinds are made and put right; what says that
    /// this server keeps it, and is not of this server, is removed.
    async fn look(&self) -> Result<(), Status> {
        let own: BTreeMap<String, Map> = own(&self.client.registry().catalog()).collect();
        let known = self.known.all();
        let mut outcome = Ok(());
        for known in known.iter() {
            let done = match own.get(&known.name) {
                None if known.is_managed_always => remove(&self.client, &known.name, &known.uid).await,
                Some(wanted) if known.is_managed_always && is_other(&known.spec, wanted) => {
                    self.put_right(&known.name, wanted).await
                }
                _ => self.set_condition(known).await,
            };
            outcome = outcome.and(done);
        }
        let names: BTreeSet<&str> = known.iter().map(|known| known.name.as_str()).collect();
        let missing = own.iter().filter(|(name, object)| is_always(object) && !names.contains(name.as_str()));
        for (_, object) in missing {
            let created = self.client.create(API_SERVICES, object.clone().into()).await;
            outcome = outcome.and(super::unless_there(created));
        }
        outcome
    }

    async fn put_right(&self, name: &str, wanted: &Map) -> Result<(), Status> {
        match self.client.get(API_SERVICES.named(name)).await {
            Ok(Value::Map(found)) => put_right(&self.client, found, wanted).await,
            Err(error) if error.code != 404 => Err(error),
            _ => Ok(()),
        }
    }

    async fn set_condition(&self, known: &Registration) -> Result<(), Status> {
        let now = self.available(known.backend.as_ref());
        if known.available.as_ref() == Some(&now) {
            return Ok(());
        }
        let condition = Map::from_iter([
            ("type", "Available"),
            ("status", &now.status),
            ("reason", &now.reason),
            ("message", &now.message),
        ]);
        let address = API_SERVICES.named(&known.name).subresource("status");
        let set = |object: &mut Map| {
            let status = object.get_or_insert_with("status", || Map::new().into());
            if let Some(status) = status.as_map_mut() {
                conditions::set(status, condition);
            }
        };
        match self.client.modify(address, set).await {
            // Its change wakes the loop again.
            Err(changed) if matches!(changed.code, 404 | 409) => Ok(()),
            outcome => outcome,
        }
    }

    /// Whether what is behind an API service is there.
    fn available(&self, backend: Option<&Backend>) -> Available {
        let Some(Backend { namespace, name, port }) = backend else {
            return Available::new("True", "Local", "Local APIServices are always available");
        };
        let find = |resource: &Resource, ty| {
            let entry = resource.lookup(namespace, name).ok().flatten()?;
            stored::logged(&entry, stored::decode(ty, entry.bytes()))
        };
        let place = format!("service/{name} in {}", Quoted(namespace));
        let Some(service) = find(&self.services, Service::schema()) else {
            return Available::no("ServiceNotFound", format!("{place} is not present"));
        };
        let spec = Service::of(&service).spec();
        if spec.r#type() == "ClusterIP" {
            let Some(served) = spec.ports().iter().find(|served| served.port() == *port) else {
                return Available::no("ServicePortError", format!("{place} is not listening on port {port}"));
            };
            let Some(endpoints) = find(&self.endpoints, Endpoints::schema()) else {
                return Available::no("EndpointsNotFound", format!("cannot find endpoints for {place}"));
            };
            let mut subsets = Endpoints::of(&endpoints).subsets().iter();
            let is_active = subsets.any(|subset| {
                !subset.addresses().is_empty()
                    && subset.ports().iter().any(|port| port.name() == served.name())
            });
            if !is_active {
                let port = Quoted(served.name());
                return Available::no(
                    "MissingEndpoints",
                    format!("endpoints for {place} have no addresses with port name {port}"),
                );
            }
        }
        Available::no(
            "FailedDiscoveryCheck",
            format!("{place} is not asked: requests are not passed on to other API servers"),
        )
    }
}

impl Registration {
    fn read(object: &Map) -> Self {
        let (api, metadata) = (APIService::of(object), metadata(object));
        let backend = api.spec().service().map(|service| Backend {
            namespace: service.namespace().to_owned(),
            name: service.name().to_owned(),
            port: service.port().unwrap_or(443),
        });
        let conditions = api.status().conditions();
        let available = conditions.iter().find(|condition| condition.r#type() == "Available");
        Self {
            name: metadata.name().to_owned(),
            uid: metadata.uid().to_owned(),
            is_managed_always: is_always(object),
            spec: api.spec().map().clone(),
            backend,
            available: available
                .map(|condition| Available::new(condition.status(), condition.reason(), condition.message())),
        }
    }
}

/// The API services of what is served, with their names.
fn own(catalog: &Catalog) -> impl Iterator<Item = (String, Map)> {
    catalog.group_versions().filter_map(|served| {
        let (group, version) = (served.group.as_str(), served.version.as_str());
        let is_custom = || served.resources.iter().any(|resource| resource.is_custom());
        let builtin = PRIORITIES.iter().find(|priority| priority.0 == group).and_then(|known| {
            let (_, priority) = known.2.iter().find(|(known, _)| *known == version)?;
            Some((known.1, *priority))
        });
        let (minimum, priority) = builtin.or_else(|| is_custom().then_some(CUSTOM))?;
        let name = format!("{version}.{group}");
        let mut spec = Map::new();
        if !group.is_empty() {
            spec.insert("group", group);
        }
        spec.insert("version", version);
        spec.insert("groupPriorityMinimum", minimum);
        spec.insert("versionPriority", priority);
        let mut metadata = Map::new();
        metadata.insert("name", name.as_str());
        metadata
            .insert("labels", Map::from_iter([(MANAGED, if builtin.is_some() { ON_START } else { ALWAYS })]));
        let mut object = Map::new();
        object.insert("metadata", metadata);
        object.insert("spec", spec);
        Some((name, object))
    })
}

/// Whether it is kept for a custom kind.
fn is_always(object: &Map) -> bool {
    metadata(object).labels().get(MANAGED) == Some(ALWAYS)
}

fn is_other(spec: &Map, wanted: &Map) -> bool {
    wanted.get("spec").and_then(Value::as_map) != Some(spec)
}

/// Whether a server made it.
fn is_managed(object: &Map) -> bool {
    matches!(metadata(object).labels().get(MANAGED), Some(ON_START | ALWAYS))
}

async fn put_right(client: &Client, mut found: Map, wanted: &Map) -> Result<(), Status> {
    if !is_managed(&found) || found.get("spec") == wanted.get("spec") {
        return Ok(());
    }
    found.insert("spec", wanted.get("spec").cloned().unwrap_or_default());
    let name = metadata(wanted).name();
    match client.update(API_SERVICES.named(name), found.into()).await {
        Err(gone) if gone.code == 404 => Ok(()),
        outcome => super::unless_there(outcome),
    }
}

async fn remove(client: &Client, name: &str, uid: &str) -> Result<(), Status> {
    let options = DeleteOptions { uid: Some(uid.to_owned()), ..DeleteOptions::default() };
    match client.delete(API_SERVICES.named(name), &options).await {
        Err(changed) if matches!(changed.code, 404 | 409) => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::registry;

    async fn make(client: &Client, address: Address<'_>, text: &str) {
        client.create(address, client.decode(address, text).unwrap()).await.unwrap();
    }

    async fn get(client: &Client, name: &str) -> Map {
        client.get(API_SERVICES.named(name)).await.unwrap().as_map().unwrap().clone()
    }

    fn available(object: &Map) -> String {
        match Registration::read(object).available {
            Some(Available { status, reason, message }) => format!("{status} {reason}: {message}"),
            None => "nothing".into(),
        }
    }

    fn minimum(object: &mut Map) -> &mut Value {
        object.get_mut("spec").unwrap().as_map_mut().unwrap().get_mut("groupPriorityMinimum").unwrap()
    }

    #[test]
    fn all_versions_but_those_of_api_services_have_a_priority() {
        for kind in kinds::all().filter(|kind| kind.group != API_SERVICES.group) {
            let priority = PRIORITIES.iter().find(|priority| priority.0 == kind.group).unwrap();
            for version in kind.versions {
                assert!(
                    priority.2.iter().any(|known| known.0 == version.name),
                    "{} {}",
                    kind.group,
                    version.name
                );
            }
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn start_makes_what_is_missing_and_puts_right_what_an_earlier_one_made() {
        let registry = registry().await;
        let services = ApiServices::new(&registry).unwrap();
        let client = services.client.clone();
        services.register().await.unwrap();
        let mut apps = get(&client, "v1.apps").await;
        assert_eq!(metadata(&apps).labels().get(MANAGED), Some("onstart"));
        assert_eq!(*minimum(&mut apps), 17_800.into());
        assert_eq!(available(&apps), "True Local: Local APIServices are always available");
        assert_eq!(client.get(API_SERVICES.named("v1.apiregistration.k8s.io")).await.unwrap_err().code, 404);
        get(&client, "v1.").await;
        let before = registry.cache().committed();
        services.register().await.unwrap();
        services.look().await.unwrap();
        assert_eq!(registry.cache().committed(), before);

        *minimum(&mut apps) = 5.into();
        client.update(API_SERVICES.named("v1.apps"), apps.into()).await.unwrap();
        let mut batch = get(&client, "v1.batch").await;
        *minimum(&mut batch) = 5.into();
        batch.get_mut("metadata").unwrap().as_map_mut().unwrap().remove("labels");
        client.update(API_SERVICES.named("v1.batch"), batch.into()).await.unwrap();
        let other = |label: &str| {
            let spec = r#""spec":{"group":"g","version":"v1","groupPriorityMinimum":1,"versionPriority":1}"#;
            format!(r#"{{"metadata":{{"name":"v1.g","labels":{{{label}}}}},{spec}}}"#)
        };
        make(&client, API_SERVICES, &other("")).await;
        services.register().await.unwrap();
        assert_eq!(*minimum(&mut get(&client, "v1.apps").await), 17_800.into());
        assert_eq!(*minimum(&mut get(&client, "v1.batch").await), 5.into());
        get(&client, "v1.g").await;

        let gone = async || client.get(API_SERVICES.named("v1.g")).await.unwrap_err().code == 404;
        remove(&client, "v1.g", "another").await.unwrap();
        remove(&client, "v1.g", metadata(&get(&client, "v1.g").await).uid()).await.unwrap();
        make(&client, API_SERVICES, &other(&format!(r#""{MANAGED}":"onstart""#))).await;
        services.look().await.unwrap();
        get(&client, "v1.g").await;
        services.register().await.unwrap();
        assert!(gone().await);
        make(&client, API_SERVICES, &other(&format!(r#""{MANAGED}":"true""#))).await;
        services.look().await.unwrap();
        assert!(gone().await);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn condition_says_what_is_missing_behind_an_api_service() {
        let registry = registry().await;
        let services = ApiServices::new(&registry).unwrap();
        let client = services.client.clone();
        let text = r#"{"metadata":{"name":"v1.g"},"spec":{"group":"g","version":"v1","groupPriorityMinimum":1,"versionPriority":1,
            "service":{"namespace":"kube-system","name":"b","port":8443}}}"#;
        make(&client, API_SERVICES, text).await;
        let now = async || {
            services.look().await.unwrap();
            available(&get(&client, "v1.g").await)
        };
        assert_eq!(now().await, r#"False ServiceNotFound: service/b in "kube-system" is not present"#);
        let address = Address::core("services", "kube-system");
        let service = |port: u16| {
            format!(
                r#"{{"metadata":{{"name":"b"}},"spec":{{"type":"ClusterIP","clusterIP":"None","ports":[{{"name":"p","port":{port}}}]}}}}"#
            )
        };
        make(&client, address, &service(443)).await;
        assert_eq!(
            now().await,
            r#"False ServicePortError: service/b in "kube-system" is not listening on port 8443"#
        );
        client.delete(address.named("b"), &DeleteOptions::default()).await.unwrap();
        make(&client, address, &service(8443)).await;
        assert_eq!(
            now().await,
            r#"False EndpointsNotFound: cannot find endpoints for service/b in "kube-system""#
        );
        let address = Address::core("endpoints", "kube-system");
        let endpoints = |field: &str| {
            format!(
                r#"{{"metadata":{{"name":"b"}},"subsets":[{{"{field}":[{{"ip":"10.1.1.1"}}],"ports":[{{"name":"p","port":1}}]}}]}}"#
            )
        };
        make(&client, address, &endpoints("notReadyAddresses")).await;
        assert_eq!(
            now().await,
            r#"False MissingEndpoints: endpoints for service/b in "kube-system" have no addresses with port name "p""#
        );
        client.delete(address.named("b"), &DeleteOptions::default()).await.unwrap();
        make(&client, address, &endpoints("addresses")).await;
        assert!(now().await.starts_with("False FailedDiscoveryCheck: "));

        let task = tokio::spawn(Arc::new(services).run());
        client.delete(address.named("b"), &DeleteOptions::default()).await.unwrap();
        for _ in 0..500 {
            if available(&get(&client, "v1.g").await).starts_with("False EndpointsNotFound") {
                task.abort();
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the condition does not follow the endpoints");
    }
}
