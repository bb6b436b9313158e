//! The registry: the catalog of the served kinds, the cache with their objects, and the configuration of
//! authorization, admission and hooks.

use crate::catalog::{Catalog, CatalogChange, Served};
use crate::components::Components;
use crate::connect::KubeletAddresses;
use crate::convert::Conversion;
use crate::hooks::WriteHooks;
use crate::selection::Selection;
use crate::stored::{InPlace, ReadableVersion, Stored, StoredVersions};
use crate::token_request::TokenIssuing;
use crate::watch_caches::WatchCaches;
use admission::Chain;
use auth::{Authenticators, Authorizer};
use cache::{Cache, Field, Spec};
use kinds::{
    Gates, Kind, ObjectOptions, ResourceType, Scope, SelectableField, Storage, Version, store_prefix,
};
use object::Text;
use std::sync::Arc;
use tokio::sync::watch;

/// The registry, whose methods are the verbs. All requests share it.
pub struct Registry {
    cache: Arc<Cache>,
    catalog: watch::Sender<Arc<Catalog>>,
    /// What the server needs for itself and does not serve.
    own: Arc<Catalog>,
    /// Held while the catalog is changed, so that changes are made one after another.
    changing: tokio::sync::Mutex<()>,
    config: Config,
}

/// Whether objects are deleted with their dependents (`--enable-garbage-collector`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum GarbageCollection {
    /// A garbage collector deletes or orphans dependents, by the finalizers of their owners.
    #[default]
    On,
    /// Nobody does: propagation policies have no effect.
    Off,
}

/// The configuration of a registry.
pub struct Config {
    /// Which versions of built-in kinds are served.
    pub selection: Selection,
    /// Whether watches accept `sendInitialEvents`: the gate WatchList.
    pub watch_list: bool,
    /// Which kinds have a watch cache: `--watch-cache` and `--watch-cache-sizes`.
    pub watch_caches: WatchCaches,
    /// Whether objects that cannot be read can be deleted: the gate AllowUnsafeMalformedObjectDeletion.
    pub unsafe_delete: bool,
    /// Whether there is a garbage collector: without one, no finalizers for it are set.
    pub garbage_collection: GarbageCollection,
    /// Whether a pod gets the labels of its binding: the gate PodTopologyLabelsAdmission.
    pub binding_labels: bool,
    /// What objects may have.
    pub objects: ObjectOptions,
    /// Authenticates tokens, for `TokenReview`.
    pub authenticators: Arc<Authenticators>,
    /// Authorizes requests.
    pub authorizer: Authorizer,
    /// The chain of admission plugins.
    pub admission: Chain,
    /// The hooks of kinds that run code before and after their writes.
    pub hooks: WriteHooks,
    /// The issuer of service account tokens; `None` if the server issues none.
    pub tokens: Option<TokenIssuing>,
    /// The components of the cluster, for reads of `ComponentStatus`.
    pub components: Option<Arc<dyn Components>>,
    /// The address types and the port of kubelets.
    pub kubelets: KubeletAddresses,
    /// Nodes with the annotation `kwok.x-k8s.io/node: fake` exist on paper: nothing is connected to there.
    pub paper_nodes: bool,
}

impl Config {
    /// The default configuration: the admission plugin NamespaceLifecycle, and every request is authorized.
    pub fn new(cache: &Cache) -> Result<Self, Error> {
        let namespaces = cache.resource("namespaces").ok_or_else(|| Error::Missing("namespaces".into()))?;
        let lifecycle: Box<dyn admission::Plugin> =
            Box::new(admission::plugins::NamespaceLifecycle::new(namespaces));
        Ok(Self {
            selection: Selection::default(),
            watch_list: false,
            watch_caches: WatchCaches::default(),
            unsafe_delete: false,
            garbage_collection: GarbageCollection::default(),
            binding_labels: false,
            objects: ObjectOptions::default(),
            authenticators: Arc::default(),
            authorizer: Authorizer::always_allow(),
            admission: Chain::new([lifecycle]),
            hooks: WriteHooks::default(),
            tokens: None,
            components: None,
            kubelets: KubeletAddresses::default(),
            paper_nodes: false,
        })
    }
}

/// Why a kind cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A row names a type that does not exist.
    #[error("the kind {kind} of {group}/{version} has no type")]
    Type {
        /// The group.
        group: &'static str,
        /// The version.
        version: &'static str,
        /// The kind.
        kind: &'static str,
    },
    /// A kind cannot be kept in the cache.
    #[error(transparent)]
    Prefix(#[from] cache::InvalidPrefix),
    /// The cache could not load the objects of a kind.
    #[error(transparent)]
    Cache(#[from] cache::Error),
    /// The cache was opened without a resource type that a kind needs.
    #[error("the cache does not have the resource type {0}")]
    Missing(String),
    /// A custom kind has the name of a built-in one.
    #[error("{0} is built in")]
    Builtin(Text),
}

/// The cache specs of all built-in kinds with stored objects. They include kinds that are not served, so that
/// their objects stay readable when they are served again.
pub fn specs() -> Result<Vec<Spec>, Error> {
    let own = kinds::all().filter(|kind| kind.storage == Storage::Own);
    own.map(|kind| {
        let fields: Vec<_> = kind.fields.list.iter().map(SelectableField::from).collect();
        let spec = spec(&store_prefix(kind.group, kind.resource), kind.scope, &fields)?;
        Ok(spec.known_as(kind.key_prefix.unwrap_or(kind.resource)))
    })
    .collect()
}

fn spec(prefix: &str, scope: Scope, fields: &[SelectableField]) -> Result<Spec, Error> {
    let spec = match scope {
        Scope::Namespaced => Spec::namespaced(prefix)?,
        Scope::Cluster => Spec::cluster(prefix)?,
    };
    Ok(fields.iter().fold(spec, |spec, field| spec.field(selectable(field))))
}

fn selectable(field: &SelectableField) -> Field {
    let mut paths = field.paths.iter();
    let first = paths.next().unwrap_or(&field.name);
    let made = Field::at(field.name.clone(), first.as_str());
    let made = paths.fold(made, |made, path| made.or(path.as_str())).absent(field.absent.clone());
    let parts = field.absent_within.iter();
    let made = parts.fold(made, |made, (path, value)| made.absent_within(path.as_str(), value.clone()));
    if field.indexed { made.indexed() } else { made }
}

/// A custom kind in all its versions.
pub struct CustomKind {
    /// The versions, the preferred one first.
    pub versions: Vec<CustomVersion>,
    /// The name of the storage version.
    pub storage_version: Text,
    /// The conversion between its versions.
    pub conversion: Conversion,
}

/// One version of a custom kind.
pub struct CustomVersion {
    /// The resource type of the version.
    pub resource_type: Arc<ResourceType>,
    /// Whether the version is served. The storage version need not be.
    pub served: bool,
}

impl Registry {
    /// Serves the selected kinds from a cache that was opened with [`specs`].
    pub fn new(cache: Arc<Cache>, config: Config) -> Result<Self, Error> {
        let (mut served, mut own) = (Vec::new(), Vec::new());
        let gates = config.objects.gates;
        for kind in kinds::all() {
            let is_own = OWN_RESOURCES.contains(&(kind.group, kind.resource));
            for version in kind.versions {
                if config.selection.serves(kind, version) {
                    served.push(Arc::new(builtin(&cache, kind, version, gates)?));
                } else if is_own && version.by_default {
                    own.push(Arc::new(builtin(&cache, kind, version, gates)?));
                }
            }
        }
        let catalog = watch::Sender::new(Arc::new(Catalog::new(served)));
        let own = Arc::new(Catalog::new(own));
        Ok(Self { cache, catalog, own, changing: tokio::sync::Mutex::default(), config })
    }

    /// A registry beside this one, which serves the same built-in kinds from another cache. What is known of
    /// these kinds is shared; custom kinds are for the caller to install.
    pub fn beside(&self, cache: Arc<Cache>, config: Config) -> Result<Self, Error> {
        let catalog = self.catalog().builtin_over(&cache)?;
        let own = Arc::new(self.own.builtin_over(&cache)?);
        let catalog = watch::Sender::new(Arc::new(catalog));
        Ok(Self { cache, catalog, own, changing: tokio::sync::Mutex::default(), config })
    }

    /// The current catalog. A request takes it once.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// The current catalog for a request of the server itself: without a version that it needs but does not
    /// serve, the catalog of these.
    pub(crate) fn catalog_for(&self, group: &str, version: &str, resource: &str) -> Arc<Catalog> {
        let catalog = self.catalog();
        let serves = |catalog: &Catalog| catalog.find(group, version, resource).is_some();
        if !serves(&catalog) && serves(&self.own) { self.own.clone() } else { catalog }
    }

    /// The current catalog, and each later one.
    pub fn follow_catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Serves a custom kind, or replaces its served form: every request that starts after this returns sees
    /// it.
    ///
    /// The stored objects are loaded first. Watches of the replaced form end, and their clients reconnect.
    pub async fn install(&self, kind: CustomKind) -> Result<(), Error> {
        let _changing = self.changing.lock().await;
        let change = self.load(kind).await?;
        self.publish(vec![change]);
        Ok(())
    }

    /// Serves several custom kinds with one change of the catalog. The outcomes are in the order of the
    /// kinds; the failure of one kind does not affect the others.
    pub async fn install_all(&self, kinds: Vec<CustomKind>) -> Vec<Result<(), Error>> {
        let _changing = self.changing.lock().await;
        let (mut changes, mut outcomes) = (Vec::new(), Vec::new());
        for kind in kinds {
            outcomes.push(self.load(kind).await.map(|change| changes.push(change)));
        }
        self.publish(changes);
        outcomes
    }

    /// Marks a custom kind as terminating: its definition is being deleted. Watches continue. False if the
    /// kind is not served, or already terminating.
    pub async fn terminate(&self, group: &str, resource: &str) -> bool {
        let _changing = self.changing.lock().await;
        let before = self.catalog();
        let now: Vec<_> = before
            .custom(group, resource)
            .filter(|served| !served.is_terminating)
            .map(|served| Arc::new(served.terminating()))
            .collect();
        if now.is_empty() {
            return false;
        }
        let (next, _) =
            before.with(vec![CatalogChange { group: group.into(), resource: resource.into(), now }]);
        self.catalog.send_replace(Arc::new(next));
        true
    }

    /// A copy of the current catalog in which the storage version of a custom kind is served. Requests do not
    /// see it.
    pub async fn catalog_with_storage(&self, mut kind: CustomKind) -> Result<Arc<Catalog>, Error> {
        let storage = kind.storage_version.clone();
        kind.versions
            .iter_mut()
            .filter(|version| version.is_named(&storage))
            .for_each(|version| version.served = true);
        let _changing = self.changing.lock().await;
        let change = self.load(kind).await?;
        Ok(Arc::new(self.catalog().with(vec![change]).0))
    }

    /// Stops serving a custom kind. Its watches end; its objects stay in the store. False if it was not
    /// served.
    pub async fn uninstall(&self, group: &str, resource: &str) -> Result<bool, Error> {
        let _changing = self.changing.lock().await;
        refuse_builtin(group, resource)?;
        self.publish(vec![CatalogChange { group: group.into(), resource: resource.into(), now: Vec::new() }]);
        Ok(self.cache.remove(&store_prefix(group, resource)).await?)
    }

    /// Loads the objects of a kind into the cache, and returns the change of the catalog that serves it.
    async fn load(&self, kind: CustomKind) -> Result<CatalogChange, Error> {
        let Some(storage) = kind.versions.iter().find(|version| version.is_named(&kind.storage_version))
        else {
            return Err(Error::Missing(kind.storage_version.to_string()));
        };
        let storage_type = &storage.resource_type;
        let (group, resource) = (storage_type.group.clone(), storage_type.resource.clone());
        refuse_builtin(&group, &resource)?;
        let prefix = store_prefix(&group, &resource);
        let spec = spec(&prefix, storage_type.scope, &kind.fields())?;
        let spec = spec.known_as(storage_type.key_prefix.to_string());
        let resource_of = match self.cache.resource(&prefix) {
            Some(known) if known.spec().is_like(&spec) => known,
            known => {
                if known.is_some() {
                    self.cache.remove(&prefix).await?;
                }
                self.cache.add(spec).await?
            }
        };
        let served = |version: &CustomVersion, versions: StoredVersions, in_place: InPlace| {
            let stored = Stored {
                resource: resource_of.clone(),
                versions: Arc::new(versions),
                is_working_version: true,
                conversion: Conversion::None,
                in_place,
            };
            Arc::new(Served::new(version.resource_type.clone(), Some(stored)))
        };
        let in_place: Arc<[_]> = match kind.conversion.waits() {
            true => {
                let alone = |version| StoredVersions { storage: None, ..kind.seen_from(version) };
                kind.versions.iter().map(|version| served(version, alone(version), InPlace::Itself)).collect()
            }
            false => Arc::default(),
        };
        let through = || match in_place.is_empty() {
            true => InPlace::Plain,
            false => InPlace::Through(in_place.clone()),
        };
        let now = kind
            .versions
            .iter()
            .filter(|version| version.served)
            .map(|version| served(version, kind.seen_from(version), through()))
            .collect();
        Ok(CatalogChange { group, resource, now })
    }

    /// Serves other kinds than before.
    pub(crate) async fn change_served(&self, changes: Vec<CatalogChange>) {
        let _changing = self.changing.lock().await;
        if !changes.is_empty() {
            self.publish(changes);
        }
    }

    /// Publishes a new catalog with these changes, and retires the `Served` values that they replace.
    fn publish(&self, changes: Vec<CatalogChange>) {
        let (next, retired) = self.catalog().with(changes);
        self.catalog.send_replace(Arc::new(next));
        retired.iter().for_each(|served| served.retire());
    }
}

fn refuse_builtin(group: &str, resource: &str) -> Result<(), Error> {
    match kinds::all().any(|builtin| builtin.group == group && builtin.resource == resource) {
        true => Err(Error::Builtin(format!("{resource}.{group}").into())),
        false => Ok(()),
    }
}

impl CustomKind {
    /// The selectable fields of all versions. A field of the same name is the same field.
    fn fields(&self) -> Vec<SelectableField> {
        let mut all: Vec<SelectableField> = Vec::new();
        for field in self.versions.iter().flat_map(|version| &version.resource_type.fields) {
            if !all.iter().any(|known| known.name == field.name) {
                all.push(field.clone());
            }
        }
        all
    }

    /// The versions of stored objects, as a request whose working version is `working` sees them.
    fn seen_from(&self, working: &CustomVersion) -> StoredVersions {
        let readable = |version: &CustomVersion| {
            let ResourceType { kind, api_version, ty, .. } = &*version.resource_type;
            ReadableVersion::new(kind, api_version, ty.clone(), self.conversion.clone())
        };
        let others = self.versions.iter().filter(|version| !version.is_named(&working.resource_type.version));
        let storage = others.clone().position(|version| version.is_named(&self.storage_version));
        StoredVersions { working: readable(working), others: others.map(readable).collect(), storage }
    }
}

impl CustomVersion {
    fn is_named(&self, name: &str) -> bool {
        self.resource_type.version == name
    }
}

/// The resources that the server needs for itself, whatever is served: where services have their addresses
/// from.
const OWN_RESOURCES: [(&str, &str); 2] =
    [("networking.k8s.io", "ipaddresses"), ("networking.k8s.io", "servicecidrs")];

/// A built-in kind in one of its versions.
fn builtin(
    cache: &Cache,
    kind: &'static Kind,
    version: &'static Version,
    gates: Gates,
) -> Result<Served, Error> {
    let mut resource_type = resolve(kind, version)?;
    resource_type.subresources.retain(|subresource| subresource.is_enabled(gates));
    let Some((owner, storage)) =
        kind.storage_owner().and_then(|owner| owner.storage_version().map(|storage| (owner, storage)))
    else {
        return Ok(Served::new(Arc::new(resource_type), None));
    };
    let prefix = store_prefix(owner.group, owner.resource);
    let readable = |version: &'static Version| {
        let ResourceType { kind, api_version, ty, .. } = resolve(owner, version)?;
        Ok::<_, Error>(ReadableVersion::new(&kind, &api_version, ty, Conversion::of(version)))
    };
    let others = owner.versions.iter().filter(|version| version.name != storage.name);
    let stored = Stored {
        resource: cache.resource(&prefix).ok_or(Error::Missing(prefix))?,
        versions: Arc::new(StoredVersions {
            working: readable(storage)?,
            storage: None,
            others: others.map(readable).collect::<Result<_, _>>()?,
        }),
        is_working_version: std::ptr::eq(owner, kind) && storage.name == version.name,
        conversion: Conversion::of(version),
        in_place: InPlace::Plain,
    };
    Ok(Served::new(Arc::new(resource_type), Some(stored)))
}

fn resolve(kind: &'static Kind, version: &'static Version) -> Result<ResourceType, Error> {
    let missing = Error::Type { group: kind.group, version: version.name, kind: kind.kind };
    ResourceType::builtin(kind, version).ok_or(missing)
}
