//! Decodes a body of a custom kind.
//!
//! The reference reads the body as an untyped object: it must have `kind` and `apiVersion`, and may be of
//! another kind, which validation refuses later. The schema is applied only to an object of the kind.

use object::Value;
use registry::FieldValidation;
use schema::{Decoded, GroupVersionKind, Limits, Shape, Strict, cbor, json, unstructured, yaml};

use super::{BodyFormat, BodyKind, DecodeFailure, Expected, decode_as, kind_of, names};

/// Decodes a body as the expected type, or finds out its own kind.
pub(super) fn read(
    body: &[u8],
    format: BodyFormat,
    expected: &Expected<'_>,
    validation: FieldValidation,
) -> Result<(Decoded, BodyKind), DecodeFailure> {
    let kind = kind_of(&expected.ty);
    let wanted = BodyKind {
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        kind: kind.kind.to_string(),
    };
    if format == BodyFormat::Protobuf {
        let mut named = names(body, format)?;
        named.complete(&wanted);
        return Err(DecodeFailure { named: Some(named), why: missing_kind("object has no kind field ") });
    }
    let outcome = decode_as(&expected.ty, body, format).map(|decoded| reported(decoded, format));
    if let Ok(decoded) = &outcome
        && is_of_kind(&decoded.value, kind)
    {
        return outcome
            .map(|decoded| (decoded, wanted))
            .map_err(|error| DecodeFailure { named: None, why: error.to_string() });
    }
    let interpreted = names(body, format)?;
    let content = plain(body, format)?;
    let text = |key: &str| content.get(key).and_then(Value::as_str).unwrap_or_default();
    if text("kind").is_empty() {
        return Err(match validation {
            FieldValidation::Ignore => {
                let json = match format {
                    BodyFormat::Yaml => yaml::to_json(body, &Limits::REQUEST).map(|document| document.text),
                    _ => Ok(String::from_utf8_lossy(body).into_owned()),
                };
                let mut named = interpreted;
                named.complete(&wanted);
                DecodeFailure { named: Some(named), why: missing_kind(&json.unwrap_or_default()) }
            }
            FieldValidation::Warn | FieldValidation::Strict => {
                DecodeFailure { named: None, why: missing_kind(&String::from_utf8_lossy(body)) }
            }
        });
    }
    let api_version = text("apiVersion");
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let named = BodyKind { group: group.into(), version: version.into(), kind: text("kind").into() };
    let refused = |why: String| DecodeFailure { named: Some(named.clone()), why };
    if content.get("apiVersion").is_some_and(Value::is_null) {
        return Err(refused(NO_API_VERSION.into()));
    }
    let is_kind = (&named.group, &named.kind) == (&wanted.group, &wanted.kind);
    let decoded = if is_kind && named.version == wanted.version {
        outcome
    } else if is_kind && let Some(other) = expected.target.and_then(|target| target.ty_in(version)) {
        decode_as(&other, body, format)
    } else {
        decode_as(unstructured(), body, format).map(|mut decoded| {
            if is_kind {
                decoded.forget_all();
            }
            decoded
        })
    };
    let decoded = decoded.map_err(|error| refused(error.of_custom().to_string()))?;
    Ok((reported(decoded, format), named))
}

/// The message for an object whose `apiVersion` is null.
const NO_API_VERSION: &str = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";

fn missing_kind(body: &str) -> String {
    format!("Object 'Kind' is missing in '{body}'")
}

/// Whether an object has the `kind` and `apiVersion` of a kind.
fn is_of_kind(object: &Value, kind: &GroupVersionKind) -> bool {
    let has = |key: &str, wanted: &str| object.get(key).and_then(Value::as_str) == Some(wanted);
    has("kind", &kind.kind) && has("apiVersion", &kind.api_version())
}

/// Drops the reports of unknown fields for CBOR.
fn reported(mut decoded: Decoded, format: BodyFormat) -> Decoded {
    if format == BodyFormat::Cbor {
        decoded.strict.retain(|strict| !matches!(strict, Strict::Unknown(_)));
    }
    decoded
}

/// Decodes a body without a type; null is an empty object.
fn plain(body: &[u8], format: BodyFormat) -> Result<Value, DecodeFailure> {
    let decoded = match format {
        BodyFormat::Cbor => cbor::decode_shape(&Shape::Any, body, &Limits::REQUEST),
        BodyFormat::Yaml => yaml::decode_shape(&Shape::Any, body, &Limits::REQUEST),
        BodyFormat::Json | BodyFormat::Protobuf => json::decode_shape(&Shape::Any, body, &Limits::REQUEST),
    };
    decoded
        .map(|decoded| decoded.value)
        .map_err(|error| DecodeFailure { named: None, why: error.to_string() })
}
