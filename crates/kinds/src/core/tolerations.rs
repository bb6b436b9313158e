//! Tolerations.

use crate::checks;
use object::field::{Error, List, Path};
use object::name::{invalid, label_key, label_value};
use schema::view::{Item, Items, View};
use schema::views::core::v1::Toleration;
use schema::{Limits, Ref, Shape, json};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The field errors of tolerations.
pub(crate) fn validate(tolerations: Items<'_, Toleration<'_>>, path: &Path<'_>) -> List {
    tolerations.iter().enumerate().map(|(at, of)| toleration(of, &path.index(at))).collect()
}

fn toleration(toleration: Toleration<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (operator, effect) = (path.child("operator"), path.child("effect"));
    if !toleration.key().is_empty() {
        errors.append(invalid(&path.child("key"), toleration.key(), label_key(toleration.key())));
    } else if toleration.operator() != "Exists" {
        let why =
            r#"operator must be Exists when `key` is empty, which means "match all values and all keys""#;
        errors.push(Error::invalid(&operator, toleration.operator(), why));
    }
    if toleration.toleration_seconds().is_some() && toleration.effect() != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(Error::invalid(&effect, toleration.effect(), why));
    }
    match toleration.operator() {
        "Equal" | "" => {
            let messages = label_value(toleration.value());
            if !messages.is_empty() {
                errors.push(Error::invalid(&operator, toleration.value(), messages.join(";")));
            }
        }
        "Exists" if toleration.value().is_empty() => {}
        "Exists" => {
            let why = "value must be empty when `operator` is 'Exists'";
            errors.push(Error::invalid(&operator, toleration.value(), why));
        }
        other => errors.push(Error::not_supported(&operator, other, ["Equal", "Exists"])),
    }
    if !toleration.effect().is_empty() {
        errors.extend(checks::one_of(toleration.effect(), EFFECTS, &effect));
    }
    errors
}

/// The error of a change that loses or changes a toleration; only `tolerationSeconds` may change.
pub(in crate::core) fn only_added(
    new: Items<'_, Toleration<'_>>,
    old: Items<'_, Toleration<'_>>,
    path: &Path<'_>,
) -> List {
    fn identity<'a>(toleration: Toleration<'a>) -> [&'a str; 4] {
        [toleration.key(), toleration.operator(), toleration.value(), toleration.effect()]
    }
    let there: HashSet<_> = new.iter().map(identity).collect();
    if !old.iter().all(|toleration| there.contains(&identity(toleration))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        return Error::forbidden(path, why).into();
    }
    validate(new, path)
}

/// The field errors of tolerations that an annotation carries as JSON; the error of a text that is no list of
/// tolerations.
pub(in crate::core) fn parsed(text: &str, path: &Path<'_>) -> Result<List, String> {
    static TOLERATION: LazyLock<Shape> =
        LazyLock::new(|| Shape::List(Ref::Shared(Arc::new(Shape::Struct(Toleration::schema().into())))));
    let decoded = json::decode_shape(&TOLERATION, text.as_bytes(), &Limits::REQUEST);
    let decoded = decoded.map_err(|error| error.to_string())?;
    Ok(Items::read(&decoded.value).map(|tolerations| validate(tolerations, path)).unwrap_or_default())
}
