//! The catalog of all served kinds. It is immutable: a new one is published when a custom kind is added,
//! changed or removed.
//!
//! 1. A request takes the catalog once ([`Registry::catalog`](crate::Registry::catalog)), and everything it
//!    looks up is from that one.
//! 2. A new catalog shares everything unchanged with its predecessor: a [`GroupVersion`] and its resources
//!    keep their identity, and with it the documents and encodings that were made from them.
//! 3. A [`Served`] that is replaced by another definition or removed is *retired*; watches that use it end.

use crate::Computed;
use crate::registry::Error;
use crate::stored::Stored;
use cache::Cache;
use kinds::{ResourceType, preferred_first};
use object::Text;
use std::cmp::Ordering as Order;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Semaphore;

/// All served kinds.
pub struct Catalog {
    generation: u64,
    builtin: Arc<Builtin>,
    /// The group versions of custom kinds, sorted by group; in a group, the preferred version first. A new
    /// catalog copies the list, and rebuilds only the group versions that change.
    custom: Vec<Arc<GroupVersion>>,
}

/// The built-in kinds, which never change.
struct Builtin {
    group_versions: Vec<Arc<GroupVersion>>,
    by_resource: HashMap<Text, Vec<Arc<Served>>>,
}

/// A change of the catalog: the new served versions of one custom resource.
pub(crate) struct CatalogChange {
    pub(crate) group: Text,
    pub(crate) resource: Text,
    /// The versions; empty if the resource is removed.
    pub(crate) now: Vec<Arc<Served>>,
}

/// The resources of one group and version.
#[derive(Clone)]
pub struct GroupVersion {
    /// The API group; empty for the core group.
    pub group: Text,
    /// The version.
    pub version: Text,
    /// The generation of the catalog in which this group version last changed.
    pub generation: u64,
    /// The resources: built-in ones in the order of discovery, custom ones sorted by name.
    pub resources: Vec<Arc<Served>>,
}

/// One kind in one version, with its stored objects.
pub struct Served {
    /// The resource type.
    pub resource_type: Arc<ResourceType>,
    /// The stored objects; `None` for a kind without them, such as a review.
    pub stored: Option<Stored>,
    /// Computes the objects of a kind that are not stored; `None` for other kinds.
    pub computed: Option<Arc<dyn Computed>>,
    /// The first bytes of every object of this version as JSON: `{"kind":"Pod","apiVersion":"v1"`.
    pub head: Box<[u8]>,
    /// A unique number, never reused: encodings are cached under it.
    pub id: u32,
    /// The table columns as JSON, encoded on first use.
    pub headings: OnceLock<bytes::Bytes>,
    retired: Arc<Semaphore>,
}

impl Deref for Served {
    type Target = ResourceType;

    fn deref(&self) -> &ResourceType {
        &self.resource_type
    }
}

/// The first bytes of every object of a kind and version as JSON.
pub(crate) fn head(kind: &str, api_version: &str) -> Box<[u8]> {
    format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}""#).into_bytes().into()
}

impl Served {
    pub(crate) fn new(resource_type: Arc<ResourceType>, stored: Option<Stored>) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self {
            head: head(&resource_type.kind, &resource_type.api_version),
            resource_type,
            stored,
            computed: None,
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            headings: OnceLock::new(),
            retired: Arc::new(Semaphore::new(0)),
        }
    }

    /// A kind whose objects are computed.
    pub(crate) fn computed(resource_type: Arc<ResourceType>, computed: Arc<dyn Computed>) -> Self {
        Self { computed: Some(computed), ..Self::new(resource_type, None) }
    }

    /// The same kind over the objects of another cache. Only what its objects are differs, so encodings of
    /// objects that both caches share are the same.
    fn over(&self, cache: &Cache) -> Result<Self, Error> {
        let over = |stored: &Stored| {
            let prefix = stored.resource.spec().prefix();
            let resource = cache.resource(prefix).ok_or_else(|| Error::Missing(prefix.to_owned()))?;
            Ok::<_, Error>(Stored { resource, ..stored.clone() })
        };
        Ok(Self {
            resource_type: self.resource_type.clone(),
            stored: self.stored.as_ref().map(over).transpose()?,
            head: self.head.clone(),
            id: self.id,
            headings: self.headings.clone(),
            retired: Arc::new(Semaphore::new(0)),
            computed: None,
        })
    }

    /// A copy that is marked as terminating. Both are retired together.
    pub(crate) fn terminating(&self) -> Self {
        let resource_type = ResourceType { is_terminating: true, ..ResourceType::clone(&self.resource_type) };
        Self { retired: self.retired.clone(), ..Self::new(Arc::new(resource_type), self.stored.clone()) }
    }

    /// Completes when this is removed from the catalog, or replaced by another definition of the kind.
    pub async fn retired(&self) {
        // The semaphore has no permits: the future completes when the semaphore is closed.
        let _ = self.retired.acquire().await;
    }

    pub(crate) fn retire(&self) {
        self.retired.close();
    }

    /// Whether both serve the same stored objects.
    pub(crate) fn shares_objects(&self, other: &Self) -> bool {
        match (&self.stored, &other.stored) {
            (Some(one), Some(other)) => Arc::ptr_eq(&one.resource, &other.resource),
            _ => false,
        }
    }
}

impl Catalog {
    /// The catalog of built-in kinds, in the order of discovery.
    pub(crate) fn new(builtin: Vec<Arc<Served>>) -> Self {
        let generation = 1;
        let mut group_versions: Vec<GroupVersion> = Vec::new();
        let mut by_resource: HashMap<Text, Vec<Arc<Served>>> = HashMap::new();
        for served in builtin {
            by_resource.entry(served.resource.clone()).or_default().push(served.clone());
            match group_versions.iter_mut().find(|known| known.is(&served.group, &served.version)) {
                Some(known) => known.resources.push(served),
                None => group_versions.push(GroupVersion::new(served, generation)),
            }
        }
        let group_versions = group_versions.into_iter().map(Arc::new).collect();
        Self { generation, builtin: Arc::new(Builtin { group_versions, by_resource }), custom: Vec::new() }
    }

    /// The built-in kinds over the objects of another cache.
    pub(crate) fn builtin_over(&self, cache: &Cache) -> Result<Self, Error> {
        let all = self.builtin.group_versions.iter().flat_map(|group_version| &group_version.resources);
        Ok(Self::new(all.map(|served| served.over(cache).map(Arc::new)).collect::<Result<_, _>>()?))
    }

    /// The next catalog, with these changes of custom kinds; and the `Served` values that it removes or
    /// replaces.
    ///
    /// A custom kind in a group version of built-in kinds is not served, as in the reference.
    pub(crate) fn with(&self, changes: Vec<CatalogChange>) -> (Self, Vec<Arc<Served>>) {
        let generation = self.generation + 1;
        let mut custom = self.custom.clone();
        let mut retired = Vec::new();
        for CatalogChange { group, resource, now } in changes {
            let mut at = custom.partition_point(|known| known.group < group);
            while let Some(known) = custom.get_mut(at).filter(|known| known.group == group) {
                if let Ok(place) = known.place(&resource) {
                    let known = Arc::make_mut(known);
                    retired.push(known.resources.remove(place));
                    known.generation = generation;
                }
                at += 1;
            }
            for served in now.into_iter().filter(|served| !self.is_builtin(&served.group, &served.version)) {
                match custom.binary_search_by(|known| known.order(&served.group, &served.version)) {
                    Ok(at) => {
                        if let Some(known) = custom.get_mut(at) {
                            Arc::make_mut(known).put(served, generation);
                        }
                    }
                    Err(at) => custom.insert(at, Arc::new(GroupVersion::new(served, generation))),
                }
            }
        }
        custom.retain(|known| !known.resources.is_empty());
        (Self { generation, builtin: self.builtin.clone(), custom }, retired)
    }

    /// A number that grows with each catalog.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All group versions, in the order of discovery: custom kinds follow the built-in ones.
    pub fn group_versions(&self) -> impl Iterator<Item = &Arc<GroupVersion>> {
        self.builtin.group_versions.iter().chain(&self.custom)
    }

    /// All served kinds in all versions, in the order of discovery.
    pub fn served(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.group_versions().flat_map(|group_version| &group_version.resources)
    }

    /// The served kind with these names.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Served>> {
        let builtin = self.builtin.by_resource.get(resource).into_iter().flatten();
        match builtin.into_iter().find(|served| served.group == group && served.version == version) {
            Some(found) => Some(found),
            None => self.custom_version(group, version)?.find(resource),
        }
    }

    /// The candidates for other versions of the objects of `served`, itself included: all versions of a
    /// custom kind, or the built-in kinds of the same resource name in any group.
    pub(crate) fn versions_of(&self, served: &Served) -> impl Iterator<Item = &Arc<Served>> {
        let builtin = self.builtin.by_resource.get(&served.resource).into_iter().flatten();
        builtin.chain(self.custom(&served.group, &served.resource))
    }

    /// The versions of a custom kind, the preferred one first.
    pub(crate) fn custom(&self, group: &str, resource: &str) -> impl Iterator<Item = &Arc<Served>> {
        self.of_group(group).iter().filter_map(move |known| known.find(resource))
    }

    /// Whether anything of a group is served; the core group always is.
    pub fn serves_group(&self, group: &str) -> bool {
        group.is_empty()
            || self.builtin.group_versions.iter().any(|known| known.group == group)
            || !self.of_group(group).is_empty()
    }

    /// The group version with these names.
    pub fn group_version(&self, group: &str, version: &str) -> Option<&Arc<GroupVersion>> {
        let builtin = self.builtin.group_versions.iter().find(|known| known.is(group, version));
        builtin.or_else(|| self.custom_version(group, version))
    }

    fn is_builtin(&self, group: &str, version: &str) -> bool {
        self.builtin.group_versions.iter().any(|known| known.is(group, version))
    }

    /// The group versions of custom kinds in a group.
    fn of_group(&self, group: &str) -> &[Arc<GroupVersion>] {
        let start = self.custom.partition_point(|known| known.group.as_str() < group);
        let rest = self.custom.get(start..).unwrap_or_default();
        rest.get(..rest.partition_point(|known| known.group == group)).unwrap_or_default()
    }

    fn custom_version(&self, group: &str, version: &str) -> Option<&Arc<GroupVersion>> {
        self.of_group(group).iter().find(|known| known.version == version)
    }
}

impl GroupVersion {
    fn new(served: Arc<Served>, generation: u64) -> Self {
        Self {
            group: served.group.clone(),
            version: served.version.clone(),
            generation,
            resources: vec![served],
        }
    }

    fn is(&self, group: &str, version: &str) -> bool {
        self.group == group && self.version == version
    }

    /// The order of this group version among those of custom kinds.
    fn order(&self, group: &str, version: &str) -> Order {
        let by_version =
            || preferred_first(&self.version, version).then_with(|| self.version.as_str().cmp(version));
        self.group.as_str().cmp(group).then_with(by_version)
    }

    /// The index of a custom resource, or where to insert it.
    fn place(&self, resource: &str) -> Result<usize, usize> {
        self.resources.binary_search_by(|served| served.resource.as_str().cmp(resource))
    }

    fn find(&self, resource: &str) -> Option<&Arc<Served>> {
        self.resources.get(self.place(resource).ok()?)
    }

    fn put(&mut self, served: Arc<Served>, generation: u64) {
        let (Ok(place) | Err(place)) = self.place(&served.resource);
        self.resources.insert(place, served);
        self.generation = generation;
    }
}
