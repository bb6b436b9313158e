//! An APIService for every group and version that this server serves, and the condition `Available` of these.
//! That of API services with another server behind them is written by the crate `aggregation`.
//!
//! Those of built-in kinds are made at the start, and put right if they differ; one of an earlier start whose
//! version is not served any more is removed. What users do to them later stays until the next start. Those
//! of custom kinds come and go with these, and are put right at once. Those without the label are the users'
//! own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admission::Lister;
use aggregation::{Available, Priorities};
use cache::Resource;
use cache::watch::{self, Start, WatchOptions};
use kinds::metadata;
use object::{Map, Value};
use registry::{Catalog, Client, DeleteOptions, Registry, conditions};
use schema::Status;
use schema::view::View as _;
use schema::views::apiregistration::v1::APIService;
use tokio::task::JoinSet;

pub(super) use aggregation::API_SERVICES;

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

/// All API services.
pub(super) struct ApiServices {
    client: Client,
    known: Lister<Registration>,
    /// What `known` follows.
    resource: Arc<Resource>,
    /// Whose gauges are shown.
    shown: Mutex<BTreeSet<String>>,
}

/// What counts of an API service.
struct Registration {
    name: String,
    uid: String,
    is_managed_always: bool,
    spec: Map,
    /// Whether this server serves the group version.
    is_local: bool,
    /// What it says of being available.
    available: Option<Available>,
}

/// What is said of an API service without another server behind it.
fn local() -> Available {
    Available::new("True", "Local", "Local APIServices are always available")
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
            shown: Mutex::default(),
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
        let mut catalog = self.client.registry().follow_catalog();
        loop {
            catalog.mark_unchanged();
            let outcome = self.look().await;
            let change = async {
                tokio::select! {
                    changed = objects.next() => changed.map(drop),
                    // The registry is there as long as this is.
                    _ = catalog.changed() => Ok(()),
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
                _ if known.is_local => self.set_condition(known).await,
                _ => Ok(()),
            };
            outcome = outcome.and(done);
        }
        let names: BTreeSet<&str> = known.iter().map(|known| known.name.as_str()).collect();
        self.show(&known);
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

    /// Shows that those of this server are available.
    fn show(&self, known: &[Arc<Registration>]) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = std::mem::take(&mut *shown);
        for known in known.iter().filter(|known| known.is_local) {
            if !gone.remove(&known.name) {
                aggregation::show_availability(&known.name, true);
            }
            shown.insert(known.name.clone());
        }
        for name in gone.iter().filter(|name| !known.iter().any(|known| known.name == **name)) {
            aggregation::forget_availability(name);
        }
    }

    async fn set_condition(&self, known: &Registration) -> Result<(), Status> {
        let now = local();
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
}

impl Registration {
    fn read(object: &Map) -> Self {
        let (api, metadata) = (APIService::of(object), metadata(object));
        Self {
            name: metadata.name().to_owned(),
            uid: metadata.uid().to_owned(),
            is_managed_always: is_always(object),
            spec: api.spec().map().clone(),
            is_local: api.spec().service().is_none(),
            available: Available::of(object),
        }
    }
}

/// The API services of what is served, with their names.
fn own(catalog: &Catalog) -> impl Iterator<Item = (String, Map)> {
    catalog.group_versions().filter_map(|served| {
        let (group, version) = (served.group.as_str(), served.version.as_str());
        // Whoever computes objects keeps the API service of their group.
        let is_custom =
            || served.resources.iter().any(|resource| resource.is_custom() && resource.computed.is_none());
        let builtin = aggregation::builtin_priorities(group, version);
        let own = || is_custom().then(|| aggregation::priorities_of(group, version));
        let Priorities { group: minimum, version: priority } = builtin.or_else(own)?;
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
    use ::registry::Address;

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
    async fn condition_of_another_server_is_not_touched() {
        let registry = registry().await;
        let services = ApiServices::new(&registry).unwrap();
        let client = services.client.clone();
        let spec = r#""spec":{"group":"g","version":"v1","groupPriorityMinimum":1,"versionPriority":1"#;
        let remote =
            format!(r#"{{"metadata":{{"name":"v1.g"}},{spec},"service":{{"namespace":"n","name":"s"}}}}}}"#);
        make(&client, API_SERVICES, &remote).await;
        services.look().await.unwrap();
        assert_eq!(available(&get(&client, "v1.g").await), "nothing");
    }
}
