//! What is served, and where it is.

use crate::commit::Run;
use crate::served::{Served, Stored, prefix};
use auth::{Authorized, Target as Wanted};
use cache::{Cache, Field, Resource, Spec};
use kinds::{Kind, Scope, Storage, Subresource, Version};
use schema::{Status, builtin};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The kinds that are served, and the cache with their objects.
pub struct Registry {
    cache: Arc<Cache>,
    by_resource: HashMap<&'static str, Vec<Arc<Served>>>,
    order: Vec<Arc<Served>>,
    namespaces: Arc<Resource>,
    settings: Settings,
}

/// What can be set about serving.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Whether `sendInitialEvents` is taken: the gate WatchList.
    pub watch_list: bool,
}

/// Which versions of which kinds are served: what `--runtime-config` says, and otherwise what is on by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    rules: BTreeMap<String, bool>,
}

/// Why the registry cannot be made.
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
    /// A row cannot be kept in the cache.
    #[error(transparent)]
    Prefix(#[from] cache::InvalidPrefix),
    /// The cache has no place for a kind: it was opened for others.
    #[error("the cache does not have the resource type {0}")]
    Missing(String),
}

impl Selection {
    /// Serves, or does not serve, what a key names: `api/all`, `api/ga`, `api/beta`, `api/alpha`, a group version
    /// (`batch/v1`), or one resource of it (`batch/v1/jobs`).
    pub fn set(&mut self, key: impl Into<String>, on: bool) {
        self.rules.insert(key.into(), on);
    }

    /// Whether a kind is served in a version.
    pub fn serves(&self, kind: &Kind, version: &Version) -> bool {
        let rule = |key: &str| self.rules.get(key).copied();
        let group_version = crate::api_version(kind.group, version.name);
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

/// What the cache has to know of every kind that keeps objects. All kinds are kept, served or not: what is stored stays
/// readable when it is served again.
pub fn specs() -> Result<Vec<Spec>, Error> {
    let own = kinds::all().filter(|kind| kind.storage == Storage::Own);
    own.map(|kind| {
        let prefix = prefix(kind);
        let spec = match kind.scope {
            Scope::Namespaced => Spec::namespaced(prefix)?,
            Scope::Cluster => Spec::cluster(prefix)?,
        };
        Ok(kind.fields.list.iter().fold(spec, |spec, field| spec.field(selectable(field))))
    })
    .collect()
}

fn selectable(field: &kinds::Selectable) -> Field {
    let mut paths = field.paths.iter();
    let first = paths.next().copied().unwrap_or(field.name);
    let made = paths.fold(Field::at(field.name, first), |made, path| made.or(*path)).absent(field.absent);
    if field.indexed { made.indexed() } else { made }
}

impl Registry {
    /// Serves the selected kinds from a cache that was opened with [`specs`].
    pub fn new(cache: Arc<Cache>, selection: &Selection, settings: Settings) -> Result<Self, Error> {
        let mut order = Vec::new();
        for kind in kinds::all() {
            for version in kind.versions.iter().filter(|version| selection.serves(kind, version)) {
                order.push(Arc::new(serve(&cache, kind, version)?));
            }
        }
        let mut by_resource: HashMap<_, Vec<_>> = HashMap::new();
        for served in &order {
            by_resource.entry(served.kind.resource).or_default().push(Arc::clone(served));
        }
        let namespaces = cache.resource("namespaces").ok_or_else(|| Error::Missing("namespaces".into()))?;
        Ok(Self { cache, by_resource, order, namespaces, settings })
    }

    /// Everything that is served, in the order in which it is announced.
    pub fn served(&self) -> &[Arc<Served>] {
        &self.order
    }

    /// What is served under these names.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Served>> {
        let served = self.by_resource.get(resource)?;
        served.iter().find(|served| served.kind.group == group && served.version.name == version)
    }

    /// The cache.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// What can be set.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    pub(crate) fn namespaces(&self) -> &Arc<Resource> {
        &self.namespaces
    }

    /// What a permission is for, if it is for something that is served.
    pub fn target<'a>(&'a self, proof: &'a Authorized) -> Result<Target<'a>, Status> {
        let Wanted::Resource { group, version, resource, subresource, namespace, name } =
            &proof.attributes().target
        else {
            return Err(Status::unknown_resource());
        };
        let served = self.find(group, version, resource).ok_or_else(Status::unknown_resource)?;
        let subresource = match subresource.as_str() {
            "" => None,
            name => Some(served.subresource(name).ok_or_else(Status::unknown_resource)?),
        };
        // A namespace is in itself for authorization, and nowhere for the store.
        let namespace = if served.kind.is_namespaced() { namespace.as_str() } else { "" };
        Ok(Target { proof, served, subresource, namespace, name })
    }
}

fn serve(cache: &Cache, kind: &'static Kind, version: &'static Version) -> Result<Served, Error> {
    let ty = type_of(kind, version)?;
    let stored = match kind.storage {
        Storage::Nowhere => None,
        Storage::Own => kind.stored_version().map(|stored| (kind, stored)),
        Storage::Shared { group, resource } => kinds::all()
            .find(|other| other.group == group && other.resource == resource)
            .and_then(|owner| owner.stored_version().map(|stored| (owner, stored))),
    };
    let stored = stored.map(|(owner, stored)| {
        let prefix = prefix(kind);
        let resource = cache.resource(&prefix).ok_or(Error::Missing(prefix))?;
        let is_canonical = std::ptr::eq(owner, kind) && stored.name == version.name;
        Ok::<_, Error>(Stored {
            resource,
            kind: owner,
            version: stored,
            ty: type_of(owner, stored)?,
            is_canonical,
        })
    });
    let head = format!(
        r#"{{"kind":"{}","apiVersion":"{}""#,
        kind.kind,
        crate::api_version(kind.group, version.name)
    );
    Ok(Served {
        kind,
        version,
        ty,
        stored: stored.transpose()?,
        head: head.into_bytes().into(),
        resets: crate::managed::resets(kind),
    })
}

fn type_of(kind: &Kind, version: &Version) -> Result<&'static schema::Type, Error> {
    let missing = Error::Type { group: kind.group, version: version.name, kind: kind.kind };
    builtin::by_kind(kind.group, version.name, kind.kind).ok_or(missing)
}

/// What a request is about: made of the permission for it, so that it cannot be about anything else.
#[derive(Clone, Copy)]
pub struct Target<'a> {
    pub(crate) proof: &'a Authorized,
    /// The kind.
    pub served: &'a Arc<Served>,
    /// The part of the object.
    pub subresource: Option<&'static Subresource>,
    /// The namespace; empty for all of them, and for what lives in none.
    pub namespace: &'a str,
    /// The name; empty for a collection.
    pub name: &'a str,
}

impl<'a> Target<'a> {
    /// Where the objects are; an operation has none.
    pub(crate) fn stored(&self) -> Result<&'a Stored, Status> {
        self.served.stored.as_ref().ok_or_else(Status::method_not_allowed)
    }

    /// Whether the permission is for this verb: a guard against a mistake in the layer above.
    pub(crate) fn check_verb(&self, verbs: &[&str]) -> Result<(), Status> {
        let given = self.proof.attributes().verb;
        if verbs.contains(&given) {
            return Ok(());
        }
        log::error!(given, wanted:? = verbs; "a permission was used for another verb");
        Err(Status::internal_error("the permission is for another verb"))
    }

    /// Refuses a name that cannot be that of anything.
    pub(crate) fn check_name(&self) -> Result<(), Status> {
        let messages = object::name::name_is_path_segment(self.name, object::name::Mode::Name);
        if messages.is_empty() {
            return Ok(());
        }
        let all: Vec<&str> = messages.iter().map(|message| &**message).collect();
        let name = object::quote::Quoted(self.name);
        Err(Status::bad_request(format!("Name parameter invalid: {name}: {}", all.join(";"))))
    }

    /// 404 for the object.
    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(self.served.kind.group, self.served.kind.resource, self.name)
    }

    /// The key under which the reference keeps the object; some of its messages show it, without the root that all keys share
    /// where nothing is kept.
    pub(crate) fn key(&self, run: Run) -> String {
        let kind = self.served.kind;
        let prefix = match (kind.group, kind.resource) {
            ("", "replicationcontrollers") => "controllers",
            ("", "endpoints") => "services/endpoints",
            ("", "services") => "services/specs",
            ("", "nodes") => "minions",
            ("networking.k8s.io", "ingresses") => "ingress",
            ("apiextensions.k8s.io", "customresourcedefinitions") => {
                "apiextensions.k8s.io/customresourcedefinitions"
            }
            ("apiregistration.k8s.io", "apiservices") => "apiregistration.k8s.io/apiservices",
            (_, resource) => resource,
        };
        let place = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        let root = if run == Run::Dry { "" } else { "/registry" };
        format!("{root}/{prefix}/{place}{}", self.name)
    }

    /// 409 for the object.
    pub(crate) fn conflict(&self, why: &str) -> Status {
        Status::conflict(self.served.kind.group, self.served.kind.resource, self.name, why)
    }
}
