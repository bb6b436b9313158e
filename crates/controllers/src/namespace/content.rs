//! The objects in a namespace: deleting them, and what is left afterwards.

use super::remote::{LeftOfRemote, RemoteContent};
use aggregation::{RemoteResource, RemoteResources};
use cache::{Entry, Filter, Freshness, List, Query, Resource};
use kinds::{Verb, object_meta};
use object::Map;
use object::excerpt::shorten;
use object::time::Time;
use registry::{Address, Catalog, Client, DeleteOptions, ListOptions, Served};
use schema::stored::decode_part;
use schema::view::View;
use schema::views::core::v1;
use schema::{Builder, Part, Ref, Status, Type, builtin};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The most types whose objects are deleted at the same time, in all namespaces.
const TYPES_AT_ONCE: usize = 8;
/// The estimate for objects with finalizers, in seconds, as in the reference.
const FINALIZERS_TAKE: u64 = 15;
/// The fields of metadata that are decoded.
const METADATA: Part = Part("metadata", &[Part("creationTimestamp", &[]), Part("finalizers", &[])]);

/// Deletes the objects in namespaces.
pub(super) struct Content {
    shared: Arc<Shared>,
    remote: Option<Arc<RemoteContent>>,
}

struct Shared {
    client: Client,
    namespaces: Arc<Resource>,
    slots: Semaphore,
    /// The fields that are decoded of objects other than pods.
    any_part: Ref<Type>,
    /// The fields that are decoded of pods.
    pod_part: Ref<Type>,
}

/// Objects of one type, under every name that they are served by in their preferred version: events have two.
#[derive(Clone)]
struct NamespacedType {
    resource: Arc<Resource>,
    names: Vec<Arc<Served>>,
}

/// The objects that are left in a namespace after a round of deletes.
#[derive(Default)]
pub(super) struct Left {
    /// The types of other servers, and the group versions whose types are not known.
    pub(super) remote_types: RemoteResources,
    /// Why objects could not be deleted.
    pub(super) errors: Vec<String>,
    /// The objects that other servers have.
    remotes: Vec<LeftOfRemote>,
    types: Vec<LeftOfType>,
    /// Whether the conditions leave the objects out: while pods are left, the reference reports that all
    /// content is removed.
    is_hidden: bool,
}

struct LeftOfType {
    of: NamespacedType,
    number: usize,
    /// How many objects have each finalizer.
    finalizers: BTreeMap<String, usize>,
    /// The estimated seconds until the objects are gone; 0 if no reason is known why they are left.
    estimate: u64,
}

impl Left {
    /// The longest estimate of all types, in seconds; `None` if no object is left.
    pub(super) fn estimate(&self) -> Option<u64> {
        let of_remotes =
            self.remotes.iter().map(|left| if left.finalizers.is_empty() { 0 } else { FINALIZERS_TAKE });
        self.types.iter().map(|left| left.estimate).chain(of_remotes).max()
    }

    /// The types with objects that are left.
    pub(super) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.types.iter().map(|left| &left.of.resource)
    }

    /// The name and group of each type with objects, and their number.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&str, &str, usize)> {
        let shown = if self.is_hidden { &[] } else { self.types.as_slice() };
        let own = shown.iter().flat_map(|left| {
            left.of.names.iter().map(|name| (name.resource.as_str(), name.group.as_str(), left.number))
        });
        let remote = self.remotes.iter();
        own.chain(remote.map(|left| (left.of.resource.as_str(), left.of.group.as_str(), left.number)))
    }

    /// How many objects have each finalizer.
    pub(super) fn finalizers(&self) -> BTreeMap<&str, usize> {
        let mut all = BTreeMap::new();
        let shown = if self.is_hidden { &[] } else { self.types.as_slice() };
        for left in shown {
            for (name, number) in &left.finalizers {
                *all.entry(name.as_str()).or_default() += number * left.of.names.len();
            }
        }
        for (name, number) in self.remotes.iter().flat_map(|left| &left.finalizers) {
            *all.entry(name.as_str()).or_default() += number;
        }
        all
    }

    fn add_remote(&mut self, namespace: &str, outcome: Result<Option<LeftOfRemote>, String>) {
        match outcome {
            Ok(None) => {}
            Ok(Some(left)) => {
                if left.finalizers.is_empty() {
                    let RemoteResource { group, version, resource, .. } = &left.of;
                    self.errors.push(unexpected(namespace, group, version, resource));
                }
                self.remotes.push(left);
            }
            Err(error) => self.errors.push(shorten(error)),
        }
    }

    fn add(&mut self, namespace: &str, outcome: Result<Option<LeftOfType>, String>) {
        match outcome {
            Ok(None) => {}
            Ok(Some(left)) => {
                if left.estimate == 0 {
                    let names = left.of.names.iter();
                    self.errors.extend(
                        names.map(|name| unexpected(namespace, &name.group, &name.version, &name.resource)),
                    );
                }
                self.types.push(left);
            }
            Err(error) => self.errors.push(shorten(error)),
        }
    }
}

impl Content {
    /// Deletes through a client, and what other servers have.
    pub(super) fn new(client: Client, namespaces: Arc<Resource>, remote: Option<RemoteContent>) -> Self {
        let any = builtin::by_name("meta.v1.PartialObjectMetadata");
        let any_part =
            any.map_or_else(|| Builder::new("").build(), |ty| Builder::part_of(ty, &[METADATA]).build());
        let spec = Part("spec", &[Part("terminationGracePeriodSeconds", &[])]);
        let pod_part = Builder::part_of(v1::Pod::schema(), &[METADATA, spec]).build();
        let slots = Semaphore::new(TYPES_AT_ONCE);
        let shared = Arc::new(Shared { client, namespaces, slots, any_part, pod_part });
        Self { shared, remote: remote.map(Arc::new) }
    }

    /// Deletes all objects in a namespace: pods, and when they are gone, everything else.
    pub(super) async fn delete(&self, namespace: &str, uid: &str, deleted_at: Time) -> Left {
        let mut left = Left::default();
        let types = types(&self.shared.client.registry().catalog());
        let (pods, others): (Vec<_>, Vec<_>) =
            types.into_iter().partition(|of| of.resource.spec().prefix() == "pods");
        let request = NamespaceToEmpty { namespace: namespace.into(), uid: uid.into(), deleted_at };
        for pods in pods {
            left.add(namespace, self.shared.clone().delete(pods, request.clone()).await);
        }
        if !left.types.is_empty() {
            left.is_hidden = true;
            return left;
        }
        let mut work = JoinSet::new();
        for of in others {
            if !matches!(list(&of.resource, namespace).await, Ok(list) if is_empty(&list)) {
                work.spawn(self.shared.clone().delete(of, request.clone()));
            }
        }
        let mut remote_work = self.delete_remote(&mut left, &request);
        while let Some(outcome) = work.join_next().await {
            left.add(namespace, outcome.unwrap_or_else(|error| Err(error.to_string())));
        }
        while let Some(outcome) = remote_work.join_next().await {
            left.add_remote(namespace, outcome.unwrap_or_else(|error| Err(error.to_string())));
        }
        left
    }

    /// Begins to delete the objects that other servers have.
    fn delete_remote(
        &self,
        left: &mut Left,
        request: &NamespaceToEmpty,
    ) -> JoinSet<Result<Option<LeftOfRemote>, String>> {
        let mut work = JoinSet::new();
        let Some(remote) = &self.remote else { return work };
        left.remote_types = remote.aggregation.table().namespaced();
        for of in left.remote_types.resources.clone().into_iter().filter(|of| of.has("delete")) {
            let (remote, shared, request) = (remote.clone(), self.shared.clone(), request.clone());
            work.spawn(async move {
                match shared.is_same(&request) {
                    true => remote.delete(of, &request.namespace).await,
                    false => Ok(None),
                }
            });
        }
        work
    }

    /// Whether there are objects in a namespace. A type that cannot be listed, such as a custom type that is
    /// being replaced, is an error: 500, because the caller takes a 404 for the end of the namespace.
    pub(super) async fn has_objects(&self, namespace: &str) -> Result<bool, Status> {
        for of in types(&self.shared.client.registry().catalog()) {
            let list = list(&of.resource, namespace).await.map_err(|error| {
                Status::internal_error(&format!("{}: {error}", of.resource.spec().prefix()))
            })?;
            if !is_empty(&list) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes the objects that were made before the namespace that is there now, if one is.
    pub(super) async fn delete_before(&self, namespace: &str, found: Option<&Entry>) -> Result<(), Status> {
        for of in types(&self.shared.client.registry().catalog()) {
            let objects = list(&of.resource, namespace).await.map_err(registry::status)?;
            let is_older = |object: &Arc<Entry>| match found {
                None => true,
                Some(found) if of.resource.shares_store_with(&self.shared.namespaces) => {
                    object.create_revision() < found.create_revision()
                }
                // Revisions of another store say nothing.
                Some(found) => {
                    let times = self.shared.created_at(object).zip(self.shared.created_at(found));
                    times.is_some_and(|(object, namespace)| object < namespace)
                }
            };
            for object in objects.filter(is_older) {
                self.shared.delete_one(&of, &object).await?;
            }
        }
        Ok(())
    }
}

/// A namespace whose objects are deleted.
#[derive(Clone)]
struct NamespaceToEmpty {
    namespace: Arc<str>,
    uid: Arc<str>,
    deleted_at: Time,
}

impl Shared {
    /// The creation time of an object, if it can be decoded.
    fn created_at(&self, object: &Entry) -> Option<Time> {
        let decoded = decode_part(&self.any_part, object.bytes()).ok()?;
        object_meta::text(&decoded, "creationTimestamp").parse().ok()
    }

    /// Whether a namespace is still the one that is emptied.
    fn is_same(&self, request: &NamespaceToEmpty) -> bool {
        let found = self.namespaces.lookup("", &request.namespace);
        found.is_ok_and(|found| found.is_some_and(|found| found.uid() == &*request.uid))
    }

    /// Deletes the objects of a type in a namespace.
    async fn delete(
        self: Arc<Self>,
        of: NamespacedType,
        request: NamespaceToEmpty,
    ) -> Result<Option<LeftOfType>, String> {
        let _slot = self.slots.acquire().await;
        if !self.is_same(&request) {
            return Ok(None);
        }
        let NamespaceToEmpty { namespace, deleted_at, .. } = request;
        self.delete_all(&of, &namespace).await.map_err(|error| error.message)?;
        let left = match list(&of.resource, &namespace).await {
            // The type is not served any more.
            Err(cache::Error::Removed { .. }) => return Ok(None),
            left => left.map_err(|error| registry::status(error).message)?,
        };
        if is_empty(&left) {
            return Ok(None);
        }
        self.count(of, left, deleted_at).map(Some)
    }

    async fn delete_all(&self, of: &NamespacedType, namespace: &str) -> Result<(), Status> {
        let Some(served) = of.names.first() else { return Ok(()) };
        if served.verbs.contains(&Verb::DeleteCollection) {
            let collection = address(served, namespace);
            let deleted =
                self.client.delete_collection(collection, &ListOptions::default(), &in_background()).await;
            return match deleted {
                Err(error) if is_unsupported(&error) => Ok(()),
                outcome => outcome.map(drop),
            };
        }
        for object in list(&of.resource, namespace).await.map_err(registry::status)? {
            self.delete_one(of, &object).await?;
        }
        Ok(())
    }

    /// Deletes one object, if it is still the same.
    async fn delete_one(&self, of: &NamespacedType, object: &Entry) -> Result<(), Status> {
        let Some(served) = of.names.first() else { return Ok(()) };
        let options = DeleteOptions { uid: Some(object.uid().to_owned()), ..in_background() };
        let named = address(served, object.namespace()).named(object.name());
        match self.client.delete(named, &options).await {
            Err(error) if is_unsupported(&error) => Ok(()),
            outcome => outcome,
        }
    }

    /// Counts the objects of a type that are left, and estimates how long they take.
    fn count(&self, of: NamespacedType, left: List, deleted_at: Time) -> Result<LeftOfType, String> {
        let is_pods = of.resource.spec().prefix() == "pods";
        let mut counted =
            LeftOfType { of, number: left.damaged.len(), finalizers: BTreeMap::new(), estimate: 0 };
        for object in left {
            counted.number += 1;
            let part = if is_pods { &self.pod_part } else { &self.any_part };
            let part = decode_part(part, object.bytes()).map_err(|error| error.to_string())?;
            for finalizer in object_meta::finalizers(&part) {
                *counted.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
            if is_pods && !crate::workloads::pod::is_finished(&object) {
                counted.estimate = counted.estimate.max(grace(&part));
            }
        }
        let waited = Time::now().unix().saturating_sub(deleted_at.unix());
        if u64::try_from(waited).is_ok_and(|waited| waited >= counted.estimate) {
            counted.estimate = 0;
        }
        if counted.estimate == 0 && !counted.finalizers.is_empty() {
            counted.estimate = FINALIZERS_TAKE;
        }
        Ok(counted)
    }
}

/// The types whose objects are in namespaces and can be deleted.
fn types(catalog: &Catalog) -> Vec<NamespacedType> {
    let mut types: Vec<NamespacedType> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for served in catalog.served() {
        let Some(stored) = &served.stored else { continue };
        if !served.is_namespaced() || !served.verbs.contains(&Verb::Delete) {
            continue;
        }
        let place = *places.entry(stored.resource.spec().prefix()).or_insert(types.len());
        match types.get_mut(place) {
            None => {
                types.push(NamespacedType { resource: stored.resource.clone(), names: vec![served.clone()] })
            }
            Some(known) => {
                let is_version =
                    |name: &Arc<Served>| name.group == served.group && name.resource == served.resource;
                if !known.names.iter().any(is_version) {
                    known.names.push(served.clone());
                }
            }
        }
    }
    types
}

fn address<'a>(served: &'a Served, namespace: &'a str) -> Address<'a> {
    let address = Address::v1(&served.group, &served.resource, namespace);
    Address { version: &served.version, ..address }
}

/// The delete options. The dependents of an object are deleted as content of the namespace themselves, so
/// that no object has to wait for them.
fn in_background() -> DeleteOptions {
    DeleteOptions { propagation_policy: Some("Background".into()), ..DeleteOptions::default() }
}

/// Whether the type or the object does not exist any more, or the type does not support the verb.
fn is_unsupported(error: &Status) -> bool {
    matches!(error.code, 404 | 405)
}

/// The error about objects that are left for no known reason.
fn unexpected(namespace: &str, group: &str, version: &str, resource: &str) -> String {
    format!(
        "unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={resource}"
    )
}

/// The grace period of a pod.
fn grace(pod: &Map) -> u64 {
    let seconds = v1::Pod::of(pod).spec().termination_grace_period_seconds();
    seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default()
}

/// The objects of a type in a namespace.
pub(super) async fn list(resource: &Resource, namespace: &str) -> Result<List, cache::Error> {
    resource.list(Query::new(Freshness::MostRecent, Filter::namespace(namespace))).await
}

/// Whether a list has no objects, readable or not.
pub(super) fn is_empty(list: &List) -> bool {
    list.size_hint().1 == Some(0) && list.damaged.is_empty()
}
