//! Writes of objects as their kinds see them: defaults, conversion to the storage version, preparation,
//! validation.

use crate::{Caller, Context, Privileged, ResourceType, Rules, Strategy, WrittenPart};
use object::field::List;
use object::{Map, Value};
use schema::{Limits, Shape, builtin, json};

const CONTEXT: Context<'static> =
    Context { now: "2030-01-02T03:04:05Z", caller: Caller { name: "", uid: "", groups: &[], extra: &[] } };

/// The errors of creating the object of a JSON text. What its metadata does not say is filled in: the name
/// `a`, the namespace `n`.
pub(crate) fn create(text: &str) -> Vec<String> {
    with(text, |strategy, object, rules| texts(&strategy.validate_create(&created(strategy, object), rules)))
}

/// The errors of creating it on a server that refuses privileged containers.
pub(crate) fn create_unprivileged(text: &str) -> Vec<String> {
    with(text, |strategy, object, rules| {
        let rules = rules.with_privileged(Privileged::Refused);
        texts(&strategy.validate_create(&created(strategy, object), &rules))
    })
}

/// The errors of an update of the object itself.
pub(crate) fn update(new: &str, old: &str) -> Vec<String> {
    change(new, old, |strategy, new, old, rules| {
        strategy.prepare_update(new, old, &CONTEXT);
        strategy.validate_update(new, old, rules)
    })
}

/// The errors of an update of the status.
pub(crate) fn status(new: &str, old: &str) -> Vec<String> {
    change(new, old, |strategy, new, old, rules| {
        strategy.prepare_status(new, old, &CONTEXT);
        strategy.validate_status(new, old, rules)
    })
}

/// The errors of an update through another subresource.
pub(crate) fn part(part: WrittenPart, new: &str, old: &str) -> Vec<String> {
    change(new, old, |strategy, new, old, rules| {
        strategy.prepare_part(part, new, old, &CONTEXT);
        strategy.validate_part(part, new, old, rules)
    })
}

/// The warnings for a new object, or for a change.
pub(crate) fn warnings(new: &str, old: Option<&str>) -> Vec<String> {
    with(new, |strategy, new, _| match old {
        None => {
            let mut warnings = strategy.preparation_warnings(&new);
            warnings.extend(strategy.warnings(&created(strategy, new), None));
            warnings
        }
        Some(old) => with(old, |_, old, _| strategy.warnings(&new, Some(&old))),
    })
}

/// The warnings for a new status.
pub(crate) fn status_warnings(new: &str) -> Vec<String> {
    with(new, |strategy, new, _| strategy.status_warnings(&new))
}

/// `old` is taken as it is stored: with its status, and without what a create prepares.
fn change(
    new: &str,
    old: &str,
    to: impl FnOnce(&dyn Strategy, &mut Map, &Map, &Rules<'_>) -> List,
) -> Vec<String> {
    with(new, |strategy, mut new, rules| with(old, |_, old, _| texts(&to(strategy, &mut new, &old, rules))))
}

fn created(strategy: &dyn Strategy, mut object: Map) -> Map {
    strategy.prepare_create(&mut object, &CONTEXT);
    object
}

fn with<T>(text: &str, to: impl FnOnce(&dyn Strategy, Map, &Rules<'_>) -> T) -> T {
    let head = json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST).unwrap().value;
    let word = |key: &str| head.get(key).and_then(Value::as_str).unwrap().to_owned();
    let (api_version, name) = (word("apiVersion"), word("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = crate::all().find(|kind| kind.group == group && kind.kind == name).unwrap();
    let version = kind.version(version).unwrap();
    let served = ResourceType::builtin(kind, version).unwrap();
    let mut object = json::decode(&served.ty, text.as_bytes(), &Limits::REQUEST).unwrap().value;
    schema::default(&served.ty, &mut object);
    match version.conversion {
        None => kind.strategy.default(object.as_map_mut().unwrap()),
        Some(conversion) => {
            (conversion.default)(object.as_map_mut().unwrap());
            (conversion.to_stored)(&mut object);
        }
    }
    let metadata = crate::map_at(object.as_map_mut().unwrap(), "metadata").unwrap();
    let mut fill = |key: &'static str, value: &'static str| crate::defaults::fill(metadata, key, value);
    fill("name", "a");
    fill("resourceVersion", "1");
    fill("uid", "u");
    if kind.is_namespaced() {
        fill("namespace", "n");
    }
    let stored = kind.storage_owner().and_then(|owner| Some((owner, owner.stored_version()?)));
    let (owner, stored) = stored.unwrap();
    let stored = builtin::by_kind(owner.group, stored.name, owner.kind).unwrap();
    to(kind.strategy, object.as_map().unwrap().clone(), &Rules::new(&served, stored))
}

fn texts(errors: &List) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
