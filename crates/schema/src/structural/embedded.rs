//! Embedded objects: the rules for `kind`, `apiVersion` and `metadata` of a value with
//! `x-kubernetes-embedded-resource`.

use super::{Node, Structural};
use crate::decode::{Error, Limits, Strict};
use crate::json;
use crate::model::Shape;
use crate::validate::go_value;
use crate::view::View;
use crate::views::meta::v1::ObjectMeta;
use object::field::{self, Path};
use object::{Map, Value, excerpt, name};

/// Validates the metadata of an object with a name; returns errors whose paths begin with `metadata`.
type MetadataRules<'r> = &'r dyn Fn(&Map) -> field::List;

/// Whether a value is an embedded object. The value at the root of a schema is always an object, though the
/// schema does not say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outermost {
    /// The value is an object.
    Object,
    /// The value is an object if `x-kubernetes-embedded-resource` is set.
    BySchema,
}

impl Structural {
    /// Validates `kind`, `apiVersion` and `metadata` of embedded objects. The function `metadata` validates
    /// the metadata of an object: as that of a namespaced object if it has a namespace; the name may be any
    /// path segment.
    pub fn validate_embedded(&self, object: &Map, metadata: impl Fn(&Map) -> field::List) -> field::List {
        let mut errors = field::List::new();
        check_map(object, &self.root, &Path::UNSET, &metadata, &mut errors);
        errors
    }
}

impl Node {
    /// Validates the embedded objects of a value under a part of a schema, and the value itself if it is an
    /// object.
    pub fn validate_embedded(
        &self,
        value: &Value,
        outermost: Outermost,
        path: &Path<'_>,
        metadata: impl Fn(&Map) -> field::List,
    ) -> field::List {
        let mut errors = field::List::new();
        if let (Value::Map(map), Outermost::Object, false) = (value, outermost, self.embedded_resource) {
            check_embedded(map, path, &metadata, &mut errors);
        }
        check(value, self, path, &metadata, &mut errors);
        errors
    }

    /// The first of these fields that does not have its type.
    pub fn malformed_embedded(
        &self,
        value: &Value,
        outermost: Outermost,
        path: &Path<'_>,
    ) -> Option<field::Error> {
        let is_object = self.embedded_resource || outermost == Outermost::Object;
        match value {
            Value::Map(map) => {
                let own = || {
                    ["apiVersion", "kind", "metadata"].into_iter().find_map(|key| malformed(map, key, path))
                };
                is_object.then(own).flatten().or_else(|| {
                    map.iter().find_map(|(key, value)| match (self.property(key), self.additional.node()) {
                        (Some(node), _) => node.malformed_within(value, &path.child(key)),
                        (None, Some(node)) => node.malformed_within(value, &path.key(key)),
                        (None, None) => None,
                    })
                })
            }
            Value::List(items) => {
                let node = self.items.as_ref()?;
                items.iter().enumerate().find_map(|(at, item)| node.malformed_within(item, &path.index(at)))
            }
            _ => None,
        }
    }

    fn malformed_within(&self, value: &Value, path: &Path<'_>) -> Option<field::Error> {
        self.has_embedded_resources
            .then(|| self.malformed_embedded(value, Outermost::BySchema, path))
            .flatten()
    }
}

/// The error of `kind`, `apiVersion` or `metadata` with a wrong type.
fn malformed(map: &Map, key: &'static str, path: &Path<'_>) -> Option<field::Error> {
    let value = map.get(key)?;
    let why = match key {
        "metadata" => metadata(value).malformed?,
        _ if value.as_str().is_some() => return None,
        _ => "must be a string".to_owned(),
    };
    Some(field::Error::invalid(&path.child(key), go_value(value), why))
}

fn check(value: &Value, node: &Node, path: &Path<'_>, rules: MetadataRules<'_>, errors: &mut field::List) {
    if !node.has_embedded_resources {
        return;
    }
    match value {
        Value::Map(map) => check_map(map, node, path, rules, errors),
        Value::List(items) => {
            let Some(node) = &node.items else { return };
            for (at, item) in items.iter().enumerate() {
                check(item, node, &path.index(at), rules, errors);
            }
        }
        _ => {}
    }
}

fn check_map(map: &Map, node: &Node, path: &Path<'_>, rules: MetadataRules<'_>, errors: &mut field::List) {
    if !node.has_embedded_resources {
        return;
    }
    if node.embedded_resource {
        check_embedded(map, path, rules, errors);
    }
    for (key, value) in map.iter() {
        match (node.property(key), node.additional.node()) {
            (Some(node), _) => check(value, node, &path.child(key), rules, errors),
            (None, Some(node)) => check(value, node, &path.key(key), rules, errors),
            (None, None) => {}
        }
    }
}

fn check_embedded(map: &Map, path: &Path<'_>, rules: MetadataRules<'_>, errors: &mut field::List) {
    for key in ["apiVersion", "kind"] {
        if !map.contains_key(key) {
            errors.push_with(|| field::Error::required(&path.child(key), "must not be empty"));
        }
    }
    for key in ["apiVersion", "kind"] {
        let path = path.child(key);
        let Some(value) = map.get(key) else { continue };
        let why = match (value, key) {
            (Value::String(text), _) if text.is_empty() => "must not be empty".to_owned(),
            (Value::String(text), "apiVersion") if text.matches('/').count() > 1 => {
                format!("unexpected GroupVersion string: {}", excerpt::shorten(text.as_str()))
            }
            (Value::String(text), "kind") => match name::dns1035_label(&text.to_lowercase()) {
                messages if messages.is_empty() => continue,
                messages => {
                    format!("may have mixed case, but should otherwise match: {}", messages.join(","))
                }
            },
            (Value::String(_), _) => continue,
            _ => "must be a string".to_owned(),
        };
        errors.push_with(|| field::Error::invalid(&path, go_value(value), why));
    }
    if let Some(value) = map.get("metadata") {
        check_metadata(value, &path.child("metadata"), rules, errors);
    }
}

fn check_metadata(value: &Value, path: &Path<'_>, rules: MetadataRules<'_>, errors: &mut field::List) {
    let mut object = match metadata(value) {
        Metadata { malformed: Some(why), .. } => {
            errors.push_with(|| field::Error::invalid(path, go_value(value), why));
            return;
        }
        Metadata { value, .. } => value.unwrap_or_default(),
    };
    if let Some(metadata) = object.as_map_mut()
        && !metadata.contains_key("name")
    {
        // The rules require a name, which an embedded object does not need.
        metadata.insert("name", "embedded");
    }
    for mut error in rules(&Map::from_iter([("metadata", object)])).into_vec() {
        if let Some(within) = error.path.strip_prefix("metadata") {
            error.path = excerpt::excerpt(&format_args!("{path}{within}"));
        }
        errors.push(error);
    }
}

/// Whether a field is one of those that every object has.
pub fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// `kind`, `apiVersion` or `metadata` of an object, or a place within it.
#[derive(Clone, Copy)]
pub(super) enum Meta<'m> {
    /// `kind` or `apiVersion`.
    Name,
    /// `metadata`.
    Metadata,
    /// The value of a key.
    Field(&'m Meta<'m>, &'m str),
    /// An item of a list.
    Item(&'m Meta<'m>),
}

impl Meta<'_> {
    /// The place of a field of an object, if it is one of these.
    pub(super) fn of(key: &str) -> Option<Self> {
        match key {
            "metadata" => Some(Self::Metadata),
            key if is_meta(key) => Some(Self::Name),
            _ => None,
        }
    }

    /// What is read of a value at this place, without unknown and malformed fields; `None` if nothing is.
    pub(super) fn readable(&self, value: Value) -> Option<Value> {
        match self {
            Self::Name => value.as_str().is_some().then_some(value),
            Self::Metadata => metadata(&value).value,
            Self::Field(parent, key) => {
                parent.readable(Map::from_iter([(*key, value)]).into())?.get(key).cloned()
            }
            Self::Item(parent) => parent.readable(vec![value].into())?.as_list()?.first().cloned(),
        }
    }
}

/// What the type of metadata reads of a value, without unknown and malformed fields; `None` for a value that
/// is not an object.
pub fn readable_metadata(value: &Value) -> Option<Value> {
    metadata(value).value
}

/// The metadata of an embedded object, as its type reads it.
pub(super) struct Metadata {
    /// The metadata without unknown and malformed fields; `None` for a value that is not an object.
    pub(super) value: Option<Value>,
    /// The unknown fields.
    pub(super) unknown: Vec<String>,
    /// What is malformed.
    pub(super) malformed: Option<String>,
}

/// Reads the metadata of an embedded object: as a whole, or if that fails, field by field.
pub(super) fn metadata(value: &Value) -> Metadata {
    let error = match read(value) {
        Ok(metadata) => return metadata,
        Err(error) => error.to_string(),
    };
    let Value::Map(map) = value else {
        return Metadata { value: None, unknown: Vec::new(), malformed: Some(error) };
    };
    let (mut fields, mut unknown) = (Vec::with_capacity(map.len()), Vec::new());
    for (key, value) in map.iter() {
        let field = Map::from_distinct([(key.clone(), value.clone())]).into();
        let Ok(metadata) = read(&field) else { continue };
        unknown.extend(metadata.unknown);
        if let Some(Value::Map(field)) = metadata.value {
            fields.extend(field);
        }
    }
    Metadata { value: Some(Map::from_distinct(fields).into()), unknown, malformed: Some(error) }
}

fn read(value: &Value) -> Result<Metadata, Error> {
    let mut text = Vec::new();
    json::encode_shape(&Shape::Any, value, &mut text);
    let decoded = json::decode(ObjectMeta::schema(), &text, &Limits::STORED)?;
    let unknown = decoded.strict.into_iter().filter_map(|strict| match strict {
        Strict::Unknown(path) => Some(path),
        Strict::Duplicate(_) | Strict::Yaml(_) => None,
    });
    text.clear();
    json::encode(ObjectMeta::schema(), &decoded.value, &mut text);
    let mut plain = json::decode_shape(&Shape::Any, &text, &Limits::STORED)?.value;
    // The type writes some fields also where they are absent.
    plain.as_map_mut().into_iter().for_each(|map| map.retain(|_, value| !value.is_null()));
    Ok(Metadata { value: Some(plain), unknown: unknown.collect(), malformed: None })
}
