//! The JSON of an object that is being patched, made only as far as the patch needs it.
//!
//! 1. A node that was never opened is written as its source writes it: the object by the order of its type,
//!    the patch by its own text. An opened one is written with sorted keys. Both are what the reference does,
//!    and shows in errors.
//! 2. A typed node holds the address of its shape, so that it is known at the end whether its place has
//!    changed.
//! 3. Opened nodes nest no deeper than [`Limits::depth`] plus the depth of the object: see [`Node::height`].

use object::{Key, Map, RawJson, Value};
use schema::json::{self, Entry};
use schema::{Field, Limits, Ref, Shape, Type};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// The entries of an opened object.
pub(crate) type Doc<'a> = BTreeMap<Key, Node<'a>>;

/// One value of the JSON.
#[derive(Clone, Debug)]
pub(crate) enum Node<'a> {
    /// The null of a document, or no value at all.
    Nil,
    /// A null that an operation put there. The reference distinguishes the two when it compares.
    Null,
    /// A part of the object; or, with [`ANY`], a value without a type.
    Typed(ShapeRef<'a>, Value),
    /// A part of the patch.
    Text(json::Node<'a>),
    /// An opened object.
    Doc(Doc<'a>),
    /// An opened list.
    List(Vec<Node<'a>>),
}

/// The shape of a typed value, compared by address.
#[derive(Clone, Copy)]
pub(crate) struct ShapeRef<'a>(pub(crate) &'a Shape);

impl std::fmt::Debug for ShapeRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:p}", self.0)
    }
}

impl PartialEq<&Shape> for ShapeRef<'_> {
    fn eq(&self, other: &&Shape) -> bool {
        std::ptr::eq(self.0, *other)
    }
}

/// The shape of values without a type.
pub(crate) static ANY: Shape = Shape::Any;

static EMPTY: LazyLock<Value> = LazyLock::new(|| Map::new().into());

/// What an opened node is.
#[derive(Debug)]
pub(crate) enum Opened<'n, 'a> {
    /// An object.
    Doc(&'n mut Doc<'a>),
    /// A list.
    List(&'n mut Vec<Node<'a>>),
    /// Anything else, which stays as it is.
    Scalar,
}

impl<'a> Node<'a> {
    /// A value without a type.
    pub(crate) fn plain(value: Value) -> Self {
        match value {
            Value::Null => Node::Nil,
            value => Node::Typed(ShapeRef(&ANY), value),
        }
    }

    /// The whole object, opened, with `apiVersion` and `kind` of its type.
    pub(crate) fn root(ty: &'a Type, current: &Value) -> Self {
        let mut doc = current.as_map().map(|map| open_struct(ty, map)).unwrap_or_default();
        if let Some(kind) = &ty.kind {
            for (name, text) in [("apiVersion", kind.api_version()), ("kind", kind.kind.clone())] {
                if let Some(field) = ty.field(name) {
                    doc.entry(field.name.clone())
                        .or_insert_with(|| Node::Typed(ShapeRef(&field.shape), text.into()));
                }
            }
        }
        Node::Doc(doc)
    }

    /// Whether the node is null.
    pub(crate) fn is_null(&self) -> bool {
        matches!(self, Node::Nil | Node::Null | Node::Text(json::Node::Null))
    }

    /// Opens an object or a list.
    pub(crate) fn open(&mut self) -> Opened<'_, 'a> {
        if let Node::Typed(..) | Node::Text(json::Node::List(_) | json::Node::Object(_)) = self {
            let closed = std::mem::replace(self, Node::Nil);
            *self = closed.opened();
        }
        match self {
            Node::Doc(doc) => Opened::Doc(doc),
            Node::List(items) => Opened::List(items),
            _ => Opened::Scalar,
        }
    }

    /// Opens an object, and nothing else.
    pub(crate) fn open_doc(&mut self) -> Option<&mut Doc<'a>> {
        if !self.is_object() {
            return None;
        }
        match self.open() {
            Opened::Doc(doc) => Some(doc),
            _ => None,
        }
    }

    fn is_object(&self) -> bool {
        match self {
            Node::Doc(_) | Node::Text(json::Node::Object(_)) => true,
            Node::Typed(_, value) => value.kind() == "object",
            _ => false,
        }
    }

    fn opened(self) -> Self {
        match self {
            Node::Text(json::Node::Object(entries)) => {
                let mut doc = Doc::new();
                for Entry { key, value } in entries {
                    doc.insert(Key::from(&*key), Node::read(value));
                }
                Node::Doc(doc)
            }
            Node::Text(json::Node::List(items)) => Node::List(items.into_iter().map(Node::read).collect()),
            Node::Typed(place, value) => match (place.0, &value) {
                (Shape::Struct(ty), Value::Map(map)) => Node::Doc(open_struct(ty, map)),
                (Shape::Map(inner), Value::Map(map)) => Node::Doc(open_map(inner, map)),
                (Shape::List(inner), Value::List(items)) => open_list(inner, items),
                (Shape::Any, Value::Map(map)) => Node::Doc(open_map(&ANY, map)),
                (Shape::Any, Value::List(items)) => open_list(&ANY, items),
                (_, Value::Map(_) | Value::List(_) | Value::Raw(_)) => {
                    let text = encode(place.0, &value);
                    match json::Node::read(&text, &UNBOUNDED) {
                        Ok(node) => match node.into_owned() {
                            scalar @ json::Node::Scalar(_) => Node::Text(scalar),
                            node => Node::Text(node).opened(),
                        },
                        Err(_) => Node::Typed(place, value),
                    }
                }
                _ => Node::Typed(place, value),
            },
            other => other,
        }
    }

    fn read(node: json::Node<'a>) -> Self {
        match node {
            json::Node::Null => Node::Nil,
            node => Node::Text(node),
        }
    }

    /// How deep the opened part nests, if that is at most `most`; `visits` goes down by one for each node.
    pub(crate) fn height(&self, most: usize, visits: &mut usize) -> Option<usize> {
        *visits = visits.checked_sub(1)?;
        let mut each = |child: &Node<'_>| child.height(most.checked_sub(1)?, visits);
        let tallest = match self {
            Node::Doc(doc) => doc.values().try_fold(0, |top, child| Some(top.max(each(child)? + 1))),
            Node::List(items) => items.iter().try_fold(0, |top, child| Some(top.max(each(child)? + 1))),
            _ => Some(0),
        };
        tallest.filter(|height| *height <= most)
    }

    /// Writes the node as the reference does, without white space.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Node::Nil | Node::Null => out.extend_from_slice(b"null"),
            Node::Typed(place, value) => json::encode_shape(place.0, value, out),
            Node::Text(node) => write_text(node, out),
            Node::Doc(doc) => {
                write_entries(doc.iter().map(|(key, node)| (&**key, node)), out, |node, out| node.write(out));
            }
            Node::List(items) => write_items(items, out, |node, out| node.write(out)),
        }
    }

    /// The JSON text of the node.
    pub(crate) fn to_text(&self) -> String {
        let mut out = Vec::new();
        self.write(&mut out);
        // Encoders write text.
        String::from_utf8(out).unwrap_or_default()
    }

    /// As a value without a type.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Node::Nil | Node::Null => Value::Null,
            Node::Typed(place, value) if *place == &ANY => value.clone(),
            Node::Typed(place, value) => match (place.0, value) {
                (_, Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_)) => {
                    value.clone()
                }
                _ => untyped(&encode(place.0, value)),
            },
            Node::Text(_) => untyped(&self.to_text()),
            Node::Doc(doc) => {
                let entries = doc.iter().map(|(key, node)| (key.clone(), node.to_value()));
                Map::from_distinct(entries.collect::<Vec<_>>()).into()
            }
            Node::List(items) => items.iter().map(Node::to_value).collect(),
        }
    }
}

/// For text that this server has written itself, from trees that were bounded when they came.
pub(crate) const UNBOUNDED: Limits =
    Limits { bytes: usize::MAX, depth: usize::MAX, values: usize::MAX, ..Limits::REQUEST };

fn open_struct<'a>(ty: &'a Type, map: &Map) -> Doc<'a> {
    let mut doc = Doc::new();
    for (key, value) in map.iter() {
        match ty.field(key) {
            Some(field) if !field.drops(value) => {
                doc.insert(field.name.clone(), typed(&field.shape, value));
            }
            None if ty.preserve_unknown_fields => {
                doc.insert(key.clone(), typed(&ANY, value));
            }
            _ => {}
        }
    }
    for field in ty.fields.iter().filter(|field| field.always) {
        if !doc.contains_key(&field.name) {
            doc.insert(field.name.clone(), absent(field));
        }
    }
    doc
}

fn open_map<'a>(shape: &'a Shape, map: &Map) -> Doc<'a> {
    map.iter().map(|(key, value)| (key.clone(), typed(shape, value))).collect()
}

fn open_list<'a>(shape: &'a Shape, items: &[Value]) -> Node<'a> {
    Node::List(items.iter().map(|value| typed(shape, value)).collect())
}

fn typed<'a>(shape: &'a Shape, value: &Value) -> Node<'a> {
    if value.is_null() { Node::Nil } else { Node::Typed(ShapeRef(shape), value.clone()) }
}

/// The JSON value of a field that is written although it is absent.
pub(crate) fn absent<'a>(field: &'a Field) -> Node<'a> {
    if field.optional {
        return Node::Nil;
    }
    match &field.shape {
        Shape::Struct(_) => Node::Typed(ShapeRef(&field.shape), EMPTY.clone()),
        Shape::List(_) | Shape::Map(_) | Shape::Bytes => Node::Nil,
        shape => typed(shape, &shape.empty_element()),
    }
}

fn encode(shape: &Shape, value: &Value) -> String {
    let mut out = Vec::new();
    json::encode_shape(shape, value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

fn untyped(text: &str) -> Value {
    json::decode_shape(&ANY, text.as_bytes(), &UNBOUNDED).map(|decoded| decoded.value).unwrap_or_default()
}

fn write_text(node: &json::Node<'_>, out: &mut Vec<u8>) {
    match node {
        json::Node::Null => out.extend_from_slice(b"null"),
        json::Node::Scalar(raw) => {
            // As raw JSON it keeps its own escapes, and gets those of the encoder.
            let raw = Value::Raw(RawJson::from_checked(Arc::from(&**raw)));
            json::encode_shape(&Shape::Any, &raw, out);
        }
        json::Node::List(items) => write_items(items, out, write_text),
        json::Node::Object(entries) => {
            write_entries(entries.iter().map(|entry| (&*entry.key, &entry.value)), out, write_text);
        }
    }
}

fn write_items<T>(items: &[T], out: &mut Vec<u8>, each: impl Fn(&T, &mut Vec<u8>)) {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        each(item, out);
    }
    out.push(b']');
}

fn write_entries<'n, T: 'n>(
    entries: impl Iterator<Item = (&'n str, &'n T)>,
    out: &mut Vec<u8>,
    each: impl Fn(&T, &mut Vec<u8>),
) {
    out.push(b'{');
    for (at, (key, value)) in entries.enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(json::string(key).as_bytes());
        out.push(b':');
        each(value, out);
    }
    out.push(b'}');
}

/// The shape of an object of a type.
pub(crate) fn shape_of(ty: &Ref<Type>) -> Shape {
    Shape::Struct(ty.clone())
}
