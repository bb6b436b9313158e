//! Translation between Keelson's keys and those of the reference.

use kinds::{Kind, Storage};
use std::collections::HashMap;

/// The keys under a prefix.
pub(crate) struct Keys {
    /// `/registry/`.
    root: String,
    /// The built-in kinds, by the first segment of Keelson's keys.
    by_name: HashMap<String, &'static Kind>,
    /// The same, by what follows the root in the store: one segment or two.
    by_stored: HashMap<&'static str, &'static Kind>,
}

/// The parts of an object's key, in either form.
pub(crate) struct Place<'k> {
    /// `None` if the kind is not built in.
    pub(crate) kind: Option<&'static Kind>,
    /// The group, if the kind is not built in.
    group: &'k str,
    resource: &'k str,
    /// `<namespace>/<name>`, or the name alone.
    within: &'k str,
}

impl Place<'_> {
    /// The group and the name of the resource type.
    pub(crate) fn resource(&self) -> (&str, &str) {
        match self.kind {
            Some(kind) => (kind.group, kind.resource),
            None => (self.group, self.resource),
        }
    }

    /// The key in Keelson's form.
    pub(crate) fn key(&self) -> String {
        let (group, resource) = self.resource();
        format!("{}/{}", kinds::store_prefix(group, resource), self.within)
    }

    /// What follows the root in the store.
    fn stored(&self) -> String {
        match self.kind {
            Some(kind) => format!("{}/{}", stored_name(kind), self.within),
            None => format!("{}/{}/{}", self.group, self.resource, self.within),
        }
    }
}

/// `minions`, `services/specs`.
fn stored_name(kind: &Kind) -> &'static str {
    kind.key_prefix.unwrap_or(kind.resource)
}

impl Keys {
    pub(crate) fn new(prefix: &str) -> Self {
        let own = || kinds::all().filter(|kind| kind.storage == Storage::Own);
        Self {
            root: format!("/{}/", prefix.trim_matches('/')),
            by_name: own().map(|kind| (kinds::store_prefix(kind.group, kind.resource), kind)).collect(),
            by_stored: own().map(|kind| (stored_name(kind), kind)).collect(),
        }
    }

    /// What the keys in the store start with, for keys that start with a prefix.
    pub(crate) fn stored_prefix(&self, prefix: &[u8]) -> String {
        let prefix = String::from_utf8_lossy(prefix);
        match self.place(prefix.as_bytes()) {
            Some(place) => self.stored(&place),
            None => self.root.clone(),
        }
    }

    /// The parts of a key, or of a prefix with a whole first segment.
    pub(crate) fn place<'k>(&self, key: &'k [u8]) -> Option<Place<'k>> {
        let (name, within) = str::from_utf8(key).ok()?.split_once('/')?;
        match self.by_name.get(name) {
            Some(kind) => Some(Place { kind: Some(kind), group: "", resource: "", within }),
            None => {
                let (resource, group) = name.split_once('.')?;
                Some(Place { kind: None, group, resource, within })
            }
        }
    }

    /// The key in the store.
    pub(crate) fn stored(&self, place: &Place<'_>) -> String {
        self.root.clone() + &place.stored()
    }

    /// The parts of a key of the store; `None` if it is not the key of an object.
    pub(crate) fn place_of_stored<'k>(&self, stored: &'k [u8]) -> Option<Place<'k>> {
        let rest = str::from_utf8(stored).ok()?.strip_prefix(self.root.as_str())?;
        let (first, after) = rest.split_once('/')?;
        if let Some(kind) = self.by_stored.get(first) {
            return Some(Place { kind: Some(kind), group: "", resource: "", within: after });
        }
        let (second, within) = after.split_once('/')?;
        let both = rest.get(..first.len() + 1 + second.len())?;
        match self.by_stored.get(both) {
            Some(kind) => Some(Place { kind: Some(kind), group: "", resource: "", within }),
            // The group of a custom kind is a domain: a segment without a dot belongs to other data.
            None => {
                first.contains('.').then_some(Place { kind: None, group: first, resource: second, within })
            }
        }
    }
}
