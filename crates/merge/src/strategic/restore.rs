//! From the merged JSON to an object of the type, as the reference converts without a text in between:
//! numbers are cut to their field's size, whole floats are integers, and faults have words of their own.

use crate::go::GoKind;
use crate::node::{Doc, Node, Opened, UNBOUNDED};
use object::excerpt::shorten_to;
use object::field::MOST_ERRORS;
use object::{Key, Map, Value};
use schema::{Field, Limits, Shape, Type, json};
use std::sync::Arc;

/// The most bytes of the path of an unknown field.
const MOST_PATH: usize = 8 << 10;

/// The object; fields that the type does not have go to `unknown`, as their warnings, up to [`MOST_ERRORS`]
/// of them.
pub(crate) fn object(
    ty: &Type,
    mut node: Node<'_>,
    depth: usize,
    unknown: &mut Vec<String>,
) -> Result<Map, String> {
    let mut restorer = Restorer { unknown, path: String::new(), depth };
    match node.open() {
        Opened::Doc(doc) => restorer.fields(ty, doc),
        _ => Ok(Map::new()),
    }
}

struct Restorer<'u> {
    unknown: &'u mut Vec<String>,
    path: String,
    /// How many levels may still be entered.
    depth: usize,
}

impl Restorer<'_> {
    fn fields(&mut self, ty: &Type, doc: &mut Doc<'_>) -> Result<Map, String> {
        let mut entries = Vec::with_capacity(doc.len());
        let mut known = 0;
        for field in ty.fields.iter() {
            let Some(node) = doc.get_mut(field.name.as_str()) else { continue };
            known += 1;
            let value = match node {
                Node::Typed(place, value) if *place == &field.shape => value.clone(),
                node if node.is_null() => continue,
                node => self.field(field, node)?,
            };
            if !field.drops(&value) {
                entries.push((field.name.clone(), value));
            }
        }
        if known < doc.len() {
            for (key, node) in doc.iter().filter(|(key, _)| ty.position(key).is_none()) {
                if ty.preserve_unknown_fields {
                    entries.push((key.clone(), node.to_value()));
                } else if self.unknown.len() < MOST_ERRORS {
                    let dot = if self.path.is_empty() { "" } else { "." };
                    let path = shorten_to(MOST_PATH, format!("{}{dot}{key}", self.path));
                    self.unknown.push(format!("unknown field \"{path}\""));
                }
            }
        }
        Ok(Map::from_distinct(entries))
    }

    fn field(&mut self, field: &Field, node: &mut Node<'_>) -> Result<Value, String> {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(&field.name);
        let value = self.value(&field.shape, &field.options.go, node);
        self.path.truncate(length);
        value
    }

    /// One value; `go` is what the reference calls its type.
    fn value(&mut self, shape: &Shape, go: &str, node: &mut Node<'_>) -> Result<Value, String> {
        if let Node::Typed(place, value) = node
            && *place == shape
        {
            return Ok(value.clone());
        }
        if node.is_null() {
            return Ok(shape.empty_element());
        }
        match shape {
            Shape::Bool | Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::String => {
                scalar(shape, go, node)
            }
            Shape::Any => Ok(node.to_value()),
            Shape::Bytes => bytes(node),
            Shape::Struct(ty) => match node.open() {
                Opened::Doc(doc) => {
                    self.enter()?;
                    let map = self.fields(ty, doc)?;
                    self.depth += 1;
                    Ok(map.into())
                }
                _ => Err(format!("cannot restore struct from: {}", GoKind::of(node).name())),
            },
            Shape::Map(inner) => self.map(inner, go, node),
            Shape::List(inner) => self.list(inner, go, node),
            Shape::Time
            | Shape::MicroTime
            | Shape::Duration
            | Shape::Quantity
            | Shape::IntOrString
            | Shape::Raw(_)
            | Shape::SchemaOr(..) => {
                let limits = Limits { depth: self.depth, ..UNBOUNDED };
                let decoded = json::decode_shape(shape, node.to_text().as_bytes(), &limits);
                decoded.map(|decoded| decoded.value).map_err(|error| error.to_string())
            }
        }
    }

    /// The reference does not put the key into the paths of unknown fields.
    fn map(&mut self, inner: &Shape, go: &str, node: &mut Node<'_>) -> Result<Value, String> {
        let go = go.split_once(']').map_or(go, |(_, value)| value);
        let Opened::Doc(doc) = node.open() else {
            return Err(format!("cannot restore map from {}", GoKind::of(node).name()));
        };
        self.enter()?;
        let mut entries: Vec<(Key, Value)> = Vec::with_capacity(doc.len());
        for (key, node) in doc {
            entries.push((key.clone(), self.value(inner, go, node)?));
        }
        self.depth += 1;
        Ok(Map::from_distinct(entries).into())
    }

    fn list(&mut self, inner: &Shape, go: &str, node: &mut Node<'_>) -> Result<Value, String> {
        let go = go.strip_prefix("[]").unwrap_or(go);
        let Opened::List(items) = node.open() else {
            return Err(format!("cannot restore slice from {}", GoKind::of(node).name()));
        };
        self.enter()?;
        let length = self.path.len();
        let mut values = Vec::with_capacity(items.len());
        for (at, node) in items.iter_mut().enumerate() {
            self.path.push_str(&format!("[{at}]"));
            values.push(self.value(inner, go, node)?);
            self.path.truncate(length);
        }
        self.depth += 1;
        Ok(values.into())
    }

    fn enter(&mut self) -> Result<(), String> {
        self.depth = self.depth.checked_sub(1).ok_or("exceeded max depth")?;
        Ok(())
    }
}

fn scalar(shape: &Shape, go: &str, node: &Node<'_>) -> Result<Value, String> {
    let value = node.to_value();
    match (shape, &value) {
        (Shape::Bool, Value::Bool(_))
        | (Shape::Int64, Value::Int(_))
        | (Shape::Float64, Value::Float(_))
        | (Shape::String, Value::String(_)) => Ok(value),
        (Shape::Int32, Value::Int(number)) => Ok(Value::Int((*number as i32).into())),
        (Shape::Float64, Value::Int(number)) => Ok(Value::Float(*number as f64)),
        (Shape::Int32 | Shape::Int64, Value::Float(number)) if number.fract() == 0.0 => {
            let whole = truncate(*number);
            Ok(Value::Int(if matches!(shape, Shape::Int32) { (whole as i32).into() } else { whole }))
        }
        (Shape::Int32 | Shape::Int64, Value::Float(_)) => Err(format!("cannot convert float64 to {go}")),
        (Shape::String, Value::Int(_)) => Err(format!("cannot convert int64 to {go}")),
        _ => Err(format!("unrecognized type: {}", kind_name(shape))),
    }
}

/// A whole float as an integer; a number out of range becomes the least `i64`, as on amd64.
fn truncate(number: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

fn kind_name(shape: &Shape) -> &'static str {
    match shape {
        Shape::Bool => "bool",
        Shape::Int32 => "int32",
        Shape::Int64 => "int64",
        Shape::Float64 => "float64",
        _ => "string",
    }
}

/// Binary data, from base64 or from a list of numbers.
fn bytes(node: &mut Node<'_>) -> Result<Value, String> {
    let value = node.to_value();
    match &value {
        Value::String(text) => {
            let decoded = json::decode_shape(&Shape::Bytes, json::string(text).as_bytes(), &UNBOUNDED);
            decoded.map(|decoded| decoded.value).map_err(|error| format!("error decoding from json: {error}"))
        }
        Value::List(items) => {
            let byte = |item: &Value| match item {
                Value::Int(number) => Ok(*number as u8),
                Value::Float(number) if number.fract() == 0.0 => Ok(truncate(*number) as u8),
                Value::Float(_) => Err("cannot convert float64 to uint8".to_string()),
                Value::Null => Ok(0),
                _ => Err("unrecognized type: uint8".to_string()),
            };
            let bytes: Vec<u8> = items.iter().map(byte).collect::<Result<_, _>>()?;
            Ok(Value::Bytes(Arc::from(bytes)))
        }
        _ => Err(format!("cannot restore slice from {}", GoKind::of_value(&value).name())),
    }
}
