//! One object of a list, in each format and form.

use bytes::Bytes;
use cache::Entry;
use schema::{Status, builtin, cbor};

use crate::api::negotiate::{Accept, Format, MetaVersion, Target, TargetKind};
use crate::api::represent::forms::{Form, pretty_item, yaml_item};
use crate::api::represent::{View, partial_head, wire};

/// How the objects of a list are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Item {
    /// JSON, without kind and version.
    Json,
    /// A kept writing, as it is.
    Kept(Form),
    /// A kept message, as the field with this number.
    Message(Form, u32),
    /// The metadata.
    Partial(Format, MetaVersion),
    /// A row.
    Row(Format, MetaVersion),
}

impl Item {
    pub(super) fn of(accept: Accept) -> Self {
        match (accept.target, accept.format) {
            (None, Format::Json) => Self::Json,
            (None, Format::Pretty) => Self::Kept(Form::PrettyItem),
            (None, Format::Yaml) => Self::Kept(Form::YamlItem),
            (None, Format::Cbor) => Self::Kept(Form::CborItem),
            (None, Format::Protobuf) => Self::Message(Form::Protobuf, 2),
            (Some(Target { kind: TargetKind::Table, version }), format) => Self::Row(format, version),
            (Some(Target { version, .. }), Format::Protobuf) => {
                let number = if version == MetaVersion::V1beta1 { 1 } else { 2 };
                Self::Message(Form::ProtobufMeta, number)
            }
            (Some(Target { version, .. }), format) => Self::Partial(format, version),
        }
    }

    /// How long an object is, where that has to be known before the start.
    pub(super) fn size(self, view: &View, entry: &Entry) -> Result<usize, Status> {
        match self {
            Self::Message(form, number) => Ok(wire::field_len(number, view.form(entry, form)?.len())),
            _ => Ok(0),
        }
    }

    /// Writes an object.
    pub(super) fn write(self, view: &View, entry: &Entry, out: &mut Vec<u8>) -> Result<(), Status> {
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
            Self::Kept(form) => out.extend_from_slice(&view.form(entry, form)?),
            Self::Message(form, number) => wire::bytes_field(number, &view.form(entry, form)?, out),
            Self::Partial(Format::Json, version) => write_partial(view, entry, version, out)?,
            Self::Row(Format::Json, version) => view.row(entry, version, out)?,
            Self::Partial(format, version) => {
                let mut text = Vec::with_capacity(1024);
                write_partial(view, entry, version, &mut text)?;
                out.extend_from_slice(&in_format("items", text, format, view)?);
            }
            Self::Row(format, version) => {
                let mut text = Vec::with_capacity(1024);
                view.row(entry, version, &mut text)?;
                out.extend_from_slice(&in_format("rows", text, format, view)?);
            }
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

/// JSON as it stands in a list of another format.
fn in_format(list: &str, text: Vec<u8>, format: Format, view: &View) -> Result<Bytes, Status> {
    match format {
        Format::Pretty => pretty_item(&text),
        Format::Yaml => yaml_item(list, &text),
        Format::Cbor => {
            let item = view.finish(text, builtin::by_name("meta.v1.PartialObjectMetadata"))?;
            Ok(item.slice(item.len().min(cbor::PREFIX.len())..))
        }
        Format::Json | Format::Protobuf => Ok(text.into()),
    }
}
