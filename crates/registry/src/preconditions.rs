//! The checks of a write before validation: name, uid and resource version.

use crate::commit::WriteMode;
use crate::error::{parse_number, unknown_reason_500};
use crate::write::MODIFIED;
use crate::{Target, object_meta};
use cache::Entry;
use object::Map;
use schema::Status;
use store::Revision;

/// Refuses an object whose name or namespace is not that of the path.
pub(crate) fn check_name(object: &Map, target: &Target<'_>) -> Result<(), Status> {
    let name = object_meta::text(object, "name");
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    if name != target.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    let namespace = object_meta::text(object, "namespace");
    if !target.namespace.is_empty()
        && target.served.is_namespaced()
        && !namespace.is_empty()
        && namespace != target.namespace
    {
        return Err(Status::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the request ({})",
            target.namespace
        )));
    }
    Ok(())
}

/// Refuses a uid that is not that of the object.
pub(crate) fn check_uid(
    target: &Target<'_>,
    new: &Map,
    old: Option<&Map>,
    mode: WriteMode,
) -> Result<(), Status> {
    let expected = object_meta::text(new, "uid");
    let found = old.map(|old| object_meta::text(old, "uid")).unwrap_or_default();
    if expected.is_empty() || expected == found {
        return Ok(());
    }
    Err(target.conflict(&format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {expected}, UID in object meta: {found}",
        target.key(mode)
    )))
}

/// Refuses an applied configuration with a uid where there is no object.
pub(crate) fn check_no_uid(target: &Target<'_>, object: &Map) -> Result<(), Status> {
    let uid = object_meta::text(object, "uid");
    if uid.is_empty() {
        return Ok(());
    }
    Err(target.conflict(&format!(
        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    )))
}

/// Step 8: a resource version in the new object must be that of the old one. A new object without one
/// replaces the newest state, if the kind allows that.
pub(crate) fn check_version(target: &Target<'_>, new: &mut Map, entry: &Entry) -> Result<(), Status> {
    let served = target.served;
    let expected = match object_meta::text(new, "resourceVersion") {
        "" => Revision::ZERO,
        text => parse_number("ParseUint", text).map(Revision).map_err(unknown_reason_500)?,
    };
    if expected == Revision::ZERO {
        if !served.strategy.allow_unconditional_update() {
            let path = object::field::Path::new("metadata");
            let error = object::field::Error::invalid(
                &path.child("resourceVersion"),
                object::field::BadValue::Raw("0x0".into()),
                "must be specified for an update",
            );
            return Err(Status::invalid(&served.group, &served.resource, target.name, &error.into()));
        }
    } else if expected != entry.mod_revision() {
        return Err(target.conflict(MODIFIED));
    }
    object_meta::set(new, "resourceVersion", entry.mod_revision().0.to_string());
    Ok(())
}

/// Removes the resource version of an object that is about to be created; one that is not zero is an error,
/// and one that is not a number is ignored. A dry run keeps it.
pub(crate) fn take_version(object: &mut Map) -> Result<(), Status> {
    let version = parse_number::<u64>("ParseUint", object_meta::text(object, "resourceVersion"));
    if version.is_ok_and(|version| version != 0) {
        return Err(unknown_reason_500("resourceVersion should not be set on objects to be created"));
    }
    object_meta::remove(object, &["resourceVersion"]);
    Ok(())
}
