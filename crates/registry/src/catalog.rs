//! What is served at one moment: an immutable catalog, swapped as a whole when a custom kind comes, changes or goes.
//!
//! 1. A request takes the catalog once ([`Registry::catalog`](crate::Registry::catalog)), and everything it looks up is from that one.
//! 2. What did not change is shared with the catalog before: a [`GroupVersion`] and its resources keep their identity, and with it
//!    the documents and encodings that were made of them.
//! 3. A [`Served`] that is replaced or removed is *retired*; watches that use it end.

use crate::stored::Stored;
use kinds::ResourceType;
use object::Text;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Semaphore;

/// Everything that is served.
pub struct Catalog {
    generation: u64,
    group_versions: Vec<Arc<GroupVersion>>,
    by_resource: HashMap<Text, Vec<Arc<Served>>>,
}

/// What is served under one group and version.
pub struct GroupVersion {
    /// The API group; empty for the core group.
    pub group: Text,
    /// The version.
    pub version: Text,
    /// The generation of the catalog in which anything of this last changed.
    pub generation: u64,
    /// Its resources, in the order in which they were added.
    pub resources: Vec<Arc<Served>>,
}

/// One kind in one version, tied to where its objects are.
pub struct Served {
    /// What it is.
    pub resource_type: Arc<ResourceType>,
    /// Where its objects are; nowhere for an operation.
    pub stored: Option<Stored>,
    /// What every object in this version starts with as JSON: `{"kind":"Pod","apiVersion":"v1"`.
    pub head: Box<[u8]>,
    /// A number that no other `Served` has or had: what is encoded for one is not used for another.
    pub id: u32,
    /// The columns of its tables as JSON, once they were asked for.
    pub headings: OnceLock<bytes::Bytes>,
    retired: Semaphore,
}

impl Deref for Served {
    type Target = ResourceType;

    fn deref(&self) -> &ResourceType {
        &self.resource_type
    }
}

/// What every object of a kind in a version starts with as JSON.
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
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            headings: OnceLock::new(),
            retired: Semaphore::new(0),
        }
    }

    /// Ends when this is not served any more, or in another form.
    pub async fn retired(&self) {
        // It has no permits, so the only way for this to end is that it is closed.
        let _ = self.retired.acquire().await;
    }

    pub(crate) fn retire(&self) {
        self.retired.close();
    }

    /// Whether both are looks at the same objects.
    pub(crate) fn shares_objects(&self, other: &Self) -> bool {
        match (&self.stored, &other.stored) {
            (Some(one), Some(other)) => Arc::ptr_eq(&one.resource, &other.resource),
            _ => false,
        }
    }
}

impl Catalog {
    /// The catalog of these resources, in the order in which they are announced. What is already in `before` as it is now keeps
    /// its identity.
    pub(crate) fn new(served: Vec<Arc<Served>>, before: Option<&Self>) -> Self {
        let generation = before.map_or(1, |before| before.generation + 1);
        let mut group_versions: Vec<GroupVersion> = Vec::new();
        let mut by_resource: HashMap<Text, Vec<Arc<Served>>> = HashMap::new();
        for served in served {
            by_resource.entry(served.resource.clone()).or_default().push(served.clone());
            let same = |known: &GroupVersion| known.group == served.group && known.version == served.version;
            match group_versions.iter_mut().find(|known| same(known)) {
                Some(known) => known.resources.push(served),
                None => group_versions.push(GroupVersion {
                    group: served.group.clone(),
                    version: served.version.clone(),
                    generation,
                    resources: vec![served],
                }),
            }
        }
        let group_versions = group_versions.into_iter().map(|now| {
            let known = before.and_then(|before| before.group_version(&now.group, &now.version));
            match known.filter(|known| known.has_resources_of(&now)) {
                Some(known) => known.clone(),
                None => Arc::new(now),
            }
        });
        Self { generation, group_versions: group_versions.collect(), by_resource }
    }

    /// A number that grows with each catalog.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// What is served, by group and version, in the order in which it is announced.
    pub fn group_versions(&self) -> &[Arc<GroupVersion>] {
        &self.group_versions
    }

    /// Everything that is served, in the order in which it is announced.
    pub fn served(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.group_versions.iter().flat_map(|group_version| &group_version.resources)
    }

    /// What is served under these names.
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Served>> {
        let served = self.by_resource.get(resource)?;
        served.iter().find(|served| served.group == group && served.version == version)
    }

    /// Whether anything of a group is served; the core group always is.
    pub fn serves_group(&self, group: &str) -> bool {
        group.is_empty() || self.group_versions.iter().any(|known| known.group == group)
    }

    /// What is served of one group and version.
    pub fn group_version(&self, group: &str, version: &str) -> Option<&Arc<GroupVersion>> {
        self.group_versions.iter().find(|known| known.group == group && known.version == version)
    }
}

impl GroupVersion {
    fn has_resources_of(&self, other: &Self) -> bool {
        self.resources.len() == other.resources.len()
            && self.resources.iter().zip(&other.resources).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}
