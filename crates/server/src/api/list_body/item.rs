//! One object of a list, in each format and transform.

use bytes::Bytes;
use cache::Entry;
use schema::{Status, builtin, cbor};

use super::CHUNK;
use crate::api::represent::encodings::CachedEncoding;
use crate::api::represent::form::{Form, LongForm};
use crate::api::represent::{ObjectEncoder, partial_head, wire};
use crate::negotiate::{Accept, Format, MetaVersion, Transform, TransformKind};

/// The encoding of the objects of a list.
#[derive(Debug, Clone, Copy)]
pub(super) enum ItemEncoding {
    /// JSON, without kind and version, which only items of custom kinds have.
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

/// The source of an object in a list.
pub(super) enum Source {
    /// The stored bytes.
    Stored,
    /// An encoding from the cache.
    Kept(Bytes),
    /// An encoding that has to be made.
    Missing,
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

    /// Whether this encoding decodes an object.
    pub(super) fn decodes(self, encoder: &ObjectEncoder, entry: &Entry) -> bool {
        match self {
            Self::Json | Self::Cached(CachedEncoding::PrettyItem | CachedEncoding::YamlItem) => {
                !encoder.is_as_stored(entry)
            }
            Self::Partial(..) | Self::Message(CachedEncoding::ProtobufMeta, _) => {
                !encoder.has_stored_metadata(entry)
            }
            Self::Cached(_) | Self::Message(..) | Self::Row(..) => true,
        }
    }

    /// The source of an object.
    pub(super) fn source(self, encoder: &ObjectEncoder, entry: &Entry) -> Source {
        let kept = match self {
            Self::Json if encoder.is_as_stored(entry) => return Source::Stored,
            Self::Json => encoder.kept(entry, CachedEncoding::Json),
            Self::Cached(encoding) | Self::Message(encoding, _) => encoder.kept(entry, encoding),
            Self::Partial(Format::Json, _) if encoder.has_stored_metadata(entry) => return Source::Stored,
            Self::Row(Format::Json, _) => encoder.kept_row(entry),
            Self::Partial(..) | Self::Row(..) => None,
        };
        kept.map_or(Source::Missing, Source::Kept)
    }

    /// Whether the size of an object must be known before the start of the list.
    pub(super) fn is_measured(self) -> bool {
        matches!(self, Self::Message(..))
    }

    /// The size of an object, if it must be known before the start of the list.
    pub(super) fn size(
        self,
        encoder: &ObjectEncoder,
        entry: &Entry,
        source: &Source,
    ) -> Result<usize, Status> {
        let Self::Message(message, number) = self else { return Ok(0) };
        let len = match source {
            Source::Kept(bytes) => bytes.len(),
            Source::Stored | Source::Missing => encoder.encoded(entry, message)?.len(),
        };
        Ok(wire::field_len(number, len))
    }

    /// Writes an object, or its beginning; returns what is left of it.
    pub(super) fn write(
        self,
        encoder: &ObjectEncoder,
        entry: &Entry,
        source: Source,
        out: &mut Vec<u8>,
    ) -> Result<Rest, Status> {
        let form = match (self, source) {
            (_, Source::Kept(bytes)) => return self.write_kept(encoder, entry, &bytes, out),
            (Self::Json, Source::Stored) => {
                return Ok(match self.write_kept(encoder, entry, entry.bytes(), out)? {
                    Rest::Encoded(bytes) => Rest::Stored(bytes),
                    other => other,
                });
            }
            (Self::Cached(encoding), _) => encoder.encoded_form(entry, encoding)?,
            (Self::Partial(format, version), _) if format != Format::Json => {
                let mut text = Vec::with_capacity(1024);
                write_partial(encoder, entry, version, &mut text)?;
                in_format("items", text, format, encoder)?
            }
            (Self::Row(format, version), _) if format != Format::Json => {
                let mut text = Vec::with_capacity(1024);
                encoder.row(entry, version, &mut text)?;
                in_format("rows", text, format, encoder)?
            }
            _ => return self.write_plain(encoder, entry, out),
        };
        match form {
            Form::Long(form) => Ok(Rest::Long(form)),
            short => Ok(Rest::of(&short.into_bytes()?, out)),
        }
    }

    /// Writes an object in a format that is not much longer than JSON.
    fn write_plain(self, encoder: &ObjectEncoder, entry: &Entry, out: &mut Vec<u8>) -> Result<Rest, Status> {
        match self {
            Self::Json => return self.write_kept(encoder, entry, &encoder.json(entry)?, out),
            Self::Cached(encoding) | Self::Message(encoding, _) => {
                return self.write_kept(encoder, entry, &encoder.encoded(entry, encoding)?, out);
            }
            Self::Partial(_, version) => write_partial(encoder, entry, version, out)?,
            Self::Row(_, version) => encoder.row(entry, version, out)?,
        }
        Ok(Rest::Nothing)
    }

    /// Writes an object from its cached encoding, or from its JSON.
    fn write_kept(
        self,
        encoder: &ObjectEncoder,
        entry: &Entry,
        kept: &Bytes,
        out: &mut Vec<u8>,
    ) -> Result<Rest, Status> {
        match self {
            Self::Json => {
                out.push(b'{');
                return Ok(Rest::of_part(kept, encoder.after_head(kept), out));
            }
            Self::Message(_, number) => wire::field_head(number, kept.len(), out),
            Self::Row(_, version) => {
                encoder.write_row(kept, entry, version, out)?;
                return Ok(Rest::Nothing);
            }
            Self::Cached(_) | Self::Partial(..) => {}
        }
        Ok(Rest::of(kept, out))
    }
}

/// The rest of an object whose beginning was written.
pub(super) enum Rest {
    Nothing,
    /// A part of its stored bytes, which is sent without a copy.
    Stored(Bytes),
    /// A part of another encoding, which is sent without a copy.
    Encoded(Bytes),
    /// The writer of the rest.
    Long(Box<LongForm>),
}

impl Rest {
    /// The last bytes of an object: written if they are few, otherwise left.
    fn of(bytes: &Bytes, out: &mut Vec<u8>) -> Self {
        Self::of_part(bytes, bytes, out)
    }

    /// The last bytes of an object: `part`, a slice of `bytes`.
    fn of_part(bytes: &Bytes, part: &[u8], out: &mut Vec<u8>) -> Self {
        if part.len() > CHUNK {
            return Self::Encoded(bytes.slice_ref(part));
        }
        out.extend_from_slice(part);
        Self::Nothing
    }
}

fn write_partial(
    encoder: &ObjectEncoder,
    entry: &Entry,
    version: MetaVersion,
    out: &mut Vec<u8>,
) -> Result<(), Status> {
    out.extend_from_slice(partial_head(version));
    out.extend_from_slice(&encoder.metadata(entry)?);
    out.push(b'}');
    Ok(())
}

/// JSON as an item of a list in another format.
fn in_format(list: &str, text: Vec<u8>, format: Format, encoder: &ObjectEncoder) -> Result<Form, Status> {
    match format {
        Format::Pretty => Form::indented_item(text.into()),
        Format::Yaml => Form::yaml_item(list, &text),
        Format::Cbor => {
            let item =
                encoder.finish(text, builtin::by_name("meta.v1.PartialObjectMetadata"))?.into_bytes()?;
            Ok(Form::Whole(item.slice(item.len().min(cbor::PREFIX.len())..)))
        }
        Format::Json | Format::Protobuf => Ok(Form::Whole(text.into())),
    }
}
