//! The registry: the catalog of what is served, the cache with its objects, and what decides about writes.

use crate::catalog::{Catalog, Change, Served};
use crate::components::Components;
use crate::connect::KubeletAddresses;
use crate::convert::Conversion;
use crate::hooks::WriteHooks;
use crate::stored::{InPlace, Stored, StoredVersion, StoredVersions};
use crate::token_request::TokenIssuing;
use admission::Chain;
use auth::{Authenticators, Authorizer};
use cache::{Cache, Field, Spec};
use kinds::{Kind, Privileged, ResourceType, Scope, SelectableField, Storage, Version, store_prefix};
use object::Text;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;

/// What serves requests: shared by all of them.
pub struct Registry {
    cache: Arc<Cache>,
    catalog: watch::Sender<Arc<Catalog>>,
    /// Held while the catalog is changed, so that changes are made one after another.
    changing: tokio::sync::Mutex<()>,
    config: Config,
}

/// What a registry is made with.
pub struct Config {
    /// Which versions of built-in kinds are served.
    pub selection: Selection,
    /// Whether `sendInitialEvents` is taken: the gate WatchList.
    pub watch_list: bool,
    /// Whether objects that cannot be read can be deleted: the gate AllowUnsafeMalformedObjectDeletion.
    pub unsafe_delete: bool,
    /// Whether a pod gets the labels of its binding: the gate PodTopologyLabelsAdmission.
    pub binding_labels: bool,
    /// Whether containers may be privileged.
    pub privileged: Privileged,
    /// Says who callers are: for reviews of tokens.
    pub authenticators: Arc<Authenticators>,
    /// Decides what callers may do.
    pub authorizer: Authorizer,
    /// What happens to writes between permission and storage.
    pub admission: Chain,
    /// What some kinds do before their writes.
    pub hooks: WriteHooks,
    /// How tokens of service accounts are issued; none if they are not.
    pub tokens: Option<TokenIssuing>,
    /// The components of the cluster, for reads of their statuses.
    pub components: Option<Arc<dyn Components>>,
    /// How the kubelets of nodes are found.
    pub kubelets: KubeletAddresses,
}

impl Config {
    /// Everything that is on by default, with the admission plugins that the API cannot do without; every
    /// caller may do everything.
    pub fn new(cache: &Cache) -> Result<Self, Error> {
        let namespaces = cache.resource("namespaces").ok_or_else(|| Error::Missing("namespaces".into()))?;
        let lifecycle: Box<dyn admission::Plugin> =
            Box::new(admission::plugins::NamespaceLifecycle::new(namespaces));
        Ok(Self {
            selection: Selection::default(),
            watch_list: false,
            unsafe_delete: false,
            binding_labels: false,
            privileged: Privileged::default(),
            authenticators: Arc::default(),
            authorizer: Authorizer::always_allow(),
            admission: Chain::new([lifecycle]),
            hooks: WriteHooks::default(),
            tokens: None,
            components: None,
            kubelets: KubeletAddresses::default(),
        })
    }
}

/// Which versions of which kinds are served: what `--runtime-config` says, and otherwise what is on by
/// default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    rules: BTreeMap<String, bool>,
}

/// Why something cannot be served.
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
    /// The cache has no place for a kind: it was opened for others.
    #[error("the cache does not have the resource type {0}")]
    Missing(String),
    /// A custom kind has the name of a built-in one.
    #[error("{0} is built in")]
    Builtin(Text),
}

impl Selection {
    /// Serves, or does not serve, what a key names: `api/all`, `api/ga`, `api/beta`, `api/alpha`, a group
    /// version (`batch/v1`), or one resource of it (`batch/v1/jobs`).
    pub fn set(&mut self, key: impl Into<String>, on: bool) {
        self.rules.insert(key.into(), on);
    }

    /// Whether a kind is served in a version.
    pub fn serves(&self, kind: &Kind, version: &Version) -> bool {
        let rule = |key: &str| self.rules.get(key).copied();
        let group_version = kinds::api_version(kind.group, version.name);
        let level = if version.name.contains("alpha") {
            "api/alpha"
        } else if version.name.contains("beta") {
            "api/beta"
        } else {
            "api/ga"
        };
        // The core group is also known as `api/v1`.
        let legacy = if kind.group.is_empty() { rule(&format!("api/{}", version.name)) } else { None };
        rule(&format!("{group_version}/{}", kind.resource))
            .or_else(|| rule(&group_version))
            .or(legacy)
            .or_else(|| rule(level))
            .or_else(|| rule("api/all"))
            .unwrap_or(version.by_default)
    }
}

/// What the cache has to know of every built-in kind that keeps objects. All kinds are kept, served or not:
/// what is stored stays readable when it is served again.
pub fn specs() -> Result<Vec<Spec>, Error> {
    let own = kinds::all().filter(|kind| kind.storage == Storage::Own);
    own.map(|kind| {
        let fields: Vec<_> = kind.fields.list.iter().map(SelectableField::from).collect();
        spec(&store_prefix(kind.group, kind.resource), kind.scope, &fields)
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

/// A kind that is not built in, in all its versions.
pub struct CustomKind {
    /// Its versions, the preferred one first.
    pub versions: Vec<CustomVersion>,
    /// The name of the version that objects are kept in.
    pub storage_version: Text,
    /// The way between its versions.
    pub conversion: Conversion,
}

/// One version of a custom kind.
pub struct CustomVersion {
    /// What it is.
    pub resource_type: Arc<ResourceType>,
    /// Whether it is served; objects can be kept in one that is not.
    pub served: bool,
}

impl Registry {
    /// Serves the selected kinds from a cache that was opened with [`specs`].
    pub fn new(cache: Arc<Cache>, config: Config) -> Result<Self, Error> {
        let mut served = Vec::new();
        for kind in kinds::all() {
            for version in kind.versions.iter().filter(|version| config.selection.serves(kind, version)) {
                served.push(Arc::new(builtin(&cache, kind, version)?));
            }
        }
        let catalog = watch::Sender::new(Arc::new(Catalog::new(served)));
        Ok(Self { cache, catalog, changing: tokio::sync::Mutex::default(), config })
    }

    /// What is served now. A request takes it once.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.borrow().clone()
    }

    /// What is served now, and whenever that changes.
    pub fn follow_catalog(&self) -> watch::Receiver<Arc<Catalog>> {
        self.catalog.subscribe()
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// What decides about requests.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Serves a custom kind, or serves it in another form: from the answer on, every new request sees it.
    ///
    /// Objects that the store holds are loaded first. Watches of the form before end, and their clients start
    /// anew.
    pub async fn install(&self, kind: CustomKind) -> Result<(), Error> {
        let _changing = self.changing.lock().await;
        let change = self.load(kind).await?;
        self.swap(vec![change]);
        Ok(())
    }

    /// Serves several custom kinds in one step. The outcomes are in the order of the kinds; what fails is not
    /// in the way of the others.
    pub async fn install_all(&self, kinds: Vec<CustomKind>) -> Vec<Result<(), Error>> {
        let _changing = self.changing.lock().await;
        let (mut changes, mut outcomes) = (Vec::new(), Vec::new());
        for kind in kinds {
            outcomes.push(self.load(kind).await.map(|change| changes.push(change)));
        }
        self.swap(changes);
        outcomes
    }

    /// Marks a custom kind whose definition is being deleted. Watches go on. False if it is not served, or is
    /// marked already.
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
        let (next, _) = before.with(vec![Change { group: group.into(), resource: resource.into(), now }]);
        self.catalog.send_replace(Arc::new(next));
        true
    }

    /// A catalog like that of now, in which the storage version of a custom kind is served. Only the caller
    /// sees it.
    pub async fn catalog_with_storage(&self, mut kind: CustomKind) -> Result<Arc<Catalog>, Error> {
        let storage = kind.storage_version.clone();
        kind.versions
            .iter_mut()
            .filter(|version| version.is(&storage))
            .for_each(|version| version.served = true);
        let _changing = self.changing.lock().await;
        let change = self.load(kind).await?;
        Ok(Arc::new(self.catalog().with(vec![change]).0))
    }

    /// Stops serving a custom kind. Watches of it end; what the store holds of it stays. False if it was not
    /// served.
    pub async fn uninstall(&self, group: &str, resource: &str) -> Result<bool, Error> {
        let _changing = self.changing.lock().await;
        refuse_builtin(group, resource)?;
        self.swap(vec![Change { group: group.into(), resource: resource.into(), now: Vec::new() }]);
        Ok(self.cache.remove(&store_prefix(group, resource)).await?)
    }

    /// Has the cache load the objects of a kind, and gives what is to be served of it.
    async fn load(&self, kind: CustomKind) -> Result<Change, Error> {
        let Some(storage) = kind.versions.iter().find(|version| version.is(&kind.storage_version)) else {
            return Err(Error::Missing(kind.storage_version.to_string()));
        };
        let storage_type = &storage.resource_type;
        let (group, resource) = (storage_type.group.clone(), storage_type.resource.clone());
        refuse_builtin(&group, &resource)?;
        let prefix = store_prefix(&group, &resource);
        let spec = spec(&prefix, storage_type.scope, &kind.fields())?;
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
        Ok(Change { group, resource, now })
    }

    /// Makes changes in a new catalog, and retires what was served before in their places.
    fn swap(&self, changes: Vec<Change>) {
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

    /// Its versions for requests that work on one of them.
    fn seen_from(&self, working: &CustomVersion) -> StoredVersions {
        let stored_version = |version: &CustomVersion| {
            let ResourceType { kind, api_version, ty, .. } = &*version.resource_type;
            StoredVersion::new(kind, api_version, ty.clone(), self.conversion.clone())
        };
        let others = self.versions.iter().filter(|version| !version.is(&working.resource_type.version));
        let storage = others.clone().position(|version| version.is(&self.storage_version));
        StoredVersions {
            working: stored_version(working),
            others: others.map(stored_version).collect(),
            storage,
        }
    }
}

impl CustomVersion {
    fn is(&self, name: &str) -> bool {
        self.resource_type.version == name
    }
}

/// A built-in kind in one of its versions.
fn builtin(cache: &Cache, kind: &'static Kind, version: &'static Version) -> Result<Served, Error> {
    let resource_type = resolve(kind, version)?;
    let Some((owner, storage)) =
        kind.storage_owner().and_then(|owner| owner.stored_version().map(|storage| (owner, storage)))
    else {
        return Ok(Served::new(Arc::new(resource_type), None));
    };
    let prefix = store_prefix(owner.group, owner.resource);
    let stored_version = |version: &'static Version| {
        let ResourceType { kind, api_version, ty, .. } = resolve(owner, version)?;
        Ok::<_, Error>(StoredVersion::new(&kind, &api_version, ty, Conversion::of(version)))
    };
    let others = owner.versions.iter().filter(|version| version.name != storage.name);
    let stored = Stored {
        resource: cache.resource(&prefix).ok_or(Error::Missing(prefix))?,
        versions: Arc::new(StoredVersions {
            working: stored_version(storage)?,
            storage: None,
            others: others.map(stored_version).collect::<Result<_, _>>()?,
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
