//! Validation: the rules for the metadata of any object, the constraints that the schema declares, and the kind's own rules.

use crate::convert::map;
use crate::{Target, object_meta};
use kinds::{MetadataRules, NameRule, Part};
use object::Value;
use object::field;
use schema::Status;

/// The rules for a new object: first those of the kind, then those for any metadata.
pub(crate) fn create(target: &Target<'_>, object: &Value) -> Result<(), Status> {
    let served = target.served;
    let map = map(object)?;
    let mut errors = object_meta::validate(map, served, served.strategy.name_rule());
    if served.metadata_rules == MetadataRules::Core {
        errors.append(object_meta::validate_finalizer_names(map));
    }
    errors.append(schema::validate(target.stored()?.ty(), object, None));
    errors.append(served.strategy.validate_create(map));
    if errors.is_empty() {
        errors = object_meta::validate(map, served, NameRule::PathSegment);
    }
    refuse(target, object_meta::text(map, "name"), &errors)
}

/// The rules for a change: first those for any metadata, then those of the kind.
pub(crate) fn update(target: &Target<'_>, object: &Value, before: &Value) -> Result<(), Status> {
    let served = target.served;
    let (new, old) = (map(object)?, map(before)?);
    let mut errors = object_meta::validate(new, served, NameRule::PathSegment);
    let metadata = object_meta::validate_update(new, old);
    errors.append(metadata.clone());
    // The kinds of the reference check it once more, most of them with all rules for metadata.
    errors.append(metadata);
    if served.metadata_rules == MetadataRules::Core {
        errors.append(object_meta::validate_finalizer_names(new));
        errors.append(object_meta::validate(new, served, served.strategy.name_rule()));
        errors.append(object_meta::validate_finalizer_names(new));
    }
    errors.append(schema::validate(target.stored()?.ty(), object, Some(before)));
    errors.append(match target.part() {
        None => served.strategy.validate_update(new, old),
        Some(Part::Status) => served.strategy.validate_status(new, old),
        Some(part) => served.strategy.validate_part(part, new, old),
    });
    refuse(target, target.name, &errors)
}

fn refuse(target: &Target<'_>, name: &str, errors: &field::List) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&target.served.group, &target.served.kind, name, errors))
}
