//! From a definition's schema to its compiled form.

use super::default::{Room, completed};
use super::embedded::Meta;
use super::intern::{Interned, key, schema};
use super::prune::pruned;
use super::{
    Additional, Bound, Constant, Expression, ListType, Nested, Node, NodeType, Number, Rules, Structural,
};
use crate::decode::Limits;
use crate::json;
use crate::model::Shape;
use crate::view::View;
use crate::views::apiextensions::v1::JSONSchemaProps;
use object::{RawJson, Text, Value};
use std::sync::Arc;

/// Why a schema cannot be compiled. A definition that passed its own rules can.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// An unknown type.
    #[error("unknown type {0:?}")]
    Type(String),
    /// An unknown list type.
    #[error("unknown list type {0:?}")]
    ListType(String),
    /// A constant that is not JSON.
    #[error("{0}")]
    Constant(String),
    /// A default that other defaults make too large.
    #[error("a default has too many values")]
    Default,
    /// Schemas nest too deep.
    #[error("the schema nests too deep")]
    Depth,
}

/// How deep schemas may nest.
const DEPTH: usize = 256;
/// The most bytes that the defaults of a schema may add to each other, all together.
const MOST_ADDED: usize = 16 << 20;

impl Structural {
    /// Compiles the schema of one version of a definition.
    pub fn compile(source: JSONSchemaProps<'_>) -> Result<Arc<Self>, CompileError> {
        Ok(schema(node(source, Place::Object, DEPTH, &mut Room::of(MOST_ADDED))?))
    }
}

impl Node {
    /// Compiles a part of a schema, in the same form.
    pub fn compile(source: JSONSchemaProps<'_>) -> Result<Interned<Self>, CompileError> {
        node(source, Place::Value, DEPTH, &mut Room::of(MOST_ADDED))
    }
}

/// The place of a value in its object.
#[derive(Clone, Copy)]
enum Place<'p> {
    /// The value is an object with metadata, whatever its schema says.
    Object,
    /// The value is outside of `kind`, `apiVersion` and `metadata` of an object.
    Value,
    /// The value is one of these fields, or within one of them.
    Meta(Meta<'p>),
}

fn node(
    source: JSONSchemaProps<'_>,
    place: Place<'_>,
    depth: usize,
    room: &mut Room,
) -> Result<Interned<Node>, CompileError> {
    let depth = depth.checked_sub(1).ok_or(CompileError::Depth)?;
    let is_object = matches!(place, Place::Object) || source.x_kubernetes_embedded_resource();
    let field = |name| match (&place, Meta::of(name).filter(|_| is_object)) {
        (_, Some(meta)) => Place::Meta(meta),
        (Place::Meta(meta), None) => Place::Meta(Meta::Field(meta, name)),
        (_, None) => Place::Value,
    };
    let item = match &place {
        Place::Meta(meta) => Place::Meta(Meta::Item(meta)),
        _ => Place::Value,
    };
    let mut properties = Vec::with_capacity(source.properties().len());
    for (name, property) in source.properties().iter() {
        properties.push((key(name), node(property, field(name), depth, room)?));
    }
    properties.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
    let additional = match source.additional_properties() {
        None | Some(Value::Bool(false)) => Additional::None,
        Some(Value::Map(map)) => Additional::Node(node(JSONSchemaProps::of(map), field("*"), depth, room)?),
        Some(_) => Additional::Any,
    };
    let items = match source.items() {
        Some(Value::Map(map)) => Some(node(JSONSchemaProps::of(map), item, depth, room)?),
        _ => None,
    };
    let rules = rules(source, depth)?;
    let any_within = |holds: fn(&Node) -> bool| {
        let properties = properties.iter().map(|(_, node)| node);
        properties.chain(&items).chain(additional.node()).any(|node| holds(node))
    };
    let has_defaults = any_within(|node| node.has_defaults);
    let has_list_types = any_within(|node| node.has_list_types);
    let has_embedded_resources = any_within(|node| node.has_embedded_resources);
    let list_type = list_type(source)?;
    let mut node = Node {
        ty: node_type(source.r#type())?,
        nullable: source.nullable(),
        int_or_string: source.x_kubernetes_int_or_string(),
        preserve_unknown_fields: source.x_kubernetes_preserve_unknown_fields() == Some(true),
        embedded_resource: source.x_kubernetes_embedded_resource(),
        has_list_types: has_list_types || list_type != ListType::Atomic,
        has_embedded_resources: has_embedded_resources || source.x_kubernetes_embedded_resource(),
        list_type,
        atomic_map: source.x_kubernetes_map_type() == Some("atomic"),
        properties: properties.into(),
        additional,
        items,
        default: None,
        rules: (rules != Rules::default()).then(|| Interned::<Rules>::new(rules)),
        has_defaults,
    };
    node.default =
        source.r#default().map(|raw| default(raw, &node, place, room)).transpose()?.flatten().map(Box::new);
    node.has_defaults |= node.default.is_some();
    Ok(Interned::<Node>::new(node))
}

/// The default of a node: pruned, and completed with the defaults within it. A null is no default, and
/// neither is a value that the metadata of an object cannot have.
fn default(
    raw: &RawJson,
    node: &Node,
    place: Place<'_>,
    room: &mut Room,
) -> Result<Option<Constant>, CompileError> {
    let mut constant = constant(raw)?;
    match place {
        Place::Meta(meta) => constant.value = meta.readable(constant.value).unwrap_or_default(),
        Place::Object | Place::Value => {
            pruned(&constant.value, node).into_iter().for_each(|value| constant.value = value);
        }
    }
    completed(&constant.value, node, room).into_iter().for_each(|value| constant.value = value);
    let mut most = Limits::REQUEST.values;
    constant.bytes = bytes(&constant.value, &mut most).ok_or(CompileError::Default)?;
    if room.is_exceeded() {
        return Err(CompileError::Default);
    }
    Ok((!constant.value.is_null()).then_some(constant))
}

/// About how long the JSON of a value is, if it has no more values within it than are left of a budget. Parts
/// that are shared count each time.
fn bytes(value: &Value, left: &mut usize) -> Option<usize> {
    *left = left.checked_sub(1)?;
    let within = match value {
        Value::Map(map) => {
            let mut sum = 0_usize;
            for (key, value) in map.iter() {
                sum = sum.saturating_add(key.as_str().len()).saturating_add(bytes(value, left)?);
            }
            sum
        }
        Value::List(items) => {
            items.iter().try_fold(0_usize, |sum, value| Some(sum.saturating_add(bytes(value, left)?)))?
        }
        Value::String(text) => text.as_str().len(),
        _ => 0,
    };
    Some(within.saturating_add(4))
}

fn nested(source: JSONSchemaProps<'_>, depth: usize) -> Result<Interned<Nested>, CompileError> {
    let depth = depth.checked_sub(1).ok_or(CompileError::Depth)?;
    let mut properties = Vec::with_capacity(source.properties().len());
    for (name, property) in source.properties().iter() {
        properties.push((key(name), nested(property, depth)?));
    }
    properties.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
    let within = |value: Option<&Value>| match value {
        Some(Value::Map(map)) => nested(JSONSchemaProps::of(map), depth).map(Some),
        _ => Ok(None),
    };
    Ok(Interned::<Nested>::new(Nested {
        ty: node_type(source.r#type())?,
        rules: rules(source, depth)?,
        properties: properties.into(),
        additional: within(source.additional_properties())?,
        items: within(source.items())?,
    }))
}

fn rules(source: JSONSchemaProps<'_>, depth: usize) -> Result<Rules, CompileError> {
    let bound = |at: Option<f64>, exclusive: bool| at.map(|at| Bound { at: Number(at), exclusive });
    let all = |schemas: crate::view::Items<'_, JSONSchemaProps<'_>>| {
        schemas.iter().map(|source| nested(source, depth)).collect::<Result<Box<[_]>, _>>()
    };
    Ok(Rules {
        format: source.format().into(),
        minimum: bound(source.minimum(), source.exclusive_minimum()),
        maximum: bound(source.maximum(), source.exclusive_maximum()),
        multiple_of: source.multiple_of().map(Number),
        min_length: source.min_length(),
        max_length: source.max_length(),
        pattern: source.pattern().into(),
        min_items: source.min_items(),
        max_items: source.max_items(),
        unique_items: source.unique_items(),
        min_properties: source.min_properties(),
        max_properties: source.max_properties(),
        required: source.required().iter().map(Text::from).collect(),
        values: source.r#enum().iter().map(constant).collect::<Result<_, _>>()?,
        all_of: all(source.all_of())?,
        any_of: all(source.any_of())?,
        one_of: all(source.one_of())?,
        not: source.not().map(|source| nested(source, depth)).transpose()?,
        expressions: source.x_kubernetes_validations().iter().map(Expression::from).collect(),
    })
}

impl From<crate::views::apiextensions::v1::ValidationRule<'_>> for Expression {
    fn from(rule: crate::views::apiextensions::v1::ValidationRule<'_>) -> Self {
        Self {
            rule: rule.rule().into(),
            message: rule.message().into(),
            message_expression: rule.message_expression().into(),
            reason: rule.reason().unwrap_or_default().into(),
            field_path: rule.field_path().into(),
            optional_old_self: rule.optional_old_self(),
        }
    }
}

fn node_type(name: &str) -> Result<Option<NodeType>, CompileError> {
    Ok(Some(match name {
        "" => return Ok(None),
        "array" => NodeType::Array,
        "boolean" => NodeType::Boolean,
        "integer" => NodeType::Integer,
        "number" => NodeType::Number,
        "object" => NodeType::Object,
        "string" => NodeType::String,
        other => return Err(CompileError::Type(other.to_owned())),
    }))
}

fn list_type(source: JSONSchemaProps<'_>) -> Result<ListType, CompileError> {
    Ok(match source.x_kubernetes_list_type() {
        None | Some("atomic") => ListType::Atomic,
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(source.x_kubernetes_list_map_keys().iter().map(Text::from).collect()),
        Some(other) => return Err(CompileError::ListType(other.to_owned())),
    })
}

fn constant(raw: &RawJson) -> Result<Constant, CompileError> {
    let decoded = json::decode_shape(&Shape::Any, raw.as_str().as_bytes(), &Limits::STORED);
    let value = decoded.map_err(|error| CompileError::Constant(error.to_string()))?.value;
    Ok(Constant { value, text: raw.as_str().into(), bytes: raw.as_str().len() })
}
