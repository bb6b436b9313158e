//! Encodes objects in the negotiated format.
//!
//! 1. **Bytes first.** JSON in the version of the stored bytes is the stored bytes, if the schema has not
//!    changed since.
//! 2. Every other encoding of a stored object is computed once and cached ([`encodings`]); metadata is sliced
//!    from the stored bytes, not decoded.
//! 3. Long indented JSON and YAML is written while it is sent ([`form`]).
//! 4. A table row is cached without its ages, which are computed for each response ([`table`]).

mod converted;
pub(crate) mod encodings;
pub(crate) mod form;
pub(crate) mod span;
pub(crate) mod status;
pub(crate) mod table;
mod unstored;
pub(crate) mod wire;

pub(crate) use converted::Converted;
pub(crate) use status::status_body;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use cache::{Cache, Entry};
use object::Value;
use object::time::MicroTime;
use registry::{Content, Served};
use schema::{Limits, Ref, Shape, Status, Type, builtin, cbor, json, protobuf, yaml};

use super::decode::go_name;
use crate::Query;
use crate::cost::Meter;
use crate::large::{LARGE, LargeWork};
use crate::negotiate::{Accept, Format, MetaVersion, Transform, TransformKind};
use crate::unsent::Payer;
use encodings::CachedEncoding;
use form::Form;

/// The object in each row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Include {
    /// The object's metadata.
    #[default]
    Metadata,
    /// The object.
    Object,
    /// Nothing.
    None,
}

impl Include {
    /// Reads the parameter `includeObject`, which has an effect on tables only.
    pub(crate) fn read(query: Query<'_>, accept: Accept) -> Result<Self, Status> {
        if accept.transform.is_none_or(|transform| transform.kind != TransformKind::Table) {
            return Ok(Self::default());
        }
        match query.values("includeObject").next().as_deref() {
            None | Some("" | "Metadata") => Ok(Self::Metadata),
            Some("Object") => Ok(Self::Object),
            Some("None") => Ok(Self::None),
            Some(other) => Err(Status::bad_request(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: must be 'Metadata', 'Object', \
                 'None', or empty",
                object::quote::Quoted(other)
            ))),
        }
    }
}

/// Encodes the objects of a kind for one request.
#[derive(Clone)]
pub(crate) struct ObjectEncoder {
    /// The kind, in the requested version.
    pub(crate) served: Arc<Served>,
    /// The cache of encodings.
    pub(crate) cache: Arc<Cache>,
    /// The negotiated format.
    pub(crate) accept: Accept,
    /// The object in each row of a table.
    pub(crate) include: Include,
    /// The time of the request, for ages.
    pub(crate) now: MicroTime,
    /// Objects that were converted ahead; `None` for a kind that needs no conversion webhook.
    pub(crate) converted: Option<Converted>,
    /// The permits to encode large objects.
    pub(crate) large: LargeWork,
    /// The payer of the response's memory.
    pub(crate) payer: Payer,
    /// What the request costs.
    pub(crate) meter: Meter,
}

impl ObjectEncoder {
    /// One object in memory: for formats in which no object is much longer than it is stored.
    pub(crate) fn object(&self, content: &Content) -> Result<Bytes, Status> {
        self.form(content)?.into_bytes()
    }

    /// The body of a response with one object.
    pub(crate) fn form(&self, content: &Content) -> Result<Form, Status> {
        let transform = self.accept.transform.filter(|_| !is_status(content));
        match transform {
            None => self.plain(content),
            Some(Transform { kind: TransformKind::Partial, version }) => self.partial(content, version),
            Some(Transform { kind: TransformKind::Table, version }) => {
                let text = self.table_of(content, version, table::Headings::Include)?;
                self.finish(text, None)
            }
            Some(Transform { kind: TransformKind::PartialList, .. }) => Err(Status::not_acceptable(format!(
                "you requested PartialObjectMetadataList, but the requested object is not a list ({})",
                match content {
                    Content::Other { ty, .. } =>
                        go_name(ty.kind.as_ref().map_or("", |kind| &kind.group), &ty.struct_name),
                    Content::Entry(_) | Content::Tree(_) => go_name(&self.served.group, &self.served.kind),
                }
            ))),
        }
    }

    fn plain(&self, content: &Content) -> Result<Form, Status> {
        match content {
            Content::Entry(entry) => match self.accept.format {
                Format::Json => {
                    let json = self.json(entry)?;
                    Ok(match json.len() > LARGE && self.sends_stored(entry) {
                        true => Form::Stored(json),
                        false => Form::Whole(form::with_line_feed(&json)),
                    })
                }
                Format::Pretty => self.encoded_form(entry, CachedEncoding::Pretty),
                Format::Yaml => self.encoded_form(entry, CachedEncoding::Yaml),
                Format::Cbor => self.encoded_form(entry, CachedEncoding::Cbor),
                Format::Protobuf => {
                    let message = self.encoded(entry, CachedEncoding::Protobuf)?;
                    let (version, kind) = (&self.served.api_version, &self.served.kind);
                    Ok(Form::Whole(wire::envelope(version, kind, &message)))
                }
            },
            Content::Tree(tree) => match self.is_working_version() {
                true => self.tree(&self.served.ty, tree),
                false => {
                    let mut tree = tree.clone();
                    self.served.out_of_working_now(&mut tree);
                    self.tree(&self.served.ty, &tree)
                }
            },
            Content::Other { ty, value } => self.tree(ty, value),
        }
    }

    /// An object as `PartialObjectMetadata`.
    fn partial(&self, content: &Content, version: MetaVersion) -> Result<Form, Status> {
        if self.accept.format == Format::Protobuf {
            let message = match content {
                Content::Entry(entry) => self.encoded(entry, CachedEncoding::ProtobufMeta)?,
                Content::Tree(tree) | Content::Other { value: tree, .. } => {
                    protobuf_meta(&self.metadata_alone(tree))?
                }
            };
            return Ok(Form::Whole(wire::envelope(version.api_version(), "PartialObjectMetadata", &message)));
        }
        let mut text = partial_head(version).to_vec();
        match content {
            Content::Entry(entry) => text.extend_from_slice(&self.metadata(entry)?),
            Content::Tree(tree) | Content::Other { value: tree, .. } => {
                json::encode_shape(&object_meta()?, &self.metadata_alone(tree), &mut text);
            }
        }
        text.push(b'}');
        self.finish(text, builtin::by_name("meta.v1.PartialObjectMetadata"))
    }

    /// The metadata of a stored object by itself, as JSON.
    pub(crate) fn metadata<'e>(&self, entry: &'e Entry) -> Result<Cow<'e, [u8]>, Status> {
        let written = span::metadata(entry.bytes());
        if self.has_stored_metadata(entry) {
            return Ok(Cow::Borrowed(written));
        }
        let mut out = Vec::with_capacity(written.len());
        let tree = self.decoded(entry)?;
        json::encode_shape(&object_meta()?, &self.metadata_alone(&tree), &mut out);
        Ok(Cow::Owned(out))
    }

    /// Whether the metadata of an object by itself is a part of the stored bytes.
    pub(crate) fn has_stored_metadata(&self, entry: &Entry) -> bool {
        self.served.field_annotations.is_empty()
            && self.served.stored.as_ref().is_some_and(|stored| stored.has_metadata_as_stored(entry))
    }

    /// The metadata of a tree by itself.
    pub(crate) fn metadata_alone<'t>(&self, tree: &'t Value) -> Cow<'t, Value> {
        let metadata = metadata_of(tree);
        if self.served.field_annotations.is_empty() {
            return Cow::Borrowed(metadata);
        }
        Cow::Owned(self.without_fields(metadata.clone()))
    }

    /// Metadata without the annotations that hold fields of the object.
    fn without_fields(&self, mut metadata: Value) -> Value {
        let hidden = &self.served.field_annotations;
        if let Some(map) = metadata.as_map_mut()
            && let Some(annotations) = map.get_mut("annotations").and_then(Value::as_map_mut)
        {
            annotations.retain(|key, _| !hidden.iter().any(|hidden| **hidden == **key));
            if annotations.is_empty() {
                map.remove("annotations");
            }
        }
        metadata
    }

    /// JSON text of the type `ty` in the negotiated format.
    pub(crate) fn finish(&self, text: Vec<u8>, ty: Option<&'static Type>) -> Result<Form, Status> {
        rewrite(text, ty, self.accept.format)
    }

    /// A tree in the negotiated format.
    pub(crate) fn tree(&self, ty: &Type, value: &Value) -> Result<Form, Status> {
        encode(ty, value, self.accept.format)
    }

    /// The object as JSON in the requested version: the stored bytes if they are in that version.
    pub(crate) fn json(&self, entry: &Entry) -> Result<Bytes, Status> {
        if self.is_as_stored(entry) {
            Ok(entry.bytes().clone())
        } else {
            self.encoded(entry, CachedEncoding::Json)
        }
    }

    /// Converts the object of a response if that needs a webhook.
    pub(crate) async fn ready(&self, content: Content) -> Result<Content, Status> {
        match content {
            Content::Entry(entry) => {
                self.convert_one(&entry).await?;
                Ok(Content::Entry(entry))
            }
            other => Ok(other),
        }
    }

    /// Whether the requested version is the working version.
    pub(crate) fn is_working_version(&self) -> bool {
        self.served.stored.as_ref().is_some_and(|stored| stored.is_working_version)
    }

    /// Whether a response with an object is its stored bytes.
    pub(crate) fn sends_stored(&self, entry: &Entry) -> bool {
        self.accept.transform.is_none() && self.accept.format == Format::Json && self.is_as_stored(entry)
    }

    /// Whether the stored bytes of an object are what the requested version makes of it.
    pub(crate) fn is_as_stored(&self, entry: &Entry) -> bool {
        let stored = self.served.stored.as_ref();
        stored.is_some_and(|stored| stored.is_working_version && stored.is_as_worked_on(entry))
    }
}

/// A tree in a format.
pub(crate) fn encode(ty: &Type, value: &Value, format: Format) -> Result<Form, Status> {
    let mut out = Vec::with_capacity(1024);
    match format {
        Format::Json | Format::Pretty | Format::Yaml => {
            json::encode(ty, value, &mut out);
            return rewrite(out, None, format);
        }
        Format::Protobuf => protobuf::encode(ty, value, &mut out),
        Format::Cbor => cbor::encode(ty, value, &mut out),
    }
    Ok(Form::Whole(out.into()))
}

/// JSON text of the type `ty` in a format.
pub(crate) fn rewrite(mut text: Vec<u8>, ty: Option<&'static Type>, format: Format) -> Result<Form, Status> {
    match format {
        Format::Json => {
            text.push(b'\n');
            Ok(Form::Whole(text.into()))
        }
        Format::Pretty => Form::indented(text.into()),
        Format::Yaml => Form::yaml(&text),
        Format::Protobuf | Format::Cbor => {
            let ty = ty.ok_or_else(|| Status::internal_error("there is no such form"))?;
            let decoded = json::decode(ty, &text, &Limits::STORED);
            let value = decoded.map_err(|error| Status::internal_error(&error.to_string()))?.value;
            encode(ty, &value, format)
        }
    }
}

/// Whether the content is a `Status`, which is never transformed.
fn is_status(content: &Content) -> bool {
    matches!(content, Content::Other { ty, .. } if ty.name == "meta.v1.Status")
}

/// The JSON of a `PartialObjectMetadata` up to its metadata.
pub(crate) fn partial_head(version: MetaVersion) -> &'static [u8] {
    match version {
        MetaVersion::V1 => br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":"#,
        MetaVersion::V1beta1 => {
            br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1beta1","metadata":"#
        }
    }
}

/// The metadata of a tree.
pub(crate) fn metadata_of(tree: &Value) -> &Value {
    static NONE: Value = Value::Null;
    tree.get("metadata").unwrap_or(&NONE)
}

/// The shape of metadata.
pub(crate) fn object_meta() -> Result<Shape, Status> {
    let ty = builtin::by_name("meta.v1.ObjectMeta");
    ty.map(|ty| Shape::Struct(Ref::Static(ty))).ok_or_else(|| Status::internal_error("there is no metadata"))
}

/// The Protobuf message of a `PartialObjectMetadata`.
pub(crate) fn protobuf_meta(metadata: &Value) -> Result<Bytes, Status> {
    let Some(ty) = builtin::by_name("meta.v1.ObjectMeta") else {
        return Err(Status::internal_error("there is no metadata"));
    };
    let mut message = Vec::with_capacity(512);
    protobuf::encode_message(ty, metadata, &mut message);
    let mut out = Vec::with_capacity(message.len() + 8);
    wire::bytes_field(1, &message, &mut out);
    Ok(out.into())
}

/// Indented JSON, for documents of the server, whose size is bounded.
pub(crate) fn indented(text: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(text.len() * 2);
    json::indent(text, &mut out);
    out.into()
}

/// JSON as YAML, for documents of the server, whose size is bounded.
pub(crate) fn to_yaml(text: &[u8]) -> Result<Bytes, Status> {
    let mut out = Vec::with_capacity(text.len() + text.len() / 4);
    let text = String::from_utf8_lossy(text);
    yaml::from_json(&text, &mut out).map_err(|error| Status::internal_error(&error.to_string()))?;
    Ok(out.into())
}

#[cfg(test)]
mod tests;
