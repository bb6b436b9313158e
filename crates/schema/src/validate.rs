//! Validation: the constraints that the type files declare.
//!
//! The rules of a field run in the order of the type file; a missing required field gets only that error.
//! Rules that involve several fields are in `kinds`, in the `validate_` hooks of strategies.

use crate::model::{Field, Format, Rule, Shape, Topology, Type, Union};
use object::excerpt::excerpt;
use object::field::{BadValue, Error, List, Path};
use object::quote::Quoted;
use object::{Map, Text, Value, name};
use std::collections::HashMap;
use std::fmt;

/// Checks `new`, an object or a part of one at `path`; immutable fields are compared with `old`.
pub fn validate(ty: &Type, new: &Map, old: Option<&Map>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    check_struct(ty, new, old, path, &mut errors);
    errors
}

static EMPTY: Map = Map::new();

fn check_struct(ty: &Type, new: &Map, old: Option<&Map>, path: &Path<'_>, errors: &mut List) {
    if !ty.has_rules {
        return;
    }
    // Most fields have no rule: skip the lookup of their values.
    let concerned = |field: &&Field| !field.options.rules.is_empty() || reaches_rules(&field.shape);
    for field in ty.fields.iter().filter(concerned) {
        let path = path.child(&field.name);
        let value = new.get(&field.name).filter(|value| !field.drops(value));
        let before = old.and_then(|old| old.get(&field.name)).filter(|value| !field.drops(value));
        let missing = field.options.rules.contains(&Rule::Required)
            && value.is_none_or(|value| field.shape.is_empty_value(value));
        if missing {
            errors.push(Error::required(&path, ""));
            continue;
        }
        for rule in field.options.rules.iter() {
            if *rule == Rule::Immutable {
                if old.is_some() && value != before {
                    errors.push(Error::invalid(
                        &path,
                        value.map_or(BadValue::Null, bad_value),
                        "field is immutable",
                    ));
                }
            } else if let Some(value) = value {
                check_rule(rule, field, value, &path, errors);
            }
        }
        match (value, &field.shape) {
            (Some(value), shape) => descend(shape, &field.options.topology, value, before, &path, errors),
            (None, Shape::Struct(ty)) if !field.optional => {
                check_struct(ty, &EMPTY, before.and_then(Value::as_map), &path, errors);
            }
            _ => {}
        }
    }
    if let Some(union) = ty.union.as_ref().filter(|union| union.checked) {
        check_union(union, new, path, errors);
    }
}

/// The member that the discriminator names must be set, all other members must be absent.
fn check_union(union: &Union, new: &Map, path: &Path<'_>, errors: &mut List) {
    let chosen = new.get(&union.discriminator).and_then(Value::as_str).unwrap_or_default();
    for member in union.members.iter() {
        let (discriminator, value) = (&union.discriminator, Quoted(&member.value));
        match (new.contains_key(&member.field), member.value == chosen) {
            (false, true) => errors.push(Error::required(
                &path.child(&member.field),
                format!("must be specified when {discriminator} is {value}"),
            )),
            (true, false) => errors.push(Error::forbidden(
                &path.child(&member.field),
                format!("may only be specified when {discriminator} is {value}"),
            )),
            _ => {}
        }
    }
}

fn descend(
    shape: &Shape,
    topology: &Topology,
    new: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut List,
) {
    match (shape, new) {
        (Shape::Struct(ty), Value::Map(map)) => {
            check_struct(ty, map, old.and_then(Value::as_map), path, errors)
        }
        (Shape::List(inner), Value::List(list)) if reaches_rules(inner) => {
            let before = Elements::of(topology, old);
            for (at, element) in list.iter().enumerate() {
                let before = before.as_ref().and_then(|before| before.counterpart(element));
                descend(inner, &Topology::Natural, element, before, &path.index(at), errors);
            }
        }
        (Shape::Map(inner), Value::Map(map)) if reaches_rules(inner) => {
            let before = old.and_then(Value::as_map).map(Map::index).unwrap_or_default();
            for (key, element) in map.iter() {
                let before = before.get(key.as_str()).copied();
                descend(inner, &Topology::Natural, element, before, &path.key(key), errors);
            }
        }
        _ => {}
    }
}

fn reaches_rules(shape: &Shape) -> bool {
    match shape {
        Shape::Struct(ty) => ty.has_rules,
        Shape::List(inner) | Shape::Map(inner) => reaches_rules(inner),
        _ => false,
    }
}

/// The elements of an old list with key fields: looked up by scanning it, or in an index where it is large.
enum Elements<'o> {
    Scan(&'o [Text], &'o [Value]),
    Index(&'o [Text], HashMap<String, &'o Value>),
}

impl<'o> Elements<'o> {
    /// Lists up to this length are scanned.
    const SCANNED: usize = 16;

    /// `None` for a list without key fields.
    fn of(topology: &'o Topology, old: Option<&'o Value>) -> Option<Self> {
        let Topology::Keyed(keys) = topology else { return None };
        let list = old?.as_list()?;
        if list.len() <= Self::SCANNED {
            return Some(Self::Scan(keys, list));
        }
        let mut index = HashMap::with_capacity(list.len());
        for element in list {
            index.entry(key_text(keys, element)).or_insert(element);
        }
        Some(Self::Index(keys, index))
    }

    /// The first element with the same values of the key fields.
    fn counterpart(&self, element: &Value) -> Option<&'o Value> {
        match self {
            Self::Scan(keys, list) => {
                let is_same = |before: &&Value| keys.iter().all(|key| before.get(key) == element.get(key));
                list.iter().find(is_same)
            }
            Self::Index(keys, index) => index.get(&key_text(keys, element)).copied(),
        }
    }
}

/// The values of the key fields, as one text.
fn key_text(keys: &[Text], element: &Value) -> String {
    let mut out = Vec::new();
    for key in keys {
        match element.get(key) {
            Some(value) => crate::json::encode_shape(&Shape::Any, value, &mut out),
            None => out.push(b'-'),
        }
        out.push(b'\n');
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn check_rule(rule: &Rule, field: &Field, value: &Value, path: &Path<'_>, errors: &mut List) {
    let number = value.as_i64();
    let out_of = |wrong: bool, detail: String| wrong.then(|| Error::invalid(path, bad_value(value), detail));
    match rule {
        Rule::Required | Rule::Immutable => {}
        Rule::Listed => {
            let values = || field.options.values.iter().map(|value| value.as_str());
            errors.extend(
                value
                    .as_str()
                    .filter(|text| !values().any(|value| value == *text))
                    .map(|text| Error::not_supported(path, text, values())),
            );
        }
        Rule::Min(least) => {
            let wrong = number.is_some_and(|number| number < *least);
            errors.extend(out_of(wrong, format!("must be greater than or equal to {least}")));
        }
        Rule::Max(most) => {
            let wrong = number.is_some_and(|number| number > *most);
            errors.extend(out_of(wrong, format!("must be less than or equal to {most}")));
        }
        Rule::Between(least, most) => {
            let wrong = number.is_some_and(|number| number < *least || number > *most);
            errors.extend(out_of(wrong, name::range_message(*least, *most)));
        }
        Rule::MaxLength(most) => {
            if value.as_str().is_some_and(|text| text.len() > *most) {
                errors.push(Error::too_long(path, Some(*most)));
            }
        }
        Rule::MaxItems(most) => {
            if count(value) > *most {
                errors.push(Error::too_many(path, Some(count(value)), Some(*most)));
            }
        }
        Rule::MinItems(least) => {
            if count(value) < *least {
                errors.push(Error::invalid(path, count(value), format!("must have at least {least} items")));
            }
        }
        Rule::Format(format) => {
            if let Some(text) = value.as_str() {
                errors.append(check_format(*format, text, path));
            }
        }
        Rule::Unique(key) => check_unique(key.as_deref(), value, path, errors),
    }
}

fn count(value: &Value) -> usize {
    match value {
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => 0,
    }
}

fn check_format(format: Format, text: &str, path: &Path<'_>) -> List {
    let messages = match format {
        Format::Dns1123Label => name::dns1123_label(text),
        Format::Dns1123Subdomain => name::dns1123_subdomain(text),
        Format::Dns1035Label => name::dns1035_label(text),
        Format::QualifiedName => name::qualified_name(text),
        Format::LabelValue => name::label_value(text),
        Format::PathSegment => name::name_is_path_segment(text, name::Mode::Name),
        Format::ConfigMapKey => name::config_map_key(text),
        Format::EnvVarName => name::env_var_name(text),
        Format::PortName => name::port_name(text),
        Format::Ip => return name::address::ip(path, text),
    };
    name::invalid(path, text, messages)
}

fn check_unique(key: Option<&str>, value: &Value, path: &Path<'_>, errors: &mut List) {
    let mut seen = std::collections::HashSet::new();
    for (at, element) in value.as_list().unwrap_or_default().iter().enumerate() {
        let place = path.index(at);
        let identity = match key {
            Some(key) => match element.get(key) {
                Some(value) => value,
                None => continue,
            },
            None => element,
        };
        if !seen.insert(json_text(identity)) {
            let error = match key {
                Some(key) => Error::duplicate(&place.child(key), bad_value(identity)),
                None => Error::duplicate(&place, bad_value(identity)),
            };
            errors.push(error);
        }
    }
}

/// A value as an error shows it: a list or a map as JSON.
pub fn bad_value(value: &Value) -> BadValue {
    match value {
        Value::Null => BadValue::Null,
        Value::Bool(flag) => BadValue::Bool(*flag),
        Value::Int(number) => BadValue::Int(*number),
        Value::Float(number) => BadValue::Float(*number),
        Value::String(text) => BadValue::String(text.to_string()),
        _ => BadValue::Raw(json_text(value)),
    }
}

/// A value of a custom resource as an error shows it: a list or a map in Go's syntax.
pub fn go_value(value: &Value) -> BadValue {
    match value {
        Value::List(_) | Value::Map(_) => {
            let shown = excerpt(&GoSyntax(value));
            BadValue::Raw(shown)
        }
        scalar => bad_value(scalar),
    }
}

struct GoSyntax<'v>(&'v Value);

impl fmt::Display for GoSyntax<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::Null => f.write_str("interface {}(nil)"),
            Value::List(items) => {
                f.write_str("[]interface {}{")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { ", " } else { "" }, GoSyntax(item))?;
                }
                f.write_str("}")
            }
            Value::Map(map) => {
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                f.write_str("map[string]interface {}{")?;
                for (at, (key, value)) in entries.into_iter().enumerate() {
                    let separator = if at > 0 { ", " } else { "" };
                    write!(f, "{separator}{}:{}", Quoted(key), GoSyntax(value))?;
                }
                f.write_str("}")
            }
            scalar => write!(f, "{}", bad_value(scalar)),
        }
    }
}

pub(crate) fn json_text(value: &Value) -> String {
    let mut out = Vec::new();
    crate::json::encode_shape(&Shape::Any, value, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests;
