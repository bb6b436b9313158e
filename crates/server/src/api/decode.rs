//! Decodes the body of a request to a tree of the expected type.
//!
//! A body without `kind` and `apiVersion` is of the expected kind. The checks have the order and the messages
//! of the reference: is the body valid in its format, is its kind registered, does it decode as that kind,
//! does that kind convert to the expected one, is its version that of the request. Unknown and duplicate
//! fields are ignored, warned about or refused, as `fieldValidation` says.
//!
//! A body of the expected kind is decoded once. Only if that fails, the body is read again for the reason.

mod custom;
mod empty;
mod known;

pub(crate) use known::go_name;

use std::fmt::Write;

use kinds::Strategy;
use object::Value;
use object::path::Path;
use object::quote::Quoted;
use registry::{FieldValidation, Target};
use schema::status::Reason;
use schema::{Error, Limits, Ref, Shape, Status, Strict, Type, cbor, json, protobuf, yaml};

use crate::negotiate::BodyFormat;
pub(crate) use empty::lists_emptied_by;

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Body {
    /// The tree, with the expected `kind` and `apiVersion`.
    pub(crate) value: Value,
    /// The warnings for the client, one for each field that was dropped.
    pub(crate) warnings: Vec<String>,
    /// The lists that the body sets to `[]` and the tree does not contain.
    pub(crate) empty: Vec<Path>,
}

/// The type that a body must have.
#[derive(Clone)]
pub(crate) struct Expected<'a> {
    /// The type, which has a kind.
    pub(crate) ty: Ref<Type>,
    /// Other values of `apiVersion` that are accepted: a subresource may accept older versions of its body.
    pub(crate) also: &'static [&'static str],
    /// Whether the body is an object of a custom kind.
    pub(crate) is_custom: bool,
    /// The strategy of the kind, if the body is an object of it.
    pub(crate) strategy: Option<&'a dyn Strategy>,
    /// The target, which knows the other versions of the kind, if the body is an object of it.
    pub(crate) target: Option<&'a Target<'a>>,
}

impl Expected<'_> {
    /// A type and nothing else.
    pub(crate) fn only(ty: impl Into<Ref<Type>>) -> Self {
        Self { ty: ty.into(), also: &[], is_custom: false, strategy: None, target: None }
    }
}

/// The group, version and kind of a body: its own, completed from the expected ones.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BodyKind {
    group: String,
    version: String,
    kind: String,
}

impl BodyKind {
    fn api_version(&self) -> String {
        kinds::api_version(&self.group, &self.version).to_string()
    }

    /// Fills in missing parts from the expected kind.
    fn complete(&mut self, wanted: &Self) {
        if self.kind.is_empty() {
            self.kind.clone_from(&wanted.kind);
        }
        if self.version.is_empty() && (self.group.is_empty() || self.group == wanted.group) {
            self.group.clone_from(&wanted.group);
            self.version.clone_from(&wanted.version);
        }
    }
}

/// A body that is refused.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The status of the response.
    pub(crate) status: Status,
    /// The warnings for the client.
    pub(crate) warnings: Vec<String>,
}

impl From<Status> for Refused {
    fn from(status: Status) -> Self {
        Self { status, warnings: Vec::new() }
    }
}

/// Why a body could not be decoded, and its kind if that is known.
struct DecodeFailure {
    named: Option<BodyKind>,
    why: String,
}

/// Decodes the object of a write.
pub(crate) fn object(
    body: &[u8],
    format: BodyFormat,
    expected: Expected<'_>,
    validation: FieldValidation,
) -> Result<Body, Refused> {
    let wanted = kind_of(&expected.ty);
    let refuse = |refused: DecodeFailure| {
        let why = refused.why;
        Status::bad_request(match refused.named.filter(|named| !named.kind.is_empty()) {
            Some(named) => format!(
                "{} in version {} cannot be handled as a {}: {why}",
                named.kind,
                Quoted(&named.version),
                wanted.kind
            ),
            None => format!(
                "the object provided is unrecognized (must be of type {}): {why} ({})",
                wanted.kind,
                summary(body)
            ),
        })
    };
    let (decoded, named) = match expected.is_custom {
        true => custom::read(body, format, &expected, validation).map_err(refuse)?,
        false => read(body, format, &expected.ty).map_err(refuse)?,
    };
    let fault = expected.strategy.zip(decoded.value.as_map());
    if let Some(why) = fault.and_then(|(strategy, object)| strategy.conversion_fault(object)) {
        return Err(refuse(DecodeFailure { named: Some(named), why }).into());
    }
    let mut warnings = Vec::new();
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => warnings.extend(decoded.strict.iter().flat_map(in_lines)),
        FieldValidation::Strict if decoded.strict.is_empty() => {}
        FieldValidation::Strict => {
            let faults: Vec<_> = decoded.strict.iter().map(ToString::to_string).collect();
            let why = format!("strict decoding error: {}", faults.join(", "));
            return Err(refuse(DecodeFailure { named: Some(named), why }).into());
        }
    }
    let given = named.api_version();
    let wanted_version = wanted.api_version();
    if wanted_version != given.as_str() && !expected.also.contains(&given.as_str()) {
        let status = Status::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({wanted_version})"
        ));
        // A body of another version, which is refused, has warnings for a custom kind only.
        let warnings = if expected.is_custom { warnings } else { Vec::new() };
        return Err(Refused { status, warnings });
    }
    let mut value = decoded.value;
    if let Some(map) = value.as_map_mut() {
        // A custom object keeps its own `kind`: validation refuses a wrong one.
        map.insert("kind", if expected.is_custom { named.kind.into() } else { wanted.kind.clone() });
        map.insert("apiVersion", wanted_version);
    }
    let empty = empty::lists(&expected.ty, &value, body, format);
    Ok(Body { value, warnings, empty })
}

/// Decodes the `DeleteOptions` of a body that is not empty, of any group and version. Unknown fields are
/// ignored; errors are 500 without a reason, as in the reference.
pub(crate) fn delete_options(body: &[u8], format: BodyFormat) -> Result<Value, Status> {
    let unknown_reason_500 =
        |why: String| Status { code: 500, reason: Reason::Unknown, ..Status::bad_request(why) };
    let Some(ty) = schema::builtin::by_name("meta.v1.DeleteOptions") else {
        return Err(Status::internal_error("there is no type DeleteOptions"));
    };
    let wanted = BodyKind { group: String::new(), version: "v1".into(), kind: "DeleteOptions".into() };
    let named = names(body, format).and_then(|named| complete(named, &wanted, body));
    let named = named.map_err(|refused| unknown_reason_500(refused.why))?;
    if named.kind != wanted.kind {
        return Err(unknown_reason_500(match known::is_unversioned(&named.kind) {
            true => format!("converting (v1.{}) to (v1.DeleteOptions): unknown conversion", named.kind),
            false => not_registered(&named, known::META_SCHEME),
        }));
    }
    decode_as(&ty.into(), body, format)
        .map(|decoded| decoded.value)
        .map_err(|error| unknown_reason_500(error.to_string()))
}

/// Decodes a body as the expected type, or finds out its own kind.
fn read(
    body: &[u8],
    format: BodyFormat,
    ty: &Ref<Type>,
) -> Result<(schema::Decoded, BodyKind), DecodeFailure> {
    let kind = kind_of(ty);
    let wanted = BodyKind {
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        kind: kind.kind.to_string(),
    };
    let outcome = decode_as(ty, body, format);
    if let Ok(decoded) = &outcome
        && is_wanted(decoded, kind)
    {
        return Ok((outcome.map_err(|error| DecodeFailure { named: None, why: error.to_string() })?, wanted));
    }
    let named = complete(names(body, format)?, &wanted, body)?;
    let refused = |why: String| DecodeFailure { named: Some(named.clone()), why };
    if named == wanted {
        let decoded = outcome.map_err(|error| refused(error.to_string()))?;
        return Ok((decoded, named));
    }
    let target = known::internal(&wanted.group, &wanted.kind);
    match known::find(&named.group, &named.version, &named.kind) {
        None => Err(refused(not_registered(&named, known::SCHEME))),
        Some(found) => {
            let decoded = match found.ty {
                Some(other) => {
                    Some(decode_as(&other.into(), body, format).map_err(|error| refused(error.to_string()))?)
                }
                None => None,
            };
            if found.internal != target {
                let given = format!("{}.{}", found.package, named.kind);
                return Err(refused(format!("converting ({given}) to ({target}): unknown conversion")));
            }
            // Another version of the same kind. The caller compares the versions, and does not use the fields
            // if they differ.
            let value = decoded.unwrap_or_default();
            Ok((outcome.unwrap_or(value), named))
        }
    }
}

fn decode_as(ty: &Ref<Type>, body: &[u8], format: BodyFormat) -> Result<schema::Decoded, Error> {
    let limits = &Limits::REQUEST;
    match format {
        BodyFormat::Json => json::decode(ty, body, limits),
        BodyFormat::Yaml => yaml::decode(ty, body, limits),
        BodyFormat::Cbor => cbor::decode(ty, body, limits),
        BodyFormat::Protobuf => {
            protobuf::decode(ty, body, limits).map(|value| schema::Decoded { value, ..Default::default() })
        }
    }
}

/// Whether `kind` and `apiVersion` of a decoded tree are the expected ones or absent.
fn is_wanted(decoded: &schema::Decoded, wanted: &schema::GroupVersionKind) -> bool {
    let fits = |key: &str, wanted: &str| match decoded.value.get(key) {
        None => true,
        Some(value) => value.as_str() == Some(wanted),
    };
    let version_fits = if wanted.group.is_empty() {
        fits("apiVersion", &wanted.version)
    } else {
        fits("apiVersion", &wanted.api_version())
    };
    // The reference reads `kind` and `apiVersion` without regard to case, and other fields with it.
    let is_name =
        |field: &str| field.eq_ignore_ascii_case("kind") || field.eq_ignore_ascii_case("apiVersion");
    let hidden = |strict: &Strict| matches!(strict, Strict::Unknown(field) if is_name(field));
    fits("kind", &wanted.kind) && version_fits && !decoded.strict.iter().any(hidden)
}

/// The group, version and kind in a body; empty if they are absent.
fn names(body: &[u8], format: BodyFormat) -> Result<BodyKind, DecodeFailure> {
    let unnamed = |why: String| DecodeFailure { named: None, why };
    let limits = &Limits::REQUEST;
    let (api_version, kind) = match format {
        BodyFormat::Json => json_names(body)?,
        BodyFormat::Yaml => {
            let document = yaml::to_json(body, limits).map_err(|error| unnamed(error.to_string()))?;
            json_names(document.text.as_bytes())?
        }
        BodyFormat::Protobuf => {
            let envelope = protobuf::Envelope::read(body).map_err(|error| unnamed(error.to_string()))?;
            (envelope.api_version.to_owned(), envelope.kind.to_owned())
        }
        BodyFormat::Cbor => {
            let decoded = cbor::decode_shape(&Shape::Any, body, limits);
            let value = decoded.map_err(|error| unnamed(error.to_string()))?.value;
            let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            (text("apiVersion"), text("kind"))
        }
    };
    let (group, version) = match api_version.split_once('/') {
        None => ("", api_version.as_str()),
        Some((_, version)) if version.contains('/') => {
            return Err(unnamed(format!("unexpected GroupVersion string: {api_version}")));
        }
        Some((group, version)) => (group, version),
    };
    Ok(BodyKind { group: group.to_owned(), version: version.to_owned(), kind })
}

/// `apiVersion` and `kind` of JSON text.
fn json_names(body: &[u8]) -> Result<(String, String), DecodeFailure> {
    let refuse = |why: String| DecodeFailure {
        named: None,
        why: format!("couldn't get version/kind; json parse error: {why}"),
    };
    let limits = Limits { bytes: usize::MAX, ..Limits::REQUEST };
    let value =
        json::decode_shape(&Shape::Any, body, &limits).map_err(|error| refuse(error.to_string()))?.value;
    let Some(map) = value.as_map() else {
        return match value {
            Value::Null => Ok(Default::default()),
            other => Err(refuse(format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                json_name(&other)
            ))),
        };
    };
    let (mut api_version, mut kind) = (String::new(), String::new());
    for (key, value) in map.iter() {
        let (field, place) = match key.as_str() {
            key if key.eq_ignore_ascii_case("apiVersion") => ("apiVersion", &mut api_version),
            key if key.eq_ignore_ascii_case("kind") => ("kind", &mut kind),
            _ => continue,
        };
        match value {
            Value::String(text) => *place = text.to_string(),
            Value::Null => {}
            other => {
                let found = json_name(other);
                return Err(refuse(format!(
                    "json: cannot unmarshal {found} into Go struct field .{field} of type string"
                )));
            }
        }
    }
    Ok((api_version, kind))
}

fn json_name(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "string",
    }
}

/// Completes the kind of a body from the expected one.
fn complete(mut named: BodyKind, wanted: &BodyKind, body: &[u8]) -> Result<BodyKind, DecodeFailure> {
    named.complete(wanted);
    if named.version.is_empty() {
        let why = format!("Object 'apiVersion' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(DecodeFailure { named: Some(named), why });
    }
    Ok(named)
}

fn not_registered(named: &BodyKind, scheme: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme {}",
        Quoted(&named.kind),
        Quoted(&named.api_version()),
        Quoted(scheme)
    )
}

/// The warnings for a dropped field. A YAML error has one line for each field.
fn in_lines(strict: &Strict) -> Vec<String> {
    let text = strict.to_string();
    match text.strip_prefix("yaml: unmarshal errors:\n") {
        Some(lines) => lines.split('\n').map(|line| line.trim().to_owned()).collect(),
        None => vec![text],
    }
}

/// The number of bytes of a body that an error contains.
const SUMMARY_BYTES: usize = 30;

fn summary(body: &[u8]) -> String {
    let head = body.get(..SUMMARY_BYTES).unwrap_or(body);
    let mut text = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(head).into_owned(),
        Some(_) => head.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        }),
    };
    if body.len() > SUMMARY_BYTES {
        text.push_str(" ...");
    }
    text
}

/// The kind of a type that has one.
fn kind_of(ty: &Type) -> &schema::GroupVersionKind {
    static NONE: schema::GroupVersionKind = schema::GroupVersionKind {
        group: object::Text::known(""),
        version: object::Text::known(""),
        kind: object::Text::known(""),
    };
    ty.kind.as_ref().unwrap_or(&NONE)
}

#[cfg(test)]
mod tests;
