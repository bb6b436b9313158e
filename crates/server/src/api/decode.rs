//! From the body of a request to a tree of the type that is wanted.
//!
//! A body names its kind and version, or is taken for what is wanted. What it names is held against what is wanted in the
//! reference's order and words: is it text of its format at all, is the kind known, does it fit its own type, can it become
//! the wanted kind, is its version that of the request. Fields that are unknown or stand twice are dropped, told of, or
//! refused, as the request asks.
//!
//! The common case is decoded once; what went wrong is found out afterwards.

mod empty;
mod known;

pub(crate) use known::go_name;

use std::fmt::Write;

use object::Value;
use object::path::Path;
use object::quote::Quoted;
use registry::FieldValidation;
use schema::status::Reason;
use schema::{Error, Limits, Ref, Shape, Status, Strict, Type, cbor, json, protobuf, yaml};

use super::negotiate::BodyFormat;
pub(crate) use empty::lists_emptied_by;

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Body {
    /// The tree, with `kind` and `apiVersion` as wanted.
    pub(crate) value: Value,
    /// What the client is told: one for each field that was dropped.
    pub(crate) warnings: Vec<String>,
    /// Lists that it sets to `[]`, where the tree does not say so.
    pub(crate) empty: Vec<Path>,
}

/// What a body has to be.
#[derive(Debug, Clone)]
pub(crate) struct Expected {
    /// The type, which is one with a kind.
    pub(crate) ty: Ref<Type>,
    /// Other values of `apiVersion` that are taken as well: a subresource may have its body in older versions.
    pub(crate) also: &'static [&'static str],
}

impl Expected {
    /// A type and nothing else.
    pub(crate) fn only(ty: impl Into<Ref<Type>>) -> Self {
        Self { ty: ty.into(), also: &[] }
    }
}

/// The group, version and kind that a body names, or is taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    group: String,
    version: String,
    kind: String,
}

impl Named {
    fn api_version(&self) -> String {
        kinds::api_version(&self.group, &self.version).to_string()
    }
}

/// Why there is no object, and what the body was taken for when that was found out.
struct Refused {
    named: Option<Named>,
    why: String,
}

/// Reads an object that is to be written.
pub(crate) fn object(
    body: &[u8],
    format: BodyFormat,
    expected: Expected,
    validation: FieldValidation,
) -> Result<Body, Status> {
    let wanted = kind_of(&expected.ty);
    let refuse = |refused: Refused| {
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
    let (decoded, named) = read(body, format, &expected.ty).map_err(refuse)?;
    let mut warnings = Vec::new();
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => warnings.extend(decoded.strict.iter().flat_map(in_lines)),
        FieldValidation::Strict if decoded.strict.is_empty() => {}
        FieldValidation::Strict => {
            let faults: Vec<_> = decoded.strict.iter().map(ToString::to_string).collect();
            let why = format!("strict decoding error: {}", faults.join(", "));
            return Err(refuse(Refused { named: Some(named), why }));
        }
    }
    let given = named.api_version();
    let wanted_version = wanted.api_version();
    if wanted_version != given.as_str() && !expected.also.contains(&given.as_str()) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({wanted_version})"
        )));
    }
    let mut value = decoded.value;
    if let Some(map) = value.as_map_mut() {
        map.insert("kind", wanted.kind.clone());
        map.insert("apiVersion", wanted_version);
    }
    let empty = empty::lists(&expected.ty, &value, body, format);
    Ok(Body { value, warnings, empty })
}

/// Reads the `DeleteOptions` of a body that is not empty: of any group and version. Unknown fields do not matter; faults
/// are passed on as they are.
pub(crate) fn delete_options(body: &[u8], format: BodyFormat) -> Result<Value, Status> {
    let bare = |why: String| Status { code: 500, reason: Reason::Unknown, ..Status::bad_request(why) };
    let Some(ty) = schema::builtin::by_name("meta.v1.DeleteOptions") else {
        return Err(Status::internal_error("there is no type DeleteOptions"));
    };
    let wanted = Named { group: String::new(), version: "v1".into(), kind: "DeleteOptions".into() };
    let named = names(body, format).and_then(|named| complete(named, &wanted, body));
    let named = named.map_err(|refused| bare(refused.why))?;
    if named.kind != wanted.kind {
        return Err(bare(match known::is_unversioned(&named.kind) {
            true => format!("converting (v1.{}) to (v1.DeleteOptions): unknown conversion", named.kind),
            false => not_registered(&named, known::META_SCHEME),
        }));
    }
    decode_as(&ty.into(), body, format).map(|decoded| decoded.value).map_err(|error| bare(error.to_string()))
}

/// Decodes a body as what is wanted, or finds out what it is.
fn read(body: &[u8], format: BodyFormat, ty: &Ref<Type>) -> Result<(schema::Decoded, Named), Refused> {
    let kind = kind_of(ty);
    let wanted = Named {
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        kind: kind.kind.to_string(),
    };
    let outcome = decode_as(ty, body, format);
    if let Ok(decoded) = &outcome
        && is_wanted(decoded, kind)
    {
        return Ok((outcome.map_err(|error| Refused { named: None, why: error.to_string() })?, wanted));
    }
    let named = complete(names(body, format)?, &wanted, body)?;
    let refused = |why: String| Refused { named: Some(named.clone()), why };
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
            // Another version of the same kind; where that counts, its own fields are of no more interest.
            let value = decoded.unwrap_or(schema::Decoded { value: Value::Null, strict: Vec::new() });
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
            protobuf::decode(ty, body, limits).map(|value| schema::Decoded { value, strict: Vec::new() })
        }
    }
}

/// Whether a decoded tree names what is wanted, or nothing, beyond doubt.
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
    // The names are read without regard to case, the fields with it.
    let is_name =
        |field: &str| field.eq_ignore_ascii_case("kind") || field.eq_ignore_ascii_case("apiVersion");
    let hidden = |strict: &Strict| matches!(strict, Strict::Unknown(field) if is_name(field));
    fits("kind", &wanted.kind) && version_fits && !decoded.strict.iter().any(hidden)
}

/// What a body names, empty where it names nothing.
fn names(body: &[u8], format: BodyFormat) -> Result<Named, Refused> {
    let unnamed = |why: String| Refused { named: None, why };
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
    Ok(Named { group: group.to_owned(), version: version.to_owned(), kind })
}

/// `apiVersion` and `kind` of JSON text.
fn json_names(body: &[u8]) -> Result<(String, String), Refused> {
    let refuse = |why: String| Refused {
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

/// What a body names, completed from what is wanted.
fn complete(mut named: Named, wanted: &Named, body: &[u8]) -> Result<Named, Refused> {
    if named.kind.is_empty() {
        named.kind.clone_from(&wanted.kind);
    }
    if named.version.is_empty() && (named.group.is_empty() || named.group == wanted.group) {
        named.group.clone_from(&wanted.group);
        named.version.clone_from(&wanted.version);
    }
    if named.version.is_empty() {
        let why = format!("Object 'apiVersion' is missing in '{}'", String::from_utf8_lossy(body));
        return Err(Refused { named: Some(named), why });
    }
    Ok(named)
}

fn not_registered(named: &Named, scheme: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme {}",
        Quoted(&named.kind),
        Quoted(&named.api_version()),
        Quoted(scheme)
    )
}

/// A dropped field as the client is told of it; YAML tells of several at once.
fn in_lines(strict: &Strict) -> Vec<String> {
    let text = strict.to_string();
    match text.strip_prefix("yaml: unmarshal errors:\n") {
        Some(lines) => lines.split('\n').map(|line| line.trim().to_owned()).collect(),
        None => vec![text],
    }
}

/// How much of a body is shown in an error.
const SHOWN: usize = 30;

fn summary(body: &[u8]) -> String {
    let head = body.get(..SHOWN).unwrap_or(body);
    let mut text = match body.first() {
        None => return "<empty>".to_owned(),
        Some(b'{') => String::from_utf8_lossy(head).into_owned(),
        Some(_) => head.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        }),
    };
    if body.len() > SHOWN {
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
