//! Content negotiation: what an answer is written as, and what a request's body is.
//!
//! A request is judged in two steps, as the reference does, and both can refuse it:
//!
//! 1. [`route::check`] before the verb is known to be served: do the bare media types of `Accept` and `Content-Type`, without
//!    their parameters, fit the route?
//! 2. [`Settings::accept`] and [`body_format`](Settings::body_format) in the verb: which of the accepted forms can be made,
//!    parameters included?
//!
//! Errors are negotiated a third time ([`Settings::error_form`]): they know no tables, and are sent as indented JSON where
//! nothing else fits.

mod accept;
mod content_type;
pub(crate) mod route;

pub(crate) use accept::{Forms, clauses as ranges};
pub(crate) use content_type::{BodyFormat, PatchType};

use std::borrow::Cow;

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, HeaderName, USER_AGENT};
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

/// What the server's configuration says about encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// CBOR is served and taken: the gate `CBORServingAndStorage`.
    pub(crate) cbor: bool,
    /// Large answers are compressed for those who ask: the gate `APIResponseCompression`.
    pub(crate) compression: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cbor: false, compression: true }
    }
}

/// The encodings of answers.
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

/// Another form than the object's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Target {
    /// Which.
    pub(crate) kind: TargetKind,
    /// Of which version of `meta.k8s.io`.
    pub(crate) version: MetaVersion,
}

/// The other forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum TargetKind {
    /// Rows and columns.
    Table,
    /// The metadata of an object.
    Partial,
    /// The metadata of many.
    PartialList,
}

/// The versions of the other forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum MetaVersion {
    /// `meta.k8s.io/v1`.
    V1,
    /// `meta.k8s.io/v1beta1`.
    V1beta1,
}

impl MetaVersion {
    /// As in `apiVersion`.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// What an answer is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Accept {
    /// The encoding.
    pub(crate) format: Format,
    /// The form, if not the object's own.
    pub(crate) target: Option<Target>,
}

/// What an error is written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorForm {
    /// As asked for.
    As(Format),
    /// As indented JSON, since nothing that was asked for can be made.
    Raw,
}

/// What a request says about the answer that it wants.
#[derive(Debug, Clone)]
pub(crate) struct Wanted<'a> {
    accept: Cow<'a, str>,
    pretty: bool,
    gzip: bool,
}

impl<'a> Wanted<'a> {
    /// Reads headers and query.
    pub(crate) fn of(headers: &'a HeaderMap, query: Query<'_>) -> Self {
        let gzip = text(headers, ACCEPT_ENCODING).split(',').any(|coding| coding.trim() == "gzip");
        Self { accept: text(headers, ACCEPT), pretty: is_pretty(headers, query), gzip }
    }

    /// Whether the answer may be compressed.
    pub(crate) fn gzip(&self) -> bool {
        self.gzip
    }
}

/// The first value of a header.
fn text(headers: &HeaderMap, name: HeaderName) -> Cow<'_, str> {
    headers.get(name).map_or(Cow::Borrowed(""), |value| String::from_utf8_lossy(value.as_bytes()))
}

/// Whether a human seems to be looking: by a query parameter, or else by the client's name.
fn is_pretty(headers: &HeaderMap, query: Query<'_>) -> bool {
    if let Some(value) = query.values("pretty").next().filter(|value| !value.is_empty()) {
        return matches!(&*value, "1" | "t" | "T" | "TRUE" | "true" | "True");
    }
    let agent = text(headers, USER_AGENT);
    ["curl", "Wget", "Mozilla/5.0"].iter().any(|tool| agent.starts_with(tool))
}

impl Settings {
    /// The formats that answers can have, in the order in which they are announced.
    fn formats(self) -> &'static [Format] {
        let all = &[Format::Json, Format::Yaml, Format::Protobuf, Format::Cbor];
        if self.cbor { all } else { all.split_last().map_or(&[], |(_, rest)| rest) }
    }

    /// The media types of answers.
    pub(crate) fn media_types(self) -> impl Iterator<Item = &'static str> {
        self.formats().iter().map(|format| format.media_type())
    }

    /// The media types of watches.
    pub(crate) fn stream_media_types(self) -> impl Iterator<Item = &'static str> {
        self.formats().iter().filter_map(|format| stream_media_type(*format))
    }

    /// What an answer about a resource is written as: 406 if nothing that is accepted can be made.
    pub(crate) fn accept(self, wanted: &Wanted<'_>, forms: Forms) -> Result<Accept, Status> {
        self.choose(wanted, forms).ok_or_else(|| self.not_acceptable())
    }

    /// What an answer that knows no other forms is written as: discovery, for one.
    pub(crate) fn accept_plain(self, wanted: &Wanted<'_>) -> Result<Format, Status> {
        self.choose(wanted, Forms::Own).map(|accept| accept.format).ok_or_else(|| self.not_acceptable())
    }

    /// What the one document of discovery is written as, if a client asks for it.
    pub(crate) fn accept_aggregated(self, wanted: &Wanted<'_>) -> Option<Format> {
        let clauses = accept::clauses(&wanted.accept);
        let mut choices =
            clauses.iter().flat_map(|clause| self.formats().iter().map(move |format| (clause, *format)));
        choices.find_map(|(clause, format)| {
            let pretty = clause.choose_aggregated(format)? || wanted.pretty;
            Some(if pretty && format == Format::Json { Format::Pretty } else { format })
        })
    }

    /// What an error is written as.
    pub(crate) fn error_form(self, wanted: &Wanted<'_>) -> ErrorForm {
        let chosen = self.choose(wanted, Forms::Own);
        chosen.map_or(ErrorForm::Raw, |accept| ErrorForm::As(accept.format))
    }

    fn choose(self, wanted: &Wanted<'_>, forms: Forms) -> Option<Accept> {
        if wanted.accept.is_empty() {
            let format = if wanted.pretty { Format::Pretty } else { Format::Json };
            return Some(Accept { format, target: None });
        }
        let clauses = accept::clauses(&wanted.accept);
        let mut choices =
            clauses.iter().flat_map(|clause| self.formats().iter().map(move |format| (clause, *format)));
        choices.find_map(|(clause, format)| clause.choose(format, forms)).map(|(accept, pretty)| Accept {
            format: match accept.format {
                Format::Json if wanted.pretty || pretty => Format::Pretty,
                other => other,
            },
            ..accept
        })
    }

    fn not_acceptable(self) -> Status {
        Status::not_acceptable(accepted(self.media_types()))
    }
}

impl Accept {
    /// What the media type of a watch in this form is: 406 for a format that does not stream. Watches are not indented.
    pub(crate) fn stream(self, settings: Settings) -> Result<(Self, &'static str), Status> {
        let format = if self.format == Format::Pretty { Format::Json } else { self.format };
        let media_type = match format {
            Format::Json => Some(JSON),
            other => stream_media_type(other),
        };
        media_type
            .map(|media_type| (Self { format, ..self }, media_type))
            .ok_or_else(|| Status::not_acceptable(accepted(settings.stream_media_types())))
    }
}

/// The media type that a watch is announced as, if the format streams.
fn stream_media_type(format: Format) -> Option<&'static str> {
    match format {
        Format::Json | Format::Pretty => Some("application/json;stream=watch"),
        Format::Protobuf => Some("application/vnd.kubernetes.protobuf;stream=watch"),
        Format::Cbor => Some(CBOR_SEQUENCE),
        Format::Yaml => None,
    }
}

/// The words of a 406.
fn accepted(types: impl Iterator<Item = &'static str>) -> String {
    format!("only the following media types are accepted: {}", joined(types))
}

fn joined(types: impl Iterator<Item = &'static str>) -> String {
    types.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
