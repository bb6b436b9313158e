//! Writes of objects as their kinds see them: defaults, conversion to the storage version, preparation,
//! validation.

use crate::{Caller, Context, Gates, ObjectOptions, Privileged, ResourceType, Rules, Strategy, WrittenPart};
use object::field::List;
use object::{Map, Value};
use schema::{Limits, Shape, builtin, json};

const CONTEXT: Context<'static> = Context {
    now: "2030-01-02T03:04:05Z",
    caller: Caller { name: "", uid: "", groups: &[], extra: &[] },
    gates: Gates::DEFAULT,
};

/// The errors of creating the object of a JSON text. What its metadata does not say is filled in: the name
/// `a`, the namespace `n`.
pub(crate) fn create(text: &str) -> Vec<String> {
    with(text, |served, object, rules| {
        texts(&served.strategy.validate_create(&created(served, object), rules))
    })
}

/// The errors of creating it on a server that refuses privileged containers.
pub(crate) fn create_unprivileged(text: &str) -> Vec<String> {
    with(text, |served, object, rules| {
        let options = ObjectOptions { privileged: Privileged::Refused, ..ObjectOptions::default() };
        let rules = rules.with_options(options);
        texts(&served.strategy.validate_create(&created(served, object), &rules))
    })
}

/// The object as a server with these gates creates it, or its errors.
pub(crate) fn created_with(gates: Gates, text: &str) -> Result<Map, Vec<String>> {
    with(text, |served, mut object, rules| {
        served.prepare_create(&mut object, &Context { gates, ..CONTEXT });
        let rules = rules.with_options(ObjectOptions { gates, ..ObjectOptions::default() });
        let errors = texts(&served.strategy.validate_create(&object, &rules));
        if errors.is_empty() { Ok(object) } else { Err(errors) }
    })
}

/// The errors of an update of the object itself.
pub(crate) fn update(new: &str, old: &str) -> Vec<String> {
    change(None, new, old, |strategy, new, old, rules| strategy.validate_update(new, old, rules))
}

/// The errors of an update of the status.
pub(crate) fn status(new: &str, old: &str) -> Vec<String> {
    let part = Some(WrittenPart::Status);
    change(part, new, old, |strategy, new, old, rules| strategy.validate_status(new, old, rules))
}

/// The errors of an update through another subresource.
pub(crate) fn part(part: WrittenPart, new: &str, old: &str) -> Vec<String> {
    change(Some(part), new, old, |strategy, new, old, rules| strategy.validate_part(part, new, old, rules))
}

/// The warnings for a new object, or for a change.
pub(crate) fn warnings(new: &str, old: Option<&str>) -> Vec<String> {
    with(new, |served, new, _| match old {
        None => {
            let mut warnings = served.strategy.preparation_warnings(&new);
            warnings.extend(served.strategy.warnings(&created(served, new), None));
            warnings
        }
        Some(old) => with(old, |_, old, _| served.strategy.warnings(&new, Some(&old))),
    })
}

/// The warnings for a new status.
pub(crate) fn status_warnings(new: &str) -> Vec<String> {
    with(new, |served, new, _| served.strategy.status_warnings(&new))
}

/// `old` is taken as it is stored: with its status, and without what a create prepares.
fn change(
    part: Option<WrittenPart>,
    new: &str,
    old: &str,
    validate: impl FnOnce(&dyn Strategy, &Map, &Map, &Rules<'_>) -> List,
) -> Vec<String> {
    with(new, |served, mut new, rules| {
        with(old, |_, old, _| {
            served.prepare_update(part, &mut new, &old, &CONTEXT);
            texts(&validate(&*served.strategy, &new, &old, rules))
        })
    })
}

fn created(served: &ResourceType, mut object: Map) -> Map {
    served.prepare_create(&mut object, &CONTEXT);
    object
}

fn with<T>(text: &str, to: impl FnOnce(&ResourceType, Map, &Rules<'_>) -> T) -> T {
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
    let stored = kind.storage_owner().and_then(|owner| Some((owner, owner.storage_version()?)));
    let (owner, stored) = stored.unwrap();
    let stored = builtin::by_kind(owner.group, stored.name, owner.kind).unwrap();
    to(&served, object.as_map().unwrap().clone(), &Rules::new(&served, stored))
}

fn texts(errors: &List) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
