//! Reset fields: the fields that a write resets whatever the client sends ([`crate::Kind::resets`]).

use crate::{keep, keep_metadata, map_at};
use object::{Map, Value};

/// A field path, as names of fields.
pub type FieldPath = &'static [&'static str];

/// Reset fields by subresource (empty for the object itself). A path includes everything below it.
pub type ResetFields = &'static [(&'static str, &'static [FieldPath])];

/// The fields that the writes of a kind reset.
#[derive(Debug, PartialEq, Eq)]
pub struct Resets {
    /// The fields that a new object loses.
    pub create: &'static [&'static str],
    /// The fields that an update takes from the old object. The path `metadata` stands for the fields of
    /// metadata that [`keep_metadata`] keeps.
    pub update: ResetFields,
    /// The fields that field managers do not own, if the reference declares others than it resets.
    pub declared: Option<ResetFields>,
}

impl Resets {
    /// Nothing is reset.
    pub const NONE: Self = Self { create: &[], update: &[], declared: None };
    /// For a kind with a status subresource.
    pub const STATUS: Self = Self {
        create: &["status"],
        update: &[("", &[&["status"]]), ("status", &[&["spec"]])],
        declared: None,
    };
    /// For a kind whose status subresource does not write metadata.
    pub const STATUS_WITHOUT_METADATA: Self =
        Self { update: &[("", &[&["status"]]), ("status", &[&["metadata"], &["spec"]])], ..Self::STATUS };

    /// The fields that field managers do not own.
    pub fn declared(&self) -> ResetFields {
        self.declared.unwrap_or(self.update)
    }

    /// Resets the fields of a new object.
    pub(crate) fn reset_new(&self, object: &mut Map) {
        for key in self.create {
            object.remove(key);
        }
    }

    /// Resets the fields of an update through a subresource.
    pub(crate) fn reset_changed(&self, subresource: &str, new: &mut Map, old: &Map) {
        let fields = self.update.iter().filter(|(name, _)| *name == subresource);
        for path in fields.flat_map(|(_, paths)| *paths) {
            match path {
                ["metadata"] => keep_metadata(new, old),
                [] => {}
                [key] => keep(new, old, key),
                [key, field, ..] => keep_within(new, old, key, field),
            }
        }
    }
}

/// Sets a field of the map at `key` to its value in `old`.
fn keep_within(new: &mut Map, old: &Map, key: &'static str, field: &'static str) {
    let before = old.get(key).and_then(Value::as_map);
    if !new.contains_key(key) && before.is_none_or(|before| !before.contains_key(field)) {
        return;
    }
    let Some(within) = map_at(new, key) else { return };
    keep(within, before.unwrap_or(&Map::new()), field);
    if within.is_empty() && before.is_none() {
        new.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::Resets;

    #[test]
    fn reset_fields_name_existing_subresources() {
        for kind in crate::all() {
            for (name, paths) in kind.resets.update.iter().chain(kind.resets.declared()) {
                assert!(name.is_empty() || kind.subresource(name).is_some(), "{} {name}", kind.resource);
                assert!(!paths.is_empty(), "{} {name}", kind.resource);
                assert!(paths.iter().all(|path| matches!(path.len(), 1 | 2)), "{} {name}", kind.resource);
            }
        }
    }

    #[test]
    fn reset_fields_separate_spec_and_status() {
        let kind = |resource: &str| crate::all().find(|kind| kind.resource == resource).unwrap();
        assert_eq!(*kind("jobs").resets, Resets::STATUS);
        assert_eq!(kind("flowschemas").resets.declared(), Resets::STATUS_WITHOUT_METADATA.update);
        assert!(kind("configmaps").resets.declared().is_empty());
        // The reference declares them for a group that does not exist.
        assert!(kind("servicecidrs").resets.declared().is_empty());
    }
}
