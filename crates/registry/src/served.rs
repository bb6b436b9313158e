//! What is served: the kinds in their versions, each tied to where its objects are.

use cache::Resource;
use kinds::{Kind, Storage, Subresource, Version};
use object::path_set::Set;
use schema::Type;
use std::sync::Arc;

/// One kind in one version, as requests ask for it.
pub struct Served {
    /// The row.
    pub kind: &'static Kind,
    /// The version.
    pub version: &'static Version,
    /// The type of its objects in this version.
    pub ty: &'static Type,
    /// Where its objects are; nowhere for an operation.
    pub stored: Option<Stored>,
    /// What every object in this version starts with as JSON: `{"kind":"Pod","apiVersion":"v1"`.
    pub head: Box<[u8]>,
    /// What cannot be owned, by the subresource that is written.
    pub(crate) resets: Vec<(&'static str, Set)>,
}

/// Where the objects of a kind are, and in what version.
pub struct Stored {
    /// The objects.
    pub resource: Arc<Resource>,
    /// The kind they are kept as: another than the one served where two kinds share their objects.
    pub kind: &'static Kind,
    /// The version they are kept in.
    pub version: &'static Version,
    /// The type of what is kept.
    pub ty: &'static Type,
    /// Whether this version's bytes are those that are kept.
    pub is_canonical: bool,
}

impl Served {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(self.kind.group, self.version.name)
    }

    /// The kind of a collection: `PodList`.
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind.kind)
    }

    /// The subresource called `name`.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.kind.subresource(name)
    }
}

/// `v1`, `apps/v1`.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The prefix of a kind's keys in the store: `pods`, `deployments.apps`.
pub(crate) fn prefix(kind: &Kind) -> String {
    let (group, resource) = match kind.storage {
        Storage::Shared { group, resource } => (group, resource),
        Storage::Own | Storage::Nowhere => (kind.group, kind.resource),
    };
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}
