//! The configurations of server-side apply: decoding, and reporting of duplicate keys.

use crate::{Target, WriteOptions};
use merge::FieldValidation;
use object::{Map, Value};
use schema::{Decoded, Error, Limits, Shape, Status, Strict, cbor, yaml};

/// The encoding of a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/apply-patch+yaml`.
    Yaml,
    /// `application/apply-patch+cbor`.
    Cbor,
}

/// The body of an apply. It is decoded once, however often the write is attempted.
pub(crate) struct ApplyBody<'a> {
    format: Format,
    bytes: &'a [u8],
    decoded: Option<Decoded>,
}

impl<'a> ApplyBody<'a> {
    pub(crate) fn new(format: Format, bytes: &'a [u8]) -> Self {
        Self { format, bytes, decoded: None }
    }

    /// The configuration. The first attempt decodes it after it has read the object: 404 comes before 400.
    pub(crate) fn config(&mut self) -> Result<&Decoded, Status> {
        match &mut self.decoded {
            Some(config) => Ok(config),
            unread => Ok(unread.insert(read(self.format, self.bytes)?)),
        }
    }
}

/// Decodes a configuration. An empty body is an empty object.
fn read(format: Format, body: &[u8]) -> Result<Decoded, Status> {
    let refuse = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let limits = &Limits::REQUEST;
    let read = match format {
        Format::Yaml => yaml::decode_shape(&Shape::Any, body, limits),
        Format::Cbor => cbor::decode_shape(&Shape::Any, body, limits),
    };
    let mut config = read.map_err(|error| match (format, error) {
        (Format::Yaml, Error::Syntax(why)) => refuse(format!("error converting YAML to JSON: {why}")),
        (_, other) => refuse(other.to_string()),
    })?;
    match &config.value {
        Value::Map(_) => Ok(config),
        Value::Null => {
            config.value = Map::new().into();
            Ok(config)
        }
        other => Err(refuse(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            other.kind()
        ))),
    }
}

/// The message for a result that cannot be converted to the storage version.
pub(crate) fn unconvertible(target: &Target<'_>, config: &Value, why: &str) -> String {
    let name = config.get("metadata").and_then(|metadata| metadata.get("name")).and_then(Value::as_str);
    let Target { served, namespace, .. } = target;
    let (version, kind, name) = (&served.api_version, &served.kind, name.unwrap_or_default());
    format!("failed to convert to unversioned ({namespace}/{name}; {version}, Kind={kind}): {why}")
}

/// Reports duplicate keys, as `fieldValidation` says.
pub(crate) fn report(config: &Decoded, options: &WriteOptions) -> Result<(), Status> {
    let repeated = config.strict.iter().filter_map(|strict| match strict {
        Strict::Yaml(text) => Some(text.as_str()),
        _ => None,
    });
    for text in repeated {
        match options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Strict => {
                let why = format!("error strict decoding YAML: error converting YAML to JSON: {text}");
                return Err(Status::bad_request(why));
            }
            FieldValidation::Warn => {
                let lines = text.strip_prefix("yaml: unmarshal errors:\n").unwrap_or(text);
                options.warnings.extend(lines.split('\n').map(|line| line.trim().to_owned()));
            }
        }
    }
    Ok(())
}
