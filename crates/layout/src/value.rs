//! Translation between Keelson's values and those of the reference.

use crate::definition;
use bytes::Bytes;
use kinds::{Kind, OldVersion, Version};
use object::Value;
use schema::protobuf::{self, Envelope};
use schema::structural::readable_metadata;
use schema::{Decoded, Error, Limits, Ref, Shape, Type, builtin, cbor, json, unstructured};

/// How objects of built-in kinds are written: `--storage-media-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaType {
    /// `application/vnd.kubernetes.protobuf`.
    #[default]
    Protobuf,
    /// `application/json`.
    Json,
}

/// How objects of custom kinds are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CustomMediaType {
    /// `application/json`.
    #[default]
    Json,
    /// `application/cbor`: with the feature gate `CBORServingAndStorage`.
    Cbor,
}

/// The prefix of Protobuf in its envelope.
const ENVELOPE: &[u8] = b"k8s\0";

/// The groups whose objects the reference always writes as JSON: other servers within it keep them.
const ALWAYS_JSON: [&str; 2] = [definition::GROUP, "apiregistration.k8s.io"];

/// The stored form of an object of a built-in kind, from its JSON.
pub(crate) fn encode(kind: &Kind, text: &[u8], media_type: MediaType) -> Result<Bytes, String> {
    let Read { ty, mut object, .. } = Read::json(kind, text)?;
    let mut out = Vec::with_capacity(text.len());
    if media_type == MediaType::Protobuf && !ALWAYS_JSON.contains(&kind.group) {
        protobuf::encode(ty, &object, &mut out);
        return Ok(out.into());
    }
    if definition::is_one(kind) {
        definition::to_stored(&mut object);
        json::encode(definition::stored_type(), &object, &mut out);
    } else {
        json::encode(ty, &object, &mut out);
    }
    out.push(b'\n');
    Ok(out.into())
}

/// The JSON of an object of a built-in kind, from its stored form: with the defaults of its version, as the
/// reference reads it. An object of a version that is no longer served is converted to the storage version.
pub(crate) fn decode(kind: &Kind, stored: &[u8], families: [&'static str; 2]) -> Result<Vec<u8>, String> {
    let Read { version, mut ty, mut object } = match stored.starts_with(ENVELOPE) {
        true => Read::protobuf(kind, stored)?,
        false if definition::is_one(kind) => Read::definition(kind, stored)?,
        false => Read::json(kind, stored)?,
    };
    schema::default(ty, &mut object);
    if let Some(map) = object.as_map_mut() {
        match version {
            ReadVersion::Served(Version { conversion: Some(conversion), .. }) => (conversion.default)(map),
            ReadVersion::Old(OldVersion { upgrade: Some(upgrade), .. }) => upgrade(map),
            ReadVersion::Served(_) | ReadVersion::Old(_) => kind.strategy.default(map),
        }
        if let ReadVersion::Old(_) = version {
            let storage = storage_version(kind)?;
            ty = type_of(kind, storage)?;
            map.insert("apiVersion", kinds::api_version(kind.group, storage.name));
        }
        kind.strategy.complete_stored(map, families);
    }
    let mut text = Vec::with_capacity(stored.len() * 2);
    json::encode(ty, &object, &mut text);
    Ok(text)
}

/// The stored form of an object of a custom kind.
pub(crate) fn encode_custom(text: &[u8], media_type: CustomMediaType) -> Result<Bytes, String> {
    let decoded =
        json::decode_shape(&Shape::Any, text, &Limits::STORED).map_err(|error| error.to_string())?;
    let mut object = decoded.value;
    if let Some(metadata) = metadata_of(&mut object).and_then(Value::as_map_mut) {
        metadata.remove("resourceVersion");
    }
    let mut out = Vec::with_capacity(text.len());
    match media_type {
        CustomMediaType::Json => {
            sort(&mut object);
            json::encode_shape(&Shape::Any, &object, &mut out);
            out.push(b'\n');
        }
        CustomMediaType::Cbor => cbor::encode_shape(&Shape::Any, &object, &mut out),
    }
    Ok(out.into())
}

/// An object of a custom kind that was read.
pub(crate) struct ReadCustom {
    /// Its JSON.
    pub(crate) text: Vec<u8>,
    /// Whether a write of the same object gives other bytes.
    pub(crate) is_stale: bool,
}

/// Reads an object of a custom kind, whichever way it is written. As in the reference, malformed and unknown
/// fields of the metadata are dropped, and an object without a generation has the first one.
pub(crate) fn decode_custom(stored: &[u8], media_type: CustomMediaType) -> Result<ReadCustom, String> {
    type Decode = fn(&Shape, &[u8], &Limits) -> Result<Decoded, Error>;
    let (found, decode): (_, Decode) = match stored.starts_with(&cbor::PREFIX) {
        true => (CustomMediaType::Cbor, cbor::decode_shape),
        false => (CustomMediaType::Json, json::decode_shape),
    };
    let mut is_stale = found != media_type;
    let mut object = match decode(&Shape::Struct(unstructured().clone()), stored, &Limits::STORED) {
        Ok(decoded) => {
            is_stale |= !decoded.strict.is_empty();
            decoded.value
        }
        Err(error) => {
            is_stale = true;
            repaired(decode, stored).ok_or_else(|| error.to_string())?
        }
    };
    if let Some(metadata) = metadata_of(&mut object).and_then(Value::as_map_mut)
        && matches!(metadata.get("generation"), None | Some(Value::Int(0)))
    {
        is_stale = true;
        metadata.insert("generation", 1);
    }
    let mut text = Vec::with_capacity(stored.len() + 64);
    json::encode(unstructured(), &object, &mut text);
    Ok(ReadCustom { text, is_stale })
}

/// An object without the malformed fields of its metadata, if that makes it readable.
fn repaired(
    decode: impl Fn(&Shape, &[u8], &Limits) -> Result<Decoded, Error>,
    stored: &[u8],
) -> Option<Value> {
    let mut object = decode(&Shape::Any, stored, &Limits::STORED).ok()?.value;
    let metadata = metadata_of(&mut object)?;
    *metadata = readable_metadata(metadata)?;
    let mut text = Vec::with_capacity(stored.len());
    json::encode_shape(&Shape::Any, &object, &mut text);
    read_json(unstructured(), &text).ok()
}

fn metadata_of(object: &mut Value) -> Option<&mut Value> {
    object.as_map_mut()?.get_mut("metadata")
}

/// A tree in one of the versions of its kind.
struct Read {
    version: ReadVersion,
    ty: &'static Type,
    object: Value,
}

/// The version of a stored object.
enum ReadVersion {
    /// A version that is served.
    Served(&'static Version),
    /// A version that is not served any more.
    Old(&'static OldVersion),
}

impl Read {
    /// Reads JSON: as an object of the storage version, or of the version that it names.
    fn json(kind: &Kind, text: &[u8]) -> Result<Self, String> {
        let ty = type_of(kind, storage_version(kind)?)?;
        let object = read_json(ty, text)?;
        let (version, ty_named) = named(kind, api_version(&object))?;
        match std::ptr::eq(ty, ty_named) {
            true => Ok(Self { version, ty, object }),
            false => Ok(Self { version, ty: ty_named, object: read_json(ty_named, text)? }),
        }
    }

    fn protobuf(kind: &Kind, stored: &[u8]) -> Result<Self, String> {
        let envelope = Envelope::read(stored).map_err(|error| error.to_string())?;
        let (version, ty) = named(kind, envelope.api_version)?;
        let object = protobuf::decode(ty, stored, &Limits::STORED).map_err(|error| error.to_string())?;
        Ok(Self { version, ty, object })
    }

    fn definition(kind: &Kind, stored: &[u8]) -> Result<Self, String> {
        let mut object = read_json(unstructured(), stored)?;
        definition::from_stored(&mut object);
        let mut text = Vec::with_capacity(stored.len());
        json::encode(unstructured(), &object, &mut text);
        Self::json(kind, &text)
    }
}

fn api_version(object: &Value) -> &str {
    object.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
}

/// The version of a kind with this name, and its type.
fn named(kind: &Kind, api_version: &str) -> Result<(ReadVersion, &'static Type), String> {
    let (group, name) = api_version.split_once('/').unwrap_or(("", api_version));
    if let Some(version) = kind.version(name).filter(|_| group == kind.group) {
        return Ok((ReadVersion::Served(version), type_of(kind, version)?));
    }
    let old = kind.old_version(api_version);
    let old = old.ok_or_else(|| format!("{} has no version {api_version:?}", kind.kind))?;
    let ty = match old.ty {
        Some(ty) => ty(),
        None => type_of(kind, storage_version(kind)?)?,
    };
    Ok((ReadVersion::Old(old), ty))
}

fn storage_version(kind: &Kind) -> Result<&'static Version, String> {
    kind.storage_version().ok_or_else(|| "nothing of its kind is stored".to_owned())
}

fn type_of(kind: &Kind, version: &Version) -> Result<&'static Type, String> {
    let ty = builtin::by_kind(kind.group, version.name, kind.kind);
    ty.ok_or_else(|| format!("{} {} has no type", kind.kind, version.name))
}

fn read_json(ty: impl Into<Ref<Type>>, text: &[u8]) -> Result<Value, String> {
    json::decode(ty, text, &Limits::STORED).map(|decoded| decoded.value).map_err(|error| error.to_string())
}

/// Orders the keys of all maps, as the reference writes them.
fn sort(value: &mut Value) {
    match value {
        Value::Map(map) => {
            map.sort_keys();
            map.iter_mut().for_each(|(_, value)| sort(value));
        }
        Value::List(list) => list.iter_mut().for_each(sort),
        _ => {}
    }
}
