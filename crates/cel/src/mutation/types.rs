//! The types `Object` and `JSONPatch`.

use crate::value::{Str, Struct, Value};
use crate::{Failure, Outcome, Type, TypeProvider};
use std::sync::Arc;

/// The name of the type of a whole apply configuration. Its fields have types with longer names:
/// `Object.spec`.
pub const OBJECT: &str = "Object";

/// The name of the type of an operation of a JSON patch.
pub const JSON_PATCH: &str = "JSONPatch";

/// The type of expressions that make an apply configuration.
pub fn apply_configuration() -> Type {
    Type::object(OBJECT)
}

/// The type of expressions that make a JSON patch.
pub fn json_patch() -> Type {
    Type::list(Type::object(JSON_PATCH))
}

/// Whether a type is one of apply configurations, by its name.
pub(crate) fn is_object(name: &str) -> bool {
    name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The types of apply configurations, and `JSONPatch` with the fields `op`, `path`, `from` and `value`.
///
/// Values of both are a [`Struct`]. An operation lacks texts that are empty, which is the same as texts that
/// are not given.
#[derive(Debug)]
pub struct MutationTypes;

impl TypeProvider for MutationTypes {
    fn find(&self, name: &str) -> Option<Type> {
        (name == JSON_PATCH || is_object(name)).then(|| Type::object(name))
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        match (name, field) {
            (JSON_PATCH, "op" | "path" | "from") => Some(Type::String),
            (JSON_PATCH, "value") => Some(Type::Dyn),
            // The reference has a type without a name there.
            (JSON_PATCH, _) => Some(Type::opaque("", Vec::new())),
            _ => is_object(name).then_some(Type::Dyn),
        }
    }

    fn construct<'a>(&self, name: &str, fields: Vec<(Arc<str>, Value<'a>)>) -> Option<Outcome<'a>> {
        if name == JSON_PATCH {
            return Some(operation(fields));
        }
        is_object(name).then(|| Ok(Value::Struct(Arc::new(Struct { name: name.into(), fields }))))
    }
}

fn operation<'a>(fields: Vec<(Arc<str>, Value<'a>)>) -> Outcome<'a> {
    let mut kept = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        match &*name {
            "value" => kept.push((name, value)),
            "op" | "path" | "from" => match text(&value) {
                Some(text) if text.as_str().is_empty() => {}
                Some(text) => kept.push((name, Value::String(text))),
                None => {
                    let found = value.native_name();
                    let why = format!("unexpected type {found} for JSONPatchType '{name}' field");
                    return Err(Failure::error(why));
                }
            },
            _ => return Err(Failure::error(format!("unexpected JSONPatchType field: {name}"))),
        }
    }
    Ok(Value::Struct(Arc::new(Struct { name: JSON_PATCH.into(), fields: kept })))
}

/// The value as a text, if Go has a text of it.
fn text<'a>(value: &Value<'a>) -> Option<Str<'a>> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Type(ty) => Some(Str::from(ty.name().to_owned())),
        Value::Optional(Some(value)) => text(value),
        _ => None,
    }
}

/// An operation of a JSON patch. Texts that are not given are empty.
#[derive(Clone, Debug)]
pub struct Operation<'v, 'a> {
    /// `add`, `remove`, `replace`, `move`, `copy`, `test`.
    pub op: &'v str,
    /// The place of the operation.
    pub path: &'v str,
    /// The place that a value is moved or copied from.
    pub from: &'v str,
    /// The value.
    pub value: Option<&'v Value<'a>>,
}

impl<'v, 'a> Operation<'v, 'a> {
    /// The operation that a value is.
    pub fn of(value: &'v Value<'a>) -> Option<Self> {
        let Value::Struct(made) = value else { return None };
        if *made.name != *JSON_PATCH {
            return None;
        }
        let field =
            |name: &str| made.fields.iter().find(|(there, _)| **there == *name).map(|(_, value)| value);
        let text = |name: &str| match field(name) {
            Some(Value::String(text)) => text.as_str(),
            _ => "",
        };
        Some(Self { op: text("op"), path: text("path"), from: text("from"), value: field("value") })
    }
}
