//! The cached encodings of a stored object: their cache ids, and how each is computed.
//!
//! The cache key is the object's revision and a cache id, which is derived from the number of the encoding
//! and the id of the [`Served`]. A kind that changes gets a new `Served`, so an encoding from before the
//! change is never used.

use bytes::Bytes;
use cache::{Encoding, Entry};
use kinds::RowFn;
use object::Value;
use registry::Served;
use schema::{Limits, Status, cbor, json, protobuf};

use super::form::Form;
use super::{ObjectEncoder, object_meta, protobuf_meta, span, table};

/// The encodings of a stored object that are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CachedEncoding {
    /// JSON of another version than the stored one.
    Json = 0,
    /// The Protobuf message, without its envelope.
    Protobuf = 1,
    /// The Protobuf message of the object as `PartialObjectMetadata`, without its envelope.
    ProtobufMeta = 2,
    /// CBOR.
    Cbor = 3,
    /// CBOR as an item of a list: without `kind` and `apiVersion`, and without the tag in front.
    CborItem = 4,
    /// YAML.
    Yaml = 5,
    /// YAML as an item of a list.
    YamlItem = 6,
    /// Indented JSON.
    Pretty = 7,
    /// Indented JSON as an item of a list.
    PrettyItem = 8,
    /// A row of a table, see [`table::Row`].
    Row = 9,
}

/// More than the number of encodings of objects, and of watch events.
const ENCODINGS: u32 = 16;

/// The cache id of an encoding in the requested version.
pub(crate) fn cache_id(encoding: CachedEncoding, served: &Served) -> Encoding {
    numbered(encoding as u32, served)
}

/// The cache id of a number below `ENCODINGS` in the requested version.
pub(crate) fn numbered(number: u32, served: &Served) -> Encoding {
    Encoding(served.id * ENCODINGS + number)
}

impl ObjectEncoder {
    /// An encoding of a stored object, if it is held by the response or in the cache.
    pub(crate) fn kept(&self, entry: &Entry, encoding: CachedEncoding) -> Option<Bytes> {
        if encoding == CachedEncoding::Json
            && let Some(held) = self.converted_json(entry)
        {
            return Some(held);
        }
        self.cache.encodings().kept(entry, cache_id(encoding, &self.served))
    }

    /// An encoding of a stored object that is not indented, from the cache if it is there.
    pub(crate) fn encoded(&self, entry: &Entry, encoding: CachedEncoding) -> Result<Bytes, Status> {
        self.encoded_form(entry, encoding)?.into_bytes()
    }

    /// An encoding of a stored object, from the cache if it is there. A long form is not kept.
    pub(crate) fn encoded_form(&self, entry: &Entry, encoding: CachedEncoding) -> Result<Form, Status> {
        if let Some(held) = self.converted_json(entry).filter(|_| encoding == CachedEncoding::Json) {
            return Ok(Form::Whole(held));
        }
        let id = cache_id(encoding, &self.served);
        let kept = self.cache.encodings().get(entry, id, |entry| match self.encode(entry, encoding) {
            Ok(Form::Whole(bytes)) => Ok(bytes),
            not_kept => Err(not_kept),
        });
        kept.map_or_else(|not_kept| not_kept, |bytes| Ok(Form::Whole(bytes)))
    }

    fn encode(&self, entry: &Entry, encoding: CachedEncoding) -> Result<Form, Status> {
        match encoding {
            CachedEncoding::Yaml => Form::yaml(&self.json(entry)?),
            CachedEncoding::YamlItem => Form::yaml_item("items", &self.item(entry)?),
            CachedEncoding::Pretty => Form::indented(self.json(entry)?),
            CachedEncoding::PrettyItem => Form::indented_item(self.item(entry)?.into()),
            other => self.encode_plain(entry, other).map(Form::Whole),
        }
    }

    fn encode_plain(&self, entry: &Entry, encoding: CachedEncoding) -> Result<Bytes, Status> {
        match encoding {
            CachedEncoding::Json => {
                let mut out = Vec::with_capacity(entry.bytes().len());
                json::encode(&self.served.ty, &self.decoded(entry)?, &mut out);
                Ok(out.into())
            }
            CachedEncoding::Protobuf => {
                let mut out = Vec::with_capacity(entry.bytes().len());
                protobuf::encode_message(&self.served.ty, &self.decoded(entry)?, &mut out);
                Ok(out.into())
            }
            CachedEncoding::ProtobufMeta => {
                let metadata = json::decode_shape(&object_meta()?, &self.metadata(entry)?, &Limits::STORED);
                let metadata = metadata.map_err(|error| Status::internal_error(&error.to_string()))?;
                protobuf_meta(&metadata.value)
            }
            CachedEncoding::Cbor => {
                let mut out = Vec::with_capacity(entry.bytes().len());
                cbor::encode(&self.served.ty, &self.decoded(entry)?, &mut out);
                Ok(out.into())
            }
            CachedEncoding::CborItem => {
                let mut tree = self.decoded(entry)?;
                if let Some(map) = tree.as_map_mut().filter(|_| !self.names_items()) {
                    map.remove("kind");
                    map.remove("apiVersion");
                }
                let mut out = Vec::with_capacity(entry.bytes().len());
                cbor::encode(&self.served.ty, &tree, &mut out);
                Ok(Bytes::from(out).slice(cbor::PREFIX.len()..))
            }
            CachedEncoding::Yaml
            | CachedEncoding::YamlItem
            | CachedEncoding::Pretty
            | CachedEncoding::PrettyItem => self.encode(entry, encoding)?.into_bytes(),
            CachedEncoding::Row => {
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

    /// The tree of a stored object, in the requested version.
    pub(super) fn decoded(&self, entry: &Entry) -> Result<Value, Status> {
        let Some(stored) = &self.served.stored else {
            return Err(Status::internal_error("the kind has no objects"));
        };
        if self.converted.is_some() && !self.is_as_stored(entry) {
            return self.converted_tree(entry);
        }
        let mut tree = stored.decode_now(entry)?;
        if !stored.is_working_version {
            self.served.out_of_working_now(&mut tree);
        }
        Ok(tree)
    }

    /// Whether the items of a list say what they are: those of custom kinds do.
    pub(crate) fn names_items(&self) -> bool {
        self.accept.transform.is_none() && self.served.is_custom()
    }

    /// The object as an item of a list: JSON, without `kind` and `apiVersion` unless items have them.
    fn item(&self, entry: &Entry) -> Result<Vec<u8>, Status> {
        let json = self.json(entry)?;
        let rest = self.after_head(&json);
        let mut item = Vec::with_capacity(rest.len() + 1);
        item.push(b'{');
        item.extend_from_slice(rest);
        Ok(item)
    }

    /// The part of an object's JSON that an item of a list has: what comes after `kind` and `apiVersion`, or,
    /// where items have them, everything; without the first brace, and with the last.
    pub(crate) fn after_head<'j>(&self, json: &'j [u8]) -> &'j [u8] {
        if self.names_items() {
            return json.strip_prefix(b"{").unwrap_or(json);
        }
        let rest = json.strip_prefix(&*self.served.head).unwrap_or_else(|| span::after_kind(json));
        rest.strip_prefix(b",").unwrap_or(rest)
    }
}
