//! Validation: the rules for the metadata of any object, and those of its kind.

use crate::convert::map;
use crate::{Target, WriteOptions};
use kinds::{NameRule, ObjectOptions, Rules, WrittenPart, object_meta};
use object::field;
use object::{Map, Value};
use schema::Status;

/// The rules for a new object: first those of the kind, then those for any metadata. The warnings for
/// a valid object go to the client.
pub(crate) fn create(
    target: &Target<'_>,
    object: &Value,
    objects: ObjectOptions,
    options: &WriteOptions,
) -> Result<(), Status> {
    let served = target.served;
    let map = map(object)?;
    let warn = |warning| options.warnings.extend([warning]);
    let rules = Rules::new(served, target.stored()?.ty())
        .with_options(objects)
        .with_warnings(&warn)
        .with_blocking(|work| tasks::off_worker(work));
    let mut errors = served.strategy.validate_create(map, &rules);
    if errors.is_empty() {
        errors = object_meta::validate(map, served.scope, NameRule::PathSegment);
    }
    refuse(target, map, object_meta::text(map, "name"), &errors)?;
    options.warnings.extend(served.strategy.warnings(map, None));
    Ok(())
}

/// The rules for a change: first those for any metadata, then those of the kind. The warnings for a valid
/// object go to the client.
pub(crate) fn update(
    target: &Target<'_>,
    object: &Value,
    before: &Value,
    objects: ObjectOptions,
    options: &WriteOptions,
) -> Result<(), Status> {
    let served = target.served;
    let strategy = &served.strategy;
    let (new, old) = (map(object)?, map(before)?);
    let mut errors = object_meta::validate(new, served.scope, NameRule::PathSegment);
    errors.append(object_meta::validate_update(new, old));
    let warn = |warning| options.warnings.extend([warning]);
    let rules = Rules::new(served, target.stored()?.ty())
        .with_options(objects)
        .with_warnings(&warn)
        .with_blocking(|work| tasks::off_worker(work));
    errors.append(match target.part() {
        None => strategy.validate_update(new, old, &rules),
        Some(WrittenPart::Status) => strategy.validate_status(new, old, &rules),
        Some(part) => strategy.validate_part(part, new, old, &rules),
    });
    refuse(target, new, target.name, &errors)?;
    match target.part() {
        None => options.warnings.extend(strategy.warnings(new, Some(old))),
        Some(WrittenPart::Status) => options.warnings.extend(strategy.status_warnings(new)),
        Some(_) => {}
    }
    Ok(())
}

/// The refusal of an object with errors.
pub(crate) fn refuse(
    target: &Target<'_>,
    object: &Map,
    name: &str,
    errors: &field::List,
) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    // The error names the stored kind: events of either group are events of the core group.
    let stored = target.stored()?.ty().kind.as_ref();
    let (group, kind) =
        stored.map_or((&target.served.group, &target.served.kind), |of| (&of.group, &of.kind));
    // The error for a custom object names the `kind` in the object, even a wrong one.
    let own = object.get("kind").and_then(Value::as_str).filter(|_| target.served.is_custom());
    Err(Status::invalid(group, own.unwrap_or(kind), name, errors))
}
