//! Content negotiation: the media types of responses and of request bodies.
//!
//! A request is checked in two steps, as in the reference, and each step can refuse it. Custom kinds, for
//! which the reference has no routes, have the second step only:
//!
//! 1. [`route::check`], before the verb is called: do the media types of `Accept` and `Content-Type`, without
//!    their parameters, match the route?
//! 2. [`Negotiator::accept`] and [`body_format`](Negotiator::body_format), in the verb: which of the accepted
//!    media types does the server support, with their parameters?
//!
//! Errors are negotiated separately ([`Negotiator::error_format`]): they are never tables, and are indented
//! JSON if the client accepts no supported format.

mod accept;
mod content_type;
pub(crate) mod route;

pub(crate) use accept::{AllowedTransforms, clauses as ranges};
pub(crate) use content_type::{BodyFormat, PatchType};

use std::borrow::Cow;

use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderName, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use schema::Status;

use crate::Query;

/// The media types.
pub(crate) const JSON: &str = "application/json";
/// YAML.
pub(crate) const YAML: &str = "application/yaml";
/// Protobuf in its envelope.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// CBOR.
pub(crate) const CBOR: &str = "application/cbor";
/// CBOR, item after item.
pub(crate) const CBOR_SEQUENCE: &str = "application/cbor-seq";

/// Negotiates media types, with the encodings that the server's configuration enables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Negotiator {
    /// Requests and responses may be in CBOR: the gate `CBORServingAndStorage`.
    pub(crate) cbor: bool,
    /// Large responses are compressed for clients that accept gzip: the gate `APIResponseCompression`.
    pub(crate) compression: bool,
    /// For a custom kind: its objects are not served in Protobuf, and it has no strategic merge patches.
    pub(crate) custom: bool,
}

impl Default for Negotiator {
    fn default() -> Self {
        Self { cbor: false, compression: true, custom: false }
    }
}

/// The encodings of responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    /// JSON in one line.
    Json,
    /// JSON, indented.
    Pretty,
    /// YAML.
    Yaml,
    /// Protobuf.
    Protobuf,
    /// CBOR.
    Cbor,
}

impl Format {
    /// The media type.
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json | Self::Pretty => JSON,
            Self::Yaml => YAML,
            Self::Protobuf => PROTOBUF,
            Self::Cbor => CBOR,
        }
    }
}

/// The kind that a response is transformed to, as `as`, `g` and `v` in `Accept` ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Transform {
    /// The kind.
    pub(crate) kind: TransformKind,
    /// The version of `meta.k8s.io`.
    pub(crate) version: MetaVersion,
}

/// The kinds that a response can be transformed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TransformKind {
    /// `Table`.
    Table,
    /// `PartialObjectMetadata`.
    Partial,
    /// `PartialObjectMetadataList`.
    PartialList,
}

/// The versions of `meta.k8s.io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MetaVersion {
    /// `meta.k8s.io/v1`.
    V1,
    /// `meta.k8s.io/v1beta1`.
    V1beta1,
}

impl MetaVersion {
    /// The `apiVersion` of the kinds of this version.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The negotiated format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Accept {
    /// The encoding.
    pub(crate) format: Format,
    /// The kind to transform to; `None` for the object's own.
    pub(crate) transform: Option<Transform>,
}

/// The format of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorFormat {
    /// The negotiated format.
    Negotiated(Format),
    /// Indented JSON: the server supports nothing that the client accepts.
    IndentedJson,
}

impl ErrorFormat {
    /// JSON in one line, whatever the client accepts.
    pub(crate) const JSON: Self = Self::Negotiated(Format::Json);
}

/// The preferences of the client for the response: the headers `Accept`, `Accept-Encoding` and `User-Agent`,
/// and `pretty`.
#[derive(Debug, Clone)]
pub(crate) struct ClientPreferences {
    accept: Option<HeaderValue>,
    pretty: bool,
    gzip: bool,
}

impl ClientPreferences {
    /// Reads headers and query.
    pub(crate) fn of(headers: &HeaderMap, query: Query<'_>) -> Self {
        let gzip = text(headers, ACCEPT_ENCODING).split(',').any(|coding| coding.trim() == "gzip");
        Self { accept: headers.get(ACCEPT).cloned(), pretty: is_pretty(headers, query), gzip }
    }

    /// The header `Accept`; empty if it is missing.
    fn accept(&self) -> Cow<'_, str> {
        lossy(self.accept.as_ref())
    }

    /// Whether the client accepts gzip.
    pub(crate) fn gzip(&self) -> bool {
        self.gzip
    }
}

/// The first value of a header.
fn text(headers: &HeaderMap, name: HeaderName) -> Cow<'_, str> {
    lossy(headers.get(name))
}

fn lossy(value: Option<&HeaderValue>) -> Cow<'_, str> {
    value.map_or(Cow::Borrowed(""), |value| String::from_utf8_lossy(value.as_bytes()))
}

/// Whether JSON is indented: by the parameter `pretty`, otherwise for the user agents of interactive tools.
fn is_pretty(headers: &HeaderMap, query: Query<'_>) -> bool {
    if let Some(value) = query.values("pretty").next().filter(|value| !value.is_empty()) {
        return object::boolean::parse(&value) == Some(true);
    }
    let agent = text(headers, USER_AGENT);
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool))
}

impl Negotiator {
    /// The formats of responses, in the order in which errors list them.
    fn formats(self) -> &'static [Format] {
        let all = &[Format::Json, Format::Yaml, Format::Protobuf, Format::Cbor];
        if self.cbor { all } else { all.split_last().map_or(&[], |(_, rest)| rest) }
    }

    /// The media types of responses.
    pub(crate) fn media_types(self) -> impl Iterator<Item = &'static str> {
        self.formats().iter().map(|format| format.media_type())
    }

    /// The media types of watches.
    pub(crate) fn stream_media_types(self) -> impl Iterator<Item = &'static str> {
        self.formats().iter().filter_map(|format| stream_media_type(*format))
    }

    /// The format of a response with objects: 406 if the server supports nothing that the client accepts.
    pub(crate) fn accept(
        self,
        preferences: &ClientPreferences,
        allowed: AllowedTransforms,
    ) -> Result<Accept, Status> {
        self.choose(preferences, allowed).ok_or_else(|| self.not_acceptable())
    }

    /// The format of a response that cannot be transformed, such as discovery.
    pub(crate) fn accept_plain(self, preferences: &ClientPreferences) -> Result<Format, Status> {
        self.choose(preferences, AllowedTransforms::None)
            .map(|accept| accept.format)
            .ok_or_else(|| self.not_acceptable())
    }

    /// The format of aggregated discovery, if the client accepts that.
    pub(crate) fn accept_aggregated(self, preferences: &ClientPreferences) -> Option<Format> {
        let accept = preferences.accept();
        let clauses = accept::clauses(&accept);
        let mut choices =
            clauses.iter().flat_map(|clause| self.formats().iter().map(move |format| (clause, *format)));
        choices.find_map(|(clause, format)| {
            let pretty = clause.choose_aggregated(format)? || preferences.pretty;
            Some(if pretty && format == Format::Json { Format::Pretty } else { format })
        })
    }

    /// The format of errors.
    pub(crate) fn error_format(self, preferences: &ClientPreferences) -> ErrorFormat {
        let chosen = self.choose(preferences, AllowedTransforms::None);
        chosen.map_or(ErrorFormat::IndentedJson, |accept| ErrorFormat::Negotiated(accept.format))
    }

    fn choose(self, preferences: &ClientPreferences, allowed: AllowedTransforms) -> Option<Accept> {
        let accept = preferences.accept();
        if accept.is_empty() {
            let format = if preferences.pretty { Format::Pretty } else { Format::Json };
            return Some(Accept { format, transform: None });
        }
        let clauses = accept::clauses(&accept);
        let mut choices =
            clauses.iter().flat_map(|clause| self.formats().iter().map(move |format| (clause, *format)));
        let chosen = choices.find_map(|(clause, format)| {
            clause.choose(format, allowed).filter(|(accept, _)| self.serves(*accept))
        });
        chosen.map(|(accept, pretty)| Accept {
            format: match accept.format {
                Format::Json if preferences.pretty || pretty => Format::Pretty,
                other => other,
            },
            ..accept
        })
    }

    /// Whether objects are served in a format. Tables and metadata of custom kinds have built-in types.
    fn serves(self, accept: Accept) -> bool {
        !self.custom || accept.format != Format::Protobuf || accept.transform.is_some()
    }

    fn not_acceptable(self) -> Status {
        Status::not_acceptable(accepted(self.media_types()))
    }
}

impl Accept {
    /// The format and media type of a watch: 406 for a format that does not stream. Watch events are not
    /// indented.
    pub(crate) fn stream(self, negotiator: Negotiator) -> Result<(Self, &'static str), Status> {
        let format = if self.format == Format::Pretty { Format::Json } else { self.format };
        let media_type = match format {
            Format::Json => Some(JSON),
            other => stream_media_type(other),
        };
        media_type
            .map(|media_type| (Self { format, ..self }, media_type))
            .ok_or_else(|| Status::not_acceptable(accepted(negotiator.stream_media_types())))
    }
}

/// The media type of a watch in errors and in `Accept`, if the format streams.
fn stream_media_type(format: Format) -> Option<&'static str> {
    match format {
        Format::Json | Format::Pretty => Some("application/json;stream=watch"),
        Format::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
        Format::Cbor => Some(CBOR_SEQUENCE),
        Format::Yaml => None,
    }
}

/// The message of a 406.
fn accepted(types: impl Iterator<Item = &'static str>) -> String {
    format!("only the following media types are accepted: {}", joined(types))
}

fn joined(types: impl Iterator<Item = &'static str>) -> String {
    types.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
