//! One object of a list, in each format and transform.

use cache::Entry;
use schema::{Status, builtin, cbor};

use crate::api::negotiate::{Accept, Format, MetaVersion, Transform, TransformKind};
use crate::api::represent::encodings::CachedEncoding;
use crate::api::represent::form::{Form, LongForm};
use crate::api::represent::{View, partial_head, wire};

/// How the objects of a list are encoded.
#[derive(Debug, Clone, Copy)]
pub(super) enum ItemEncoding {
    /// JSON, without kind and version.
    Json,
    /// A cached encoding.
    Cached(CachedEncoding),
    /// A cached Protobuf message, as the field with this number.
    Message(CachedEncoding, u32),
    /// `PartialObjectMetadata`.
    Partial(Format, MetaVersion),
    /// A table row.
    Row(Format, MetaVersion),
}

impl ItemEncoding {
    pub(super) fn of(accept: Accept) -> Self {
        match (accept.transform, accept.format) {
            (None, Format::Json) => Self::Json,
            (None, Format::Pretty) => Self::Cached(CachedEncoding::PrettyItem),
            (None, Format::Yaml) => Self::Cached(CachedEncoding::YamlItem),
            (None, Format::Cbor) => Self::Cached(CachedEncoding::CborItem),
            (None, Format::Protobuf) => Self::Message(CachedEncoding::Protobuf, 2),
            (Some(Transform { kind: TransformKind::Table, version }), format) => Self::Row(format, version),
            (Some(Transform { version, .. }), Format::Protobuf) => {
                let number = if version == MetaVersion::V1beta1 { 1 } else { 2 };
                Self::Message(CachedEncoding::ProtobufMeta, number)
            }
            (Some(Transform { version, .. }), format) => Self::Partial(format, version),
        }
    }

    /// The size of an object, if it must be known before the start of the list.
    pub(super) fn size(self, view: &View, entry: &Entry) -> Result<usize, Status> {
        match self {
            Self::Message(message, number) => {
                Ok(wire::field_len(number, view.encoded(entry, message)?.len()))
            }
            _ => Ok(0),
        }
    }

    /// Writes an object; returns what writes it if it is long.
    pub(super) fn write(
        self,
        view: &View,
        entry: &Entry,
        out: &mut Vec<u8>,
    ) -> Result<Option<Box<LongForm>>, Status> {
        let form = match self {
            Self::Cached(encoding) => view.encoded_form(entry, encoding)?,
            Self::Partial(format, version) if format != Format::Json => {
                let mut text = Vec::with_capacity(1024);
                write_partial(view, entry, version, &mut text)?;
                in_format("items", text, format, view)?
            }
            Self::Row(format, version) if format != Format::Json => {
                let mut text = Vec::with_capacity(1024);
                view.row(entry, version, &mut text)?;
                in_format("rows", text, format, view)?
            }
            _ => return self.write_plain(view, entry, out).map(|()| None),
        };
        match form {
            Form::Whole(bytes) => out.extend_from_slice(&bytes),
            Form::Long(form) => return Ok(Some(form)),
        }
        Ok(None)
    }

    /// Writes an object in a format that is not much longer than JSON.
    fn write_plain(self, view: &View, entry: &Entry, out: &mut Vec<u8>) -> Result<(), Status> {
        match self {
            Self::Json if view.is_as_stored(entry) => {
                out.push(b'{');
                out.extend_from_slice(view.after_head(entry.bytes()));
            }
            Self::Json => {
                let json = view.json(entry)?;
                out.push(b'{');
                out.extend_from_slice(view.after_head(&json));
            }
            Self::Cached(encoding) => out.extend_from_slice(&view.encoded(entry, encoding)?),
            Self::Message(message, number) => wire::bytes_field(number, &view.encoded(entry, message)?, out),
            Self::Partial(_, version) => write_partial(view, entry, version, out)?,
            Self::Row(_, version) => view.row(entry, version, out)?,
        }
        Ok(())
    }
}

fn write_partial(view: &View, entry: &Entry, version: MetaVersion, out: &mut Vec<u8>) -> Result<(), Status> {
    out.extend_from_slice(partial_head(version));
    out.extend_from_slice(&view.metadata(entry)?);
    out.push(b'}');
    Ok(())
}

/// JSON as an item of a list in another format.
fn in_format(list: &str, text: Vec<u8>, format: Format, view: &View) -> Result<Form, Status> {
    match format {
        Format::Pretty => Form::indented_item(text.into()),
        Format::Yaml => Form::yaml_item(list, &text),
        Format::Cbor => {
            let item = view.finish(text, builtin::by_name("meta.v1.PartialObjectMetadata"))?.into_bytes()?;
            Ok(Form::Whole(item.slice(item.len().min(cbor::PREFIX.len())..)))
        }
        Format::Json | Format::Protobuf => Ok(Form::Whole(text.into())),
    }
}
