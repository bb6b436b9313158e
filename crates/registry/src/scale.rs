//! The subresource `scale`: the desired and the current number of replicas.

use crate::commit::WriteMode;
use crate::convert::map;
use crate::error::{revision, unknown_reason_500};
use crate::preconditions::check_uid;
use crate::write::MODIFIED;
use crate::{Answer, Content, Stored, Target, object_meta};
use cache::Entry;
use kinds::{NameRule, ScalePaths, Scope};
use object::field::{Error, Path};
use object::label::{self, Expression, Selector};
use object::quote::Quoted;
use object::{Map, Text, Value};
use schema::{Ref, Status, Type, builtin};

/// The desired number in the scale of a custom object without one, while a request builds its new state: it
/// has to be distinguished from 0.
const UNSET: i64 = i32::MIN as i64;

/// The scale of a stored object.
pub(crate) async fn content(stored: &Stored, entry: &Entry, paths: &ScalePaths) -> Result<Content, Status> {
    Ok(Content::Other { ty: Ref::Static(ty()?), value: of(&stored.decode(entry).await?, paths)? })
}

/// The scale of a stored object, for a GET: 500 for a custom object without the desired number.
pub(crate) async fn read(stored: &Stored, entry: &Entry, paths: &ScalePaths) -> Result<Content, Status> {
    let object = stored.decode(entry).await?;
    let value = of(&object, paths)?;
    if is_unset(&object, paths)? {
        let path = paths.spec_replicas_path();
        let why = format!("the spec replicas field {} does not exist", Quoted(&path));
        return Err(Status::internal_error(&why));
    }
    Ok(Content::Other { ty: Ref::Static(ty()?), value })
}

/// The scale of an object that a request is about to change.
pub(crate) fn to_change(object: &Value, paths: &ScalePaths) -> Result<Value, Status> {
    let mut scale = of(object, paths)?;
    if is_unset(object, paths)?
        && let Some(spec) = scale.as_map_mut().and_then(|scale| kinds::map_at(scale, "spec"))
    {
        spec.insert("replicas", UNSET);
    }
    Ok(scale)
}

/// Whether a custom object lacks the desired number. Built-in kinds have a default.
fn is_unset(object: &Value, paths: &ScalePaths) -> Result<bool, Status> {
    let replicas = paths.spec_replicas(map(object)?).map_err(unknown_reason_500)?;
    Ok(paths.are_open && replicas.is_none())
}

/// Replaces the object in an answer by its scale.
pub(crate) async fn answer(stored: &Stored, answer: Answer, paths: &ScalePaths) -> Result<Answer, Status> {
    let content = match answer.content {
        Content::Entry(entry) => content(stored, &entry, paths).await?,
        Content::Tree(tree) => Content::Other { ty: Ref::Static(ty()?), value: of(&tree, paths)? },
        other @ Content::Other { .. } => other,
    };
    Ok(Answer { content, ..answer })
}

/// Refuses a patch that changes the uid of a scale. A PUT with another uid is refused before, by its
/// precondition.
pub(crate) fn check_patched_uid(target: &Target<'_>, scale: &Map, object: &Map) -> Result<(), Status> {
    let [wanted, there] = [scale, object].map(|map| object_meta::text(map, "uid"));
    if wanted.is_empty() || wanted == there {
        return Ok(());
    }
    let served = target.served;
    let why = format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {there}");
    Err(Status::conflict(&served.group, &format!("{}/scale", served.resource), target.name, &why))
}

/// Sets the desired number of an object from its scale.
pub(crate) fn apply(
    scale: &Map,
    object: &mut Map,
    paths: &ScalePaths,
    target: &Target<'_>,
    mode: WriteMode,
) -> Result<(), Status> {
    let wanted = number(scale);
    if paths.are_open && wanted == UNSET {
        let path = paths.spec_replicas_path();
        let why = format!("the spec replicas field {} cannot be empty", Quoted(&path));
        return Err(Status::bad_request(why));
    }
    check_uid(target, scale, Some(object), mode)?;
    let version = object_meta::text(scale, "resourceVersion");
    let there = object_meta::text(object, "resourceVersion");
    if !version.is_empty() && (revision(version).is_err() || version != there) {
        return Err(target.conflict(MODIFIED));
    }
    set(object, &paths.spec_replicas, wanted);
    Ok(())
}

/// Validates a scale. The scale of a custom kind has no rules: its object is validated.
pub(crate) fn validate(scale: &Map, paths: &ScalePaths, target: &Target<'_>) -> Result<(), Status> {
    if paths.are_open {
        return Ok(());
    }
    let mut errors = kinds::object_meta::validate(scale, Scope::Namespaced, NameRule::Subdomain);
    errors.append(kinds::object_meta::validate_finalizer_names(scale));
    let wanted = number(scale);
    if wanted < 0 {
        let path = Path::new("spec");
        let why = "must be greater than or equal to 0";
        errors.push(Error::invalid(&path.child("replicas"), wanted, why));
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid("autoscaling", "Scale", target.name, &errors)),
    }
}

fn set(map: &mut Map, path: &[Text], number: i64) {
    match path {
        [] => {}
        [last] => drop(map.insert(last.as_str(), number)),
        [first, rest @ ..] => {
            if let Some(inner) = map.get_or_insert_with(first.as_str(), || Map::new().into()).as_map_mut() {
                set(inner, rest, number);
            }
        }
    }
}

/// The desired number of a scale.
fn number(scale: &Map) -> i64 {
    let replicas = scale.get("spec").and_then(|spec| spec.get("replicas"));
    replicas.and_then(Value::as_i64).unwrap_or_default()
}

/// The scale of an object.
pub(crate) fn of(object: &Value, paths: &ScalePaths) -> Result<Value, Status> {
    let object = map(object)?;
    let mut metadata = Map::new();
    for key in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object_meta::metadata(object).and_then(|metadata| metadata.get(key)) {
            metadata.insert(key, value.clone());
        }
    }
    let replicas = paths.spec_replicas(object).map_err(unknown_reason_500)?;
    let mut spec = Map::new();
    insert_number(&mut spec, "replicas", replicas.unwrap_or_default());
    let replicas = paths.status_replicas(object).map_err(unknown_reason_500)?;
    let mut status = Map::new();
    insert_number(&mut status, "replicas", replicas.unwrap_or_default());
    let selector = match paths.selector(object).map_err(unknown_reason_500)? {
        Some(Value::Map(map)) => selector(map),
        Some(Value::String(text)) => text.to_string(),
        _ => String::new(),
    };
    if !selector.is_empty() {
        status.insert("selector", selector);
    }
    let mut scale = Map::new();
    scale.insert("kind", "Scale");
    scale.insert("apiVersion", "autoscaling/v1");
    scale.insert("metadata", metadata);
    for (key, part) in [("spec", spec), ("status", status)] {
        if !part.is_empty() {
            scale.insert(key, part);
        }
    }
    Ok(scale.into())
}

/// The type of a scale.
pub(crate) fn ty() -> Result<&'static Type, Status> {
    builtin::by_kind("autoscaling", "v1", "Scale")
        .ok_or_else(|| Status::internal_error("the type of a scale is missing"))
}

/// Inserts a number, unless it is zero: the field does not distinguish zero from absent, and a tree holds no
/// such value.
pub(crate) fn insert_number(map: &mut Map, key: &'static str, number: i64) {
    if number != 0 {
        map.insert(key, number);
    }
}

/// The text of a label selector, or of a map of labels.
fn selector(map: &Map) -> String {
    let structured = map.contains_key("matchLabels") || map.contains_key("matchExpressions");
    if !structured {
        let labels = map.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
        return Selector::from_labels(labels).to_string();
    }
    label_selector(map).map(|selector| selector.to_string()).unwrap_or_default()
}

/// The selector that a `LabelSelector` describes.
pub(crate) fn label_selector(map: &Map) -> Result<Selector, label::Error> {
    let labels = map.get("matchLabels").and_then(Value::as_map).into_iter().flat_map(Map::iter);
    let labels = labels.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    let expressions = map.get("matchExpressions").and_then(Value::as_list).unwrap_or_default();
    let expressions = expressions.iter().map(|expression| {
        let part = |key: &str| expression.get(key).and_then(Value::as_str).unwrap_or_default();
        let values = expression.get("values").and_then(Value::as_list).unwrap_or_default();
        Expression {
            key: part("key"),
            operator: part("operator"),
            values: values.iter().filter_map(Value::as_str).collect(),
        }
    });
    Selector::from_structured(labels, expressions)
}
