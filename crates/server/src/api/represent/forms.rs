//! The writings of a stored object that are kept: their numbers, and how each is made.
//!
//! A writing is told from others by the object's revision and a number, which is made of the form's number and of that of the
//! [`Served`] it was made for. A kind that changes is another `Served`, so that nothing is shown in a form that was made for what
//! the kind was before.

use std::sync::PoisonError;

use bytes::Bytes;
use cache::{Encoding, Entry};
use kinds::RowFn;
use object::Value;
use registry::Served;
use schema::{Limits, Status, cbor, json, protobuf};

use super::{View, indented, object_meta, protobuf_meta, span, table, to_yaml};

/// The forms that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON of another version than the stored one.
    Json = 0,
    /// The Protobuf message, without its envelope.
    Protobuf = 1,
    /// The Protobuf message of an object with nothing but the metadata.
    ProtobufMeta = 2,
    /// CBOR.
    Cbor = 3,
    /// CBOR as it stands in a list: without kind and version, and without the tag in front.
    CborItem = 4,
    /// YAML.
    Yaml = 5,
    /// YAML as it stands in a list.
    YamlItem = 6,
    /// Indented JSON.
    Pretty = 7,
    /// Indented JSON as it stands in a list.
    PrettyItem = 8,
    /// A row of a table, see [`table::Row`].
    Row = 9,
}

/// How many forms there can be, those of watch events included.
const FORMS: u32 = 16;

/// The number of a form in the version that is asked for.
pub(crate) fn encoding(form: Form, served: &Served) -> Encoding {
    numbered(form as u32, served)
}

/// A number, one of those that somebody counts, for the version that is asked for.
pub(crate) fn numbered(number: u32, served: &Served) -> Encoding {
    Encoding(served.id * FORMS + number)
}

impl View {
    /// A form of a stored object: kept, or made.
    pub(crate) fn form(&self, entry: &Entry, form: Form) -> Result<Bytes, Status> {
        let encoding = encoding(form, &self.served);
        self.cache.encodings().get(entry, encoding, |entry| self.make(entry, form))
    }

    fn make(&self, entry: &Entry, form: Form) -> Result<Bytes, Status> {
        match form {
            Form::Json => {
                let mut out = Vec::with_capacity(entry.bytes().len());
                json::encode(&self.served.ty, &self.decoded(entry)?, &mut out);
                Ok(out.into())
            }
            Form::Protobuf => {
                let mut out = Vec::with_capacity(entry.bytes().len());
                protobuf::encode_message(&self.served.ty, &self.decoded(entry)?, &mut out);
                Ok(out.into())
            }
            Form::ProtobufMeta => {
                let metadata = json::decode_shape(&object_meta()?, &self.metadata(entry)?, &Limits::STORED);
                let metadata = metadata.map_err(|error| Status::internal_error(&error.to_string()))?;
                protobuf_meta(&metadata.value)
            }
            Form::Cbor => {
                let mut out = Vec::with_capacity(entry.bytes().len());
                cbor::encode(&self.served.ty, &self.decoded(entry)?, &mut out);
                Ok(out.into())
            }
            Form::CborItem => {
                let mut tree = self.decoded(entry)?;
                if let Some(map) = tree.as_map_mut() {
                    map.remove("kind");
                    map.remove("apiVersion");
                }
                let mut out = Vec::with_capacity(entry.bytes().len());
                cbor::encode(&self.served.ty, &tree, &mut out);
                Ok(Bytes::from(out).slice(cbor::PREFIX.len()..))
            }
            Form::Yaml => to_yaml(&self.json(entry)?),
            Form::YamlItem => yaml_item("items", &self.item(entry)?),
            Form::Pretty => Ok(indented(&self.json(entry)?)),
            Form::PrettyItem => pretty_item(&self.item(entry)?),
            Form::Row => {
                let Some(stored) = &self.served.stored else {
                    return Err(Status::internal_error("the kind has no objects"));
                };
                // The columns of a custom kind are those of the version that was asked for.
                let tree = match &self.served.row {
                    RowFn::Builtin(_) => stored.decode_now(entry)?,
                    RowFn::Custom(_) => self.decoded(entry)?,
                };
                let row = self.served.row.row(table::map_of(&tree));
                Ok(table::Row::make(&row, span::metadata_range(entry.bytes())))
            }
        }
    }

    /// The tree of a stored object, in the version that was asked for.
    pub(super) fn decoded(&self, entry: &Entry) -> Result<Value, Status> {
        let Some(stored) = &self.served.stored else {
            return Err(Status::internal_error("the kind has no objects"));
        };
        if self.served.read_waits() && !self.is_as_stored(entry) {
            let key = (entry.key().to_owned(), entry.mod_revision());
            let converted = self.converted.lock().unwrap_or_else(PoisonError::into_inner);
            let object = converted.get(&key).cloned();
            return object.ok_or_else(|| Status::internal_error("an object was not converted ahead"));
        }
        let mut tree = stored.decode_now(entry)?;
        if !stored.is_storage_version {
            self.served.from_storage_now(&mut tree);
        }
        Ok(tree)
    }

    /// The object as it stands in a list: JSON without kind and version.
    fn item(&self, entry: &Entry) -> Result<Vec<u8>, Status> {
        let json = self.json(entry)?;
        let rest = self.after_head(&json);
        let mut item = Vec::with_capacity(rest.len() + 1);
        item.push(b'{');
        item.extend_from_slice(rest);
        Ok(item)
    }

    /// What stands in the JSON of an object after its kind and version, up to and with the last brace.
    pub(crate) fn after_head<'j>(&self, json: &'j [u8]) -> &'j [u8] {
        let rest = json.strip_prefix(&*self.served.head).unwrap_or_else(|| span::after_kind(json));
        rest.strip_prefix(b",").unwrap_or(rest)
    }
}

/// JSON as YAML, as it stands in a list called `key`.
pub(crate) fn yaml_item(key: &str, item: &[u8]) -> Result<Bytes, Status> {
    let text = wrapped(key, item);
    let yaml = to_yaml(&text)?;
    // The key, a colon, a line feed.
    Ok(yaml.slice(yaml.len().min(key.len() + 2)..))
}

/// JSON over many lines, as it stands in a list.
pub(crate) fn pretty_item(item: &[u8]) -> Result<Bytes, Status> {
    const BEFORE: usize = "{\n  \"items\": [\n".len();
    const AFTER: usize = "\n  ]\n}".len();
    let text = indented(&wrapped("items", item));
    let end = text.len().saturating_sub(AFTER);
    Ok(text.slice(BEFORE.min(end)..end))
}

/// `{"key":[item]}`.
fn wrapped(key: &str, item: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(item.len() + key.len() + 8);
    text.extend_from_slice(b"{\"");
    text.extend_from_slice(key.as_bytes());
    text.extend_from_slice(b"\":[");
    text.extend_from_slice(item);
    text.extend_from_slice(b"]}");
    text
}
