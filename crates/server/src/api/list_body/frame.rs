//! The parts of a list around its objects, in each format.

use bytes::{BufMut, Bytes};
use schema::{Limits, Shape, Status, cbor, json};

use super::ListMeta;
use crate::api::represent::table::list_meta;
use crate::api::represent::wire::{self, Major};
use crate::api::represent::{ObjectEncoder, indented, to_yaml};
use crate::negotiate::{Format, MetaVersion, Transform, TransformKind};

/// The parts of a list around its objects.
pub(super) struct ListFrame {
    /// The bytes before the first object.
    pub(super) before: Bytes,
    /// The bytes between two objects.
    pub(super) separator: &'static [u8],
    /// The bytes after the last object.
    pub(super) after: Bytes,
    /// The whole response, if there are no objects.
    pub(super) empty: Vec<u8>,
}

/// The measures of the objects that the start of a list contains.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Measure {
    /// The number of objects.
    pub(super) count: usize,
    /// The total size of the objects.
    pub(super) size: usize,
}

/// The names and values in a list that depend on the transform.
struct ListNames {
    kind: String,
    api_version: String,
    /// `items`, `rows`.
    items: &'static str,
    /// The value of `items` or `rows` in an empty list.
    none: &'static str,
}

impl ListFrame {
    pub(super) fn new(encoder: &ObjectEncoder, list: &ListMeta, measure: Measure) -> Result<Self, Status> {
        let mut meta = list_meta(&list.revision, &list.token, list.remaining);
        if encoder.names_items() && list.token.is_empty() {
            // The reference writes lists of custom kinds field by field, and this one always.
            meta.insert_str(1, if meta.len() > 2 { r#""continue":"","# } else { r#""continue":"""# });
        }
        let names = names(encoder);
        match encoder.accept.format {
            Format::Protobuf => Ok(protobuf(encoder, &names, list, measure)),
            Format::Cbor => cbor(&names, &meta, measure),
            Format::Json => {
                let before = json_before(encoder, &names, &meta);
                let mut empty = before.strip_suffix(b"[").unwrap_or(&before).to_vec();
                empty.extend_from_slice(names.none.as_bytes());
                empty.extend_from_slice(b"}\n");
                Ok(Self { before: before.into(), separator: b",", after: Bytes::from_static(b"]}\n"), empty })
            }
            Format::Pretty => {
                let around = |items: &str| indented(&with_items(encoder, &names, &meta, items));
                let (before, after) = split(&around("[0]"), "    0");
                Ok(Self { before, separator: b",\n", after, empty: around(names.none).to_vec() })
            }
            Format::Yaml => {
                let around = |items: &str| to_yaml(&with_items(encoder, &names, &meta, items));
                let (before, after) = split(&around("[0]")?, "- 0\n");
                Ok(Self { before, separator: b"", after, empty: around(names.none)?.to_vec() })
            }
        }
    }
}

fn names(encoder: &ObjectEncoder) -> ListNames {
    match encoder.accept.transform {
        Some(Transform { kind: TransformKind::Table, version }) => ListNames {
            kind: "Table".into(),
            api_version: version.api_version().into(),
            items: "rows",
            none: if encoder.served.has_default_columns() { "null" } else { "[]" },
        },
        Some(Transform { version, .. }) => ListNames {
            kind: "PartialObjectMetadataList".into(),
            api_version: version.api_version().into(),
            items: "items",
            none: "null",
        },
        None => ListNames {
            kind: encoder.served.list_kind.to_string(),
            api_version: encoder.served.api_version.to_string(),
            items: "items",
            none: "[]",
        },
    }
}

/// The JSON of a list up to its first object.
fn json_before(encoder: &ObjectEncoder, names: &ListNames, meta: &str) -> Vec<u8> {
    if let Some(Transform { kind: TransformKind::Table, version }) = encoder.accept.transform {
        return encoder.table_head(version, meta, Some(&encoder.headings()));
    }
    let ListNames { kind, api_version, items, .. } = names;
    format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{meta},"{items}":["#).into_bytes()
}

fn with_items(encoder: &ObjectEncoder, names: &ListNames, meta: &str, items: &str) -> Vec<u8> {
    let mut text = json_before(encoder, names, meta);
    text.pop();
    text.extend_from_slice(items.as_bytes());
    text.push(b'}');
    text
}

/// Splits a text around the last `marker`.
fn split(text: &Bytes, marker: &str) -> (Bytes, Bytes) {
    let at = memchr::memmem::rfind(text, marker.as_bytes()).unwrap_or(text.len());
    (text.slice(..at), text.slice(text.len().min(at + marker.len())..))
}

fn protobuf(encoder: &ObjectEncoder, names: &ListNames, list: &ListMeta, measure: Measure) -> ListFrame {
    let mut meta = Vec::new();
    wire::bytes_field(1, b"", &mut meta);
    wire::bytes_field(2, list.revision.as_bytes(), &mut meta);
    wire::bytes_field(3, list.token.as_bytes(), &mut meta);
    if let Some(remaining) = list.remaining {
        meta.put_u8(4 << 3);
        wire::varint(remaining as u64, &mut meta);
    }
    // In the v1beta1 message, the objects come before the metadata.
    let meta_last =
        encoder.accept.transform.is_some_and(|transform| transform.version == MetaVersion::V1beta1);
    let number = if meta_last { 2 } else { 1 };
    let size = wire::field_len(number, meta.len()) + measure.size;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    wire::envelope_head(&names.api_version, &names.kind, size, &mut before);
    wire::bytes_field(number, &meta, if meta_last { &mut after } else { &mut before });
    after.extend_from_slice(&wire::ENVELOPE_TAIL);
    let empty = [&*before, &*after].concat();
    ListFrame { before: before.into(), separator: b"", after: after.into(), empty }
}

fn cbor(names: &ListNames, meta: &str, measure: Measure) -> Result<ListFrame, Status> {
    let decoded = json::decode_shape(&Shape::Any, meta.as_bytes(), &Limits::REQUEST);
    let decoded = decoded.map_err(|error| Status::internal_error(&error.to_string()))?;
    let mut meta = Vec::new();
    cbor::encode_shape(&Shape::Any, &decoded.value, &mut meta);
    let mut before = cbor::PREFIX.to_vec();
    wire::cbor_head(Major::Map, 4, &mut before);
    for (key, value) in [("kind", &names.kind), ("apiVersion", &names.api_version)] {
        wire::cbor_text(key, &mut before);
        wire::cbor_text(value, &mut before);
    }
    wire::cbor_text("metadata", &mut before);
    before.extend_from_slice(meta.get(cbor::PREFIX.len()..).unwrap_or_default());
    wire::cbor_text(names.items, &mut before);
    let mut empty = before.clone();
    match names.none {
        "null" => empty.push(0xf6),
        _ => wire::cbor_head(Major::Array, 0, &mut empty),
    }
    wire::cbor_head(Major::Array, measure.count as u64, &mut before);
    Ok(ListFrame { before: before.into(), separator: b"", after: Bytes::new(), empty })
}
