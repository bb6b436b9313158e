//! Looks up the owners of objects.

use super::metadata::{Metadata, Policy};
use aggregation::RemoteResource;
use registry::{Catalog, Served, status};
use schema::Status;
use schema::views::meta::v1::OwnerReference;
use std::sync::Arc;

/// The result of the look-up of an owner.
pub(super) enum Found {
    /// The owner exists.
    Solid,
    /// The owner exists, and its type is not followed.
    Unfollowed,
    /// The owner exists, and waits for its dependents to be deleted.
    Waiting,
    /// The owner does not exist.
    Absent(OwnerKind),
    /// The owner would be in a namespace, and the dependent has none.
    NoNamespace(OwnerKind),
    /// The kind of the owner is not served here in the version of the reference.
    Unknown,
}

/// The kind of an owner.
pub(super) enum OwnerKind {
    /// It is served here.
    Here(Arc<Served>),
    /// Another API server has it.
    Remote(RemoteResource),
}

impl OwnerKind {
    /// Whether its objects are in namespaces.
    pub(super) fn is_namespaced(&self) -> bool {
        match self {
            Self::Here(served) => served.is_namespaced(),
            Self::Remote(of) => of.is_namespaced,
        }
    }
}

/// The group and the version of a reference.
pub(super) fn group_version<'a>(owner: OwnerReference<'a>) -> (&'a str, &'a str) {
    owner.api_version().split_once('/').unwrap_or(("", owner.api_version()))
}

/// Looks up an owner of an object in a namespace. `is_followed` gets the prefix of a type in the store.
pub(super) fn find(
    catalog: &Catalog,
    is_followed: impl Fn(&str) -> bool,
    namespace: &str,
    owner: OwnerReference<'_>,
) -> Result<Found, Status> {
    let (group, version) = group_version(owner);
    let kinds = catalog.group_version(group, version).map(|known| known.resources.iter());
    let kind =
        kinds.into_iter().flatten().find(|served| served.kind == owner.kind() && served.stored.is_some());
    let Some((kind, stored)) = kind.and_then(|kind| Some((kind, kind.stored.as_ref()?))) else {
        return Ok(Found::Unknown);
    };
    let namespace = if kind.is_namespaced() { namespace } else { "" };
    if kind.is_namespaced() && namespace.is_empty() {
        return Ok(Found::NoNamespace(OwnerKind::Here(kind.clone())));
    }
    let entry = match stored.resource.lookup(namespace, owner.name()) {
        Err(cache::Error::Removed { .. }) => return Ok(Found::Unknown),
        found => found.map_err(status)?,
    };
    let Some(entry) = entry.filter(|entry| entry.uid() == owner.uid()) else {
        return Ok(Found::Absent(OwnerKind::Here(kind.clone())));
    };
    let waits = || Metadata::read(&entry).map(|metadata| metadata.awaits() == Some(Policy::Foreground));
    if entry.is_deleting() && waits().map_err(|error| Status::internal_error(&error.to_string()))? {
        return Ok(Found::Waiting);
    }
    Ok(if is_followed(stored.resource.spec().prefix()) { Found::Solid } else { Found::Unfollowed })
}
