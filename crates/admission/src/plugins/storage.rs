//! What plugins about storage share.

use schema::views::core::v1::PersistentVolumeClaim;

/// The annotation that named the class of a claim before the field did. It still counts before the field.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// Whether a claim names a class, or none on purpose.
pub(super) fn has_class(claim: PersistentVolumeClaim<'_>) -> bool {
    claim.metadata().annotations().get(CLASS).is_some() || claim.spec().storage_class_name().is_some()
}

/// The class of a claim; empty if it names none.
pub(super) fn class<'a>(claim: PersistentVolumeClaim<'a>) -> &'a str {
    let annotated = claim.metadata().annotations().get(CLASS);
    annotated.or(claim.spec().storage_class_name()).unwrap_or_default()
}
