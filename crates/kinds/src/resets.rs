//! The fields that a write takes back whatever a client sends, as rows of kinds list them ([`crate::Kind::resets`]).

/// A path: names of fields.
pub type FieldPath = &'static [&'static str];

/// By the name of the subresource that is written, empty for the object itself: the fields, with everything below them.
pub type ResetFields = &'static [(&'static str, &'static [FieldPath])];

/// Of a kind whose status is written apart from the rest.
pub(crate) const STATUS: ResetFields = &[("", &[&["status"]]), ("status", &[&["spec"]])];

/// Of a kind whose status is written apart from the rest, metadata included.
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
        // The reference has them under a group that does not exist.
        assert!(kind("servicecidrs").resets.is_empty());
    }
}
