//! Reset fields: the fields that a write resets whatever the client sends ([`crate::Kind::resets`]).

/// A field path, as names of fields.
pub type FieldPath = &'static [&'static str];

/// Reset fields by subresource (empty for the object itself). A path includes everything below it.
pub type ResetFields = &'static [(&'static str, &'static [FieldPath])];

/// For a kind with a status subresource.
pub(crate) const STATUS: ResetFields = &[("", &[&["status"]]), ("status", &[&["spec"]])];

/// For a kind whose status subresource does not write metadata.
pub(crate) const STATUS_WITHOUT_METADATA: ResetFields =
    &[("", &[&["status"]]), ("status", &[&["metadata"], &["spec"]])];

#[cfg(test)]
mod tests {
    #[test]
    fn reset_fields_name_existing_subresources() {
        for kind in crate::all() {
            for (name, paths) in kind.resets {
                assert!(name.is_empty() || kind.subresource(name).is_some(), "{} {name}", kind.resource);
                assert!(!paths.is_empty(), "{} {name}", kind.resource);
            }
        }
    }

    #[test]
    fn reset_fields_separate_spec_and_status() {
        let kind = |resource: &str| crate::all().find(|kind| kind.resource == resource).unwrap();
        assert_eq!(kind("jobs").resets, super::STATUS);
        assert_eq!(kind("flowschemas").resets, super::STATUS_WITHOUT_METADATA);
        assert!(kind("configmaps").resets.is_empty());
        // The reference declares them for a group that does not exist.
        assert!(kind("servicecidrs").resets.is_empty());
    }
}
