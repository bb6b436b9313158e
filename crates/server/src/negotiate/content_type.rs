//! The `Content-Type` of request bodies.

use schema::Status;

use super::{Negotiator, joined};

/// The format of a request body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Protobuf in its envelope.
    Protobuf,
    /// CBOR.
    Cbor,
}

/// The type of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchType {
    /// JSON Patch: a list of operations.
    Json,
    /// Merge patch: the changed part of the object.
    Merge,
    /// Strategic merge patch: the same, with lists merged as their types say.
    Strategic,
    /// Server-side apply, in YAML.
    Apply,
    /// Server-side apply, in CBOR.
    ApplyCbor,
}

impl PatchType {
    /// In the order in which errors list them.
    const ALL: [Self; 5] = [Self::Json, Self::Merge, Self::Strategic, Self::Apply, Self::ApplyCbor];

    /// The media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
            Self::ApplyCbor => "application/apply-patch+cbor",
        }
    }
}

/// 415 for a body of another media type than these.
fn unknown_format(known: impl Iterator<Item = &'static str>) -> Status {
    Status::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        joined(known)
    ))
}

impl Negotiator {
    /// The format of a body by its `Content-Type`: JSON if that is empty, 415 if it is unknown.
    pub(crate) fn body_format(self, content_type: &str) -> Result<BodyFormat, Status> {
        let media_type = match content_type {
            "" => Some(super::JSON.to_owned()),
            given => media_type(given),
        };
        match media_type.as_deref() {
            Some(super::JSON) => Ok(BodyFormat::Json),
            Some(super::YAML) => Ok(BodyFormat::Yaml),
            Some(super::PROTOBUF) => Ok(BodyFormat::Protobuf),
            Some(super::CBOR) if self.cbor => Ok(BodyFormat::Cbor),
            _ => Err(unknown_format(self.media_types())),
        }
    }

    /// The type of a patch by its `Content-Type`: 415 if it is unknown. For built-in kinds
    /// [`route::check`](super::route::check) has run before.
    pub(crate) fn patch_type(self, content_type: &str) -> Result<PatchType, Status> {
        let media_type = match content_type.find(';') {
            Some(end) if end > 0 => content_type.get(..end).unwrap_or(content_type),
            _ => content_type,
        };
        let mut known = self.patch_types();
        known
            .find(|known| known.media_type() == media_type)
            .ok_or_else(|| unknown_format(self.patch_types().map(PatchType::media_type)))
    }

    /// The patch types, in the order in which errors list them.
    pub(super) fn patch_types(self) -> impl Iterator<Item = PatchType> {
        PatchType::ALL.into_iter().filter(move |each| match each {
            PatchType::Strategic => !self.custom,
            PatchType::ApplyCbor => self.cbor,
            _ => true,
        })
    }
}

/// The media type of a header in lower case; `None` if the header or one of its parameters is malformed.
fn media_type(header: &str) -> Option<String> {
    let (media_type, mut rest) = header.split_once(';').unwrap_or((header, ""));
    let media_type = media_type.trim().to_ascii_lowercase();
    let (ty, subtype) = media_type.split_once('/')?;
    if !is_token(ty) || !is_token(subtype) {
        return None;
    }
    let mut seen: Vec<(String, &str)> = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Some(media_type);
        }
        let parameter = take_parameter(rest)?;
        if seen.iter().any(|(name, value)| *name == parameter.name && *value != parameter.value) {
            return None;
        }
        seen.push((parameter.name, parameter.value));
        rest = parameter.rest.trim_start();
        match rest.strip_prefix(';') {
            Some(next) => rest = next,
            None if rest.is_empty() => {}
            None => return None,
        }
    }
}

struct Parameter<'a> {
    name: String,
    value: &'a str,
    rest: &'a str,
}

/// Takes `name=token` or `name="text"` off.
fn take_parameter(text: &str) -> Option<Parameter<'_>> {
    let (name, after) = text.split_once('=')?;
    let name = name.trim_end();
    if !is_token(name) {
        return None;
    }
    let after = after.trim_start();
    let name = name.to_ascii_lowercase();
    if let Some(quoted) = after.strip_prefix('"') {
        let mut escaped = false;
        for (at, byte) in quoted.bytes().enumerate() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    return Some(Parameter { name, value: quoted.get(..at)?, rest: quoted.get(at + 1..)? });
                }
                b'\r' | b'\n' => return None,
                _ => {}
            }
        }
        return None;
    }
    let end = after.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(after.len());
    let (value, rest) = after.split_at_checked(end)?;
    (!value.is_empty()).then_some(Parameter { name, value, rest })
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_token_byte)
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte)
}
