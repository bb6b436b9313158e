//! Errors as responses, in the format negotiated for errors.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use schema::{Limits, Status, builtin, json};

use super::form::Form;
use super::{encode, indented};
use crate::api::negotiate::{ErrorFormat, Format, JSON};
use crate::{Body, Response};

/// The response for an error.
pub(crate) fn status_response(status: &Status, format: ErrorFormat) -> Response {
    let (body, media_type) = match format {
        ErrorFormat::Negotiated(format) => (body(status, format), format.media_type()),
        ErrorFormat::IndentedJson => (indented(status.to_json().as_bytes()), JSON),
    };
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Some(seconds) = status.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// An error in a format.
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
