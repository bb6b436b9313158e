//! What the graph sees of an object, whoever stores it.

use super::metadata::{Metadata, Policy};
use crate::uid::Uid;
use aggregation::RemoteObject;
use cache::Entry;
use std::collections::BTreeSet;

/// An object, as far as the graph sees it.
pub(super) trait Observed {
    /// The uid.
    fn uid(&self) -> &str;
    /// Namespace and name.
    fn key(&self) -> &str;
    /// Whether it has a `deletionTimestamp`.
    fn is_deleting(&self) -> bool;
    /// Whether it has owners.
    fn has_owners(&self) -> bool;
    /// The uids of its owners.
    fn owners(&self) -> BTreeSet<Uid>;
    /// Whether another state of it has the same owners.
    fn has_owners_of(&self, other: &Self) -> bool
    where
        Self: Sized;
    /// The policy that it waits for.
    fn awaits(&self) -> Option<Policy>;
}

impl Observed for Entry {
    fn uid(&self) -> &str {
        Self::uid(self)
    }

    fn key(&self) -> &str {
        Self::key(self)
    }

    fn is_deleting(&self) -> bool {
        Self::is_deleting(self)
    }

    fn has_owners(&self) -> bool {
        Self::owners(self).len() > 0
    }

    fn owners(&self) -> BTreeSet<Uid> {
        Self::owners(self).map(Uid::from).collect()
    }

    fn has_owners_of(&self, other: &Self) -> bool {
        Self::owners(self).eq(Self::owners(other))
    }

    fn awaits(&self) -> Option<Policy> {
        let metadata = Metadata::read(self).inspect_err(|error| {
            log::error!(object:? = self, error:%; "the metadata of an object cannot be decoded");
        });
        metadata.ok().and_then(|metadata| metadata.awaits())
    }
}

impl Observed for RemoteObject {
    fn uid(&self) -> &str {
        &self.uid
    }

    fn key(&self) -> &str {
        &self.key
    }

    fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    fn has_owners(&self) -> bool {
        !self.owners.is_empty()
    }

    fn owners(&self) -> BTreeSet<Uid> {
        self.owners.iter().map(|uid| Uid::from(&**uid)).collect()
    }

    fn has_owners_of(&self, other: &Self) -> bool {
        self.owners == other.owners
    }

    fn awaits(&self) -> Option<Policy> {
        Policy::of(self.finalizers.iter().map(|name| &**name))
    }
}
