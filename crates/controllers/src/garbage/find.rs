//! Looks up the owners of objects.

use super::metadata::{Metadata, Policy};
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
    Absent(Arc<Served>),
    /// The owner would be in a namespace, and the dependent has none.
    NoNamespace(Arc<Served>),
    /// The kind of the owner is not served in the version of the reference.
    Unknown,
}

/// Looks up an owner of an object in a namespace. `is_followed` gets the prefix of a type in the store.
pub(super) fn find(
    catalog: &Catalog,
    is_followed: impl Fn(&str) -> bool,
    namespace: &str,
    owner: OwnerReference<'_>,
) -> Result<Found, Status> {
    let (group, version) = owner.api_version().split_once('/').unwrap_or(("", owner.api_version()));
    let kinds = catalog.group_version(group, version).map(|known| known.resources.iter());
    let kind =
        kinds.into_iter().flatten().find(|served| served.kind == owner.kind() && served.stored.is_some());
    let Some((kind, stored)) = kind.and_then(|kind| Some((kind, kind.stored.as_ref()?))) else {
        return Ok(Found::Unknown);
    };
    let namespace = if kind.is_namespaced() { namespace } else { "" };
    if kind.is_namespaced() && namespace.is_empty() {
        return Ok(Found::NoNamespace(kind.clone()));
    }
    let entry = match stored.resource.lookup(namespace, owner.name()) {
        Err(cache::Error::Removed { .. }) => return Ok(Found::Unknown),
        found => found.map_err(status)?,
    };
    let Some(entry) = entry.filter(|entry| entry.uid() == owner.uid()) else {
        return Ok(Found::Absent(kind.clone()));
    };
    let waits = || Metadata::read(&entry).map(|metadata| metadata.awaits() == Some(Policy::Foreground));
    if entry.is_deleting() && waits().map_err(|error| Status::internal_error(&error.to_string()))? {
        return Ok(Found::Waiting);
    }
    Ok(if is_followed(stored.resource.spec().prefix()) { Found::Solid } else { Found::Unfollowed })
}
