//! Changes of the server and the kind to the new state of an object: defaults, the generated name, and the
//! kind's preparation.

use crate::error::object_too_large;
use crate::{Conversion, Served, Target, object_meta};
use kinds::{Caller, Context, Gates, Generation, NameRule, WrittenPart};
use object::time::Time;
use object::{Map, Value};
use schema::structural::Defaulted;
use schema::{Limits, Status, Type};

/// Sets the defaults of the version that a tree is in: those that its type declares, then those of the kind.
pub(crate) fn default(served: &Served, object: &mut Value) -> Result<(), Status> {
    set_defaults(&served.ty, object)?;
    let Some(map) = object.as_map_mut() else { return Ok(()) };
    match served.stored.as_ref().map(|stored| &stored.conversion) {
        Some(Conversion::Builtin(conversion)) => (conversion.default)(map),
        _ => served.strategy.default(map),
    }
    Ok(())
}

/// Sets the defaults that a type declares. An object that they make larger than objects may be is refused.
fn set_defaults(ty: &Type, object: &mut Value) -> Result<(), Status> {
    match schema::default(ty, object) {
        Defaulted::TooLarge => Err(object_too_large(Limits::REQUEST.bytes)),
        Defaulted::Changed | Defaulted::Unchanged => Ok(()),
    }
}

/// Sets the defaults of the storage version of a built-in kind, as the reference does when it reads an
/// object. A converted object lacks them, and so may one that is merged from two states, such as a write of
/// the status. Objects of custom kinds are written without, and get defaults whenever they are read.
pub(crate) fn default_stored(target: &Target<'_>, object: &mut Value) -> Result<(), Status> {
    let stored = target.stored()?;
    if stored.ty().custom.is_some() {
        return Ok(());
    }
    let is_converted = matches!(stored.conversion, Conversion::Builtin(_));
    if is_converted || target.part().is_some() && stored.is_working_version {
        set_defaults(stored.ty(), object)?;
        if let Some(map) = object.as_map_mut() {
            target.served.strategy.default(map);
        }
    }
    Ok(())
}

/// Generates the name of an object without one.
pub(crate) fn name_object(target: &Target<'_>, object: &mut Map) {
    if !object_meta::text(object, "name").is_empty() {
        return;
    }
    let strategy = &target.served.strategy;
    let prefix = object_meta::text(object, "generateName");
    let name = match (strategy.names_itself(), strategy.name_rule()) {
        (true, _) => object::name::random_uid().to_string(),
        _ if prefix.is_empty() => return,
        (false, NameRule::IpAddress) => prefix.to_owned(),
        (false, _) => object_meta::generate_name(prefix),
    };
    object_meta::set(object, "name", name);
}

/// Step 10 for a new object.
pub(crate) fn prepare_create(target: &Target<'_>, object: &mut Map, gates: Gates) {
    let served = target.served;
    with_context(target, gates, |context| served.prepare_create(object, context));
    if matches!(served.generation, Generation::Counted | Generation::One) {
        object_meta::set(object, "generation", 1);
    }
}

/// Step 10 for an update: restores the metadata that no update may change, before and after the kind's own
/// preparation.
pub(crate) fn prepare_update(target: &Target<'_>, new: &mut Map, old: &Map, gates: Gates) {
    let served = target.served;
    keep_metadata_fields(new, old, &["generation"]);
    let part = target.part();
    with_context(target, gates, |context| served.prepare_update(part, new, old, context));
    let counted = matches!(served.generation, Generation::Counted | Generation::CountedLater);
    if counted && part != Some(WrittenPart::Status) && served.strategy.bumps_generation(new, old) {
        let generation = object_meta::number(old, "generation").unwrap_or_default();
        object_meta::set(new, "generation", generation + 1);
    }
    if object_meta::text(new, "uid").is_empty() {
        keep_metadata_fields(new, old, &["uid"]);
    }
    keep_metadata_fields(new, old, &["creationTimestamp"]);
    if object_meta::is_deleting(old) {
        keep_metadata_fields(new, old, &["deletionTimestamp"]);
    }
    if object_meta::number(new, "deletionGracePeriodSeconds").is_none() {
        keep_metadata_fields(new, old, &["deletionGracePeriodSeconds"]);
    }
}

/// Calls a hook with the time and the user of the request.
pub(crate) fn with_context<T>(target: &Target<'_>, gates: Gates, hook: impl FnOnce(&Context<'_>) -> T) -> T {
    let user = target.proof.user();
    let now = Time::now().text();
    let caller = Caller { name: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra };
    hook(&Context { now: &now, caller, gates })
}

fn keep_metadata_fields(new: &mut Map, old: &Map, keys: &[&'static str]) {
    let Some(metadata) = object_meta::metadata_mut(new) else { return };
    for key in keys {
        match object_meta::metadata(old).and_then(|old| old.get(key)) {
            Some(value) => drop(metadata.insert(*key, value.clone())),
            None => drop(metadata.remove(key)),
        }
    }
}
