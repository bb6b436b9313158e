//! From the patched JSON back to an object of the type: directly if nothing is wrong, otherwise as the
//! reference does, for its errors.

use crate::node::{ANY, Doc, Node, UNBOUNDED, shape_of};
use crate::{Error, FieldValidation, Patched};
use object::quote::Quoted;
use object::{Key, Map, Value};
use schema::{Decoded, GroupVersionKind, Limits, Ref, Shape, Strict, Type, builtin, json};

/// How the reference shows the struct that it reads version and kind into.
const VERSION_AND_KIND: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// Makes an object from a patched document; `strict` has the unknown and duplicate fields of the patch
/// itself.
pub(crate) fn finish(
    ty: &Ref<Type>,
    root: &Node<'_>,
    mut strict: Vec<String>,
    validation: FieldValidation,
    limits: &Limits,
) -> Result<Patched, Error> {
    if strict.is_empty()
        && let Node::Doc(doc) = root
        && is_kind(ty, doc)
        && let Some(mut map) = assemble_struct(ty, doc, limits.depth)
    {
        set_kind(ty, &mut map);
        let mut value = map.into();
        if is_as_its_schema(ty, &mut value) {
            return Ok(Patched { ty: ty.clone(), value, strict });
        }
    }
    let text = root.to_text();
    let Read { ty, decoded } = match read(ty, root, &text, limits) {
        Ok(read) => read,
        Err(detail) => return Err(Error::Invalid { value: text, detail }),
    };
    match validation {
        FieldValidation::Ignore => strict.clear(),
        _ => strict.extend(decoded.strict.iter().map(ToString::to_string)),
    }
    refuse_strictly(&strict, validation, || text)?;
    let mut value = decoded.value;
    // The rules of a custom kind refuse another one.
    if let Some(map) = value.as_map_mut().filter(|_| ty.custom.is_none()) {
        set_kind(&ty, map);
    }
    Ok(Patched { ty, value, strict })
}

/// Prunes an object of a custom kind by its schema. False if there is something to report.
fn is_as_its_schema(ty: &Type, object: &mut Value) -> bool {
    let Some(custom) = &ty.custom else { return true };
    let mut strict = Vec::new();
    custom.prune(object, &mut strict).malformed.is_none() && strict.is_empty()
}

/// With [`FieldValidation::Strict`], nothing may be dropped.
pub(crate) fn refuse_strictly(
    strict: &[String],
    validation: FieldValidation,
    value: impl FnOnce() -> String,
) -> Result<(), Error> {
    if validation != FieldValidation::Strict || strict.is_empty() {
        return Ok(());
    }
    Err(Error::Invalid { value: value(), detail: format!("strict decoding error: {}", strict.join(", ")) })
}

/// Puts `kind` and `apiVersion` of the type into an object, in their places.
pub(crate) fn set_kind(ty: &Type, map: &mut Map) {
    let Some(kind) = &ty.kind else { return };
    if map.get("apiVersion").is_none() || map.get("kind").is_none() {
        map.remove("apiVersion");
        map.remove("kind");
        map.insert_at(0, Key::known("kind"), kind.kind.clone().into());
        map.insert_at(1, Key::known("apiVersion"), kind.api_version().into());
    } else {
        map.insert("kind", kind.kind.clone());
        map.insert("apiVersion", kind.api_version());
    }
}

/// Whether `kind` and `apiVersion` of the document are still those of the type.
fn is_kind(ty: &Type, doc: &Doc<'_>) -> bool {
    let Some(kind) = &ty.kind else { return true };
    let reads = |name: &str, wanted: &str| match doc.get(name) {
        Some(Node::Typed(_, value)) => value.as_str() == Some(wanted),
        _ => false,
    };
    reads("kind", &kind.kind) && reads("apiVersion", &kind.api_version())
}

/// The object, if every part is unmoved or decodes without errors and warnings. Nests at most `depth` deep.
fn assemble_struct(ty: &Type, doc: &Doc<'_>, depth: usize) -> Option<Map> {
    let depth = depth.checked_sub(1)?;
    let mut entries = Vec::with_capacity(doc.len());
    let mut known = 0;
    for field in ty.fields.iter() {
        let Some(node) = doc.get(field.name.as_str()) else { continue };
        known += 1;
        let value = assemble(&field.shape, node, depth)?;
        if !field.drops(&value) {
            entries.push((field.name.clone(), value));
        }
    }
    if known < doc.len() {
        if !ty.preserve_unknown_fields {
            return None;
        }
        for (key, node) in doc.iter().filter(|(key, _)| ty.position(key).is_none()) {
            entries.push((key.clone(), assemble(&ANY, node, depth)?));
        }
    }
    Some(Map::from_distinct(entries))
}

fn assemble(shape: &Shape, node: &Node<'_>, depth: usize) -> Option<Value> {
    match (node, shape) {
        _ if node.is_null() => Some(Value::Null),
        (Node::Typed(place, value), _) if *place == shape => Some(value.clone()),
        (Node::Doc(doc), Shape::Struct(ty)) => assemble_struct(ty, doc, depth).map(Value::from),
        (Node::Doc(doc), Shape::Map(_) | Shape::Any) => {
            let (inner, depth) = (inner(shape), depth.checked_sub(1)?);
            let entry = |(key, node): (&Key, &Node<'_>)| Some((key.clone(), element(inner, node, depth)?));
            Some(Map::from_distinct(doc.iter().map(entry).collect::<Option<Vec<_>>>()?).into())
        }
        (Node::List(items), Shape::List(_) | Shape::Any) => {
            let (inner, depth) = (inner(shape), depth.checked_sub(1)?);
            let values: Option<Vec<Value>> = items.iter().map(|node| element(inner, node, depth)).collect();
            Some(values?.into())
        }
        _ => {
            let limits = Limits { depth, ..UNBOUNDED };
            let decoded = json::decode_shape(shape, node.to_text().as_bytes(), &limits).ok()?;
            decoded.strict.is_empty().then_some(decoded.value)
        }
    }
}

fn inner(shape: &Shape) -> &Shape {
    match shape {
        Shape::Map(inner) | Shape::List(inner) => inner,
        _ => &ANY,
    }
}

fn element(shape: &Shape, node: &Node<'_>, depth: usize) -> Option<Value> {
    let value = assemble(shape, node, depth)?;
    Some(if value.is_null() { shape.empty_element() } else { value })
}

struct Read {
    ty: Ref<Type>,
    decoded: Decoded,
}

/// Reads the whole document as the type that its `kind` and `apiVersion` name.
fn read(ty: &Ref<Type>, root: &Node<'_>, text: &str, limits: &Limits) -> Result<Read, String> {
    let Node::Doc(doc) = root else {
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type {VERSION_AND_KIND}"
        ));
    };
    let (api_version, kind) = (text_at(doc, "apiVersion")?, text_at(doc, "kind")?);
    let limits = Limits { bytes: usize::MAX, values: limits.values.saturating_mul(2), ..*limits };
    let decode = |ty: &Ref<Type>| {
        let decoded = json::decode_shape(&shape_of(ty), text.as_bytes(), &limits);
        decoded.map_err(|error| error.to_string()).map(|decoded| Read { ty: ty.clone(), decoded })
    };
    let Some(own) = &ty.kind else { return decode(ty) };
    let (group, version) = match api_version.split_once('/') {
        Some((_, rest)) if rest.contains('/') => {
            return Err(format!("unexpected GroupVersion string: {api_version}"));
        }
        Some(split) => split,
        None => ("", api_version.as_str()),
    };
    if ty.custom.is_some() {
        return read_custom(ty, (group, version, &kind), doc, text, &limits);
    }
    let kind = if kind.is_empty() { own.kind.as_str() } else { kind.as_str() };
    if version.is_empty() && (group.is_empty() || group == own.group) {
        return Ok(without_version(ty, doc));
    }
    if (group, version, kind) == (own.group.as_str(), own.version.as_str(), own.kind.as_str()) {
        return decode(ty);
    }
    let Some(other) = builtin::by_kind(group, version, kind) else {
        let version = GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() }
            .api_version();
        return Err(format!(
            "no kind {} is registered for version {} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            Quoted(kind),
            Quoted(&version)
        ));
    };
    let read = decode(&Ref::Static(other))?;
    // Events of both groups are one type within the reference.
    if kind == own.kind && (group == own.group || kind == "Event") {
        return Ok(read);
    }
    let (package, own) = (internal_package(own), &own.kind);
    Err(format!("converting ({version}.{kind}) to ({package}.{own}): {UNKNOWN_CONVERSION}"))
}

/// Reads the document of a custom kind. It has to say what it is, and is a plain object if it says that it is
/// something else.
fn read_custom(
    ty: &Ref<Type>,
    (group, version, kind): (&str, &str, &str),
    doc: &Doc<'_>,
    text: &str,
    limits: &Limits,
) -> Result<Read, String> {
    if kind.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{text}'"));
    }
    if doc.get("apiVersion").is_some_and(Node::is_null) {
        return Err(".apiVersion accessor error: <nil> is of the type <nil>, expected string".into());
    }
    let own = ty.kind.as_ref();
    let is_kind = own.is_some_and(|own| own.group == group && own.kind == kind);
    let is_version = own.is_some_and(|own| own.version == version);
    let read_as = if is_kind && is_version { ty } else { schema::unstructured() };
    let decoded = json::decode_shape(&shape_of(read_as), text.as_bytes(), limits);
    let mut decoded = decoded.map_err(|error| error.of_custom().to_string())?;
    if is_kind && !is_version {
        decoded.forget_all();
    }
    Ok(Read { ty: ty.clone(), decoded })
}

/// The end of the text about a document that is an object of another kind.
pub const UNKNOWN_CONVERSION: &str = "unknown conversion";

/// A document without a version is read by the reference as its internal type, which knows none of the names.
fn without_version(ty: &Ref<Type>, doc: &Doc<'_>) -> Read {
    let others = doc.keys().filter(|key| !matches!(key.as_str(), "kind" | "apiVersion"));
    let strict = others.take(Decoded::MOST_STRICT).map(|key| Strict::Unknown(key.as_str().into())).collect();
    Read { ty: ty.clone(), decoded: Decoded { value: Map::new().into(), strict, pruned: false } }
}

/// The package of the internal type of a kind.
fn internal_package(kind: &GroupVersionKind) -> &str {
    match kind.group.split('.').next() {
        Some("internal") => "apiserverinternal",
        None | Some("" | "events") => "core",
        Some(name) => name,
    }
}

/// The text of `apiVersion` or `kind`; empty for null.
fn text_at(doc: &Doc<'_>, name: &str) -> Result<String, String> {
    let Some(node) = doc.get(name) else { return Ok(String::new()) };
    match node.to_value() {
        Value::Null => Ok(String::new()),
        Value::String(text) => Ok(text.into()),
        value => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .{name} of type string",
            value.kind()
        )),
    }
}
