//! Encodes a `Status` in the negotiated format.

use bytes::Bytes;
use schema::{Limits, Status, builtin, json};

use super::form::Form;
use super::{encode, indented};
use crate::negotiate::{ErrorFormat, Format, JSON};

/// A status in the format of errors, and its media type.
pub(crate) fn status_body(status: &Status, format: ErrorFormat) -> (Bytes, &'static str) {
    match format {
        ErrorFormat::Negotiated(format) => (body(status, format), format.media_type()),
        ErrorFormat::IndentedJson => (indented(status.to_json().as_bytes()), JSON),
    }
}

/// A status in a format.
pub(crate) fn body(status: &Status, format: Format) -> Bytes {
    let text = status.to_json();
    let ty = match format {
        Format::Json => return text.into(),
        Format::Pretty => return indented(text.as_bytes()),
        Format::Yaml | Format::Protobuf | Format::Cbor => builtin::by_name("meta.v1.Status"),
    };
    let decoded = ty.and_then(|ty| Some((ty, json::decode(ty, text.as_bytes(), &Limits::REQUEST).ok()?)));
    let encoded = decoded.and_then(|(ty, mut decoded)| {
        if let Some(map) = decoded.value.as_map_mut() {
            map.insert("kind", "Status");
            map.insert("apiVersion", "v1");
        }
        encode(ty, &decoded.value, format).and_then(Form::into_bytes).ok()
    });
    encoded.unwrap_or_else(|| text.into())
}
