//! The OpenAPI documents, and their responses: with ETags, byte ranges and compression.
//!
//! The documents are computed on their first use, and kept compressed; OpenAPI v2 in parts, so that a further
//! custom kind costs only its own part. Concurrent responses share the encoded document ([`super::in_use`]).

use std::convert::Infallible;
use std::io::Write as _;
use std::ops::Range;
use std::sync::Arc;

use aggregation::Table;
use auth::User;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzDecoder, GzEncoder};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, EXPIRES, HeaderName, IF_NONE_MATCH, LAST_MODIFIED, LOCATION, RANGE, VARY,
};
use http::{HeaderValue, StatusCode};
use object::duration::Duration;
use object::time::Time;
use openapi::v2::{DocumentPart, Encoding};
use registry::Catalog;

use super::discovery::DocumentForm;
use super::in_use::InUse;
use super::{Api, discovery};
use crate::negotiate::{self, JSON};
use crate::{Body, Error, Request, Response, date};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V2_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V3_PROTOBUF: &str = openapi::v3::PROTOBUF;
const V3_PROTOBUF_OLD: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
/// The `Expires` time of a URL with a hash: a year.
const IMMUTABLE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The OpenAPI v2 document in one encoding.
pub(super) struct V2 {
    /// The compressed parts. They are joined for each response.
    parts: Vec<Arc<DocumentPart>>,
    encoding: Encoding,
    made: Made,
}

/// The ETag and the modification time of a document, for all its encodings.
#[derive(Clone)]
pub(super) struct Made {
    etag: String,
    at: Time,
}

/// An OpenAPI v3 document.
pub(super) struct V3 {
    document: GzipDocument,
    made: Time,
}

/// A document, compressed, with its hash.
struct GzipDocument {
    gzip: Bytes,
    hash: String,
}

impl GzipDocument {
    fn new(document: &[u8]) -> Self {
        let hash = openapi::hash(document);
        let mut encoder = GzEncoder::new(Vec::with_capacity(document.len() / 8), Compression::default());
        // Writing into memory does not fail.
        let gzip = encoder.write_all(document).and_then(|()| encoder.finish()).unwrap_or_default();
        Self { gzip: gzip.into(), hash }
    }

    fn plain(&self) -> Vec<u8> {
        decompress(&self.gzip)
    }
}

fn decompress(gzip: &[u8]) -> Vec<u8> {
    let mut decoder = GzDecoder::new(Vec::with_capacity(gzip.len() * 8));
    let mut plain = decoder.write_all(gzip).and_then(|()| decoder.finish()).unwrap_or_default();
    plain.shrink_to_fit();
    plain
}

impl V2 {
    /// The document with these parts.
    pub(super) fn new(parts: Vec<Arc<DocumentPart>>, encoding: Encoding, made: &Made) -> Self {
        Self { parts, encoding, made: made.clone() }
    }

    /// The document, compressed; shared with other responses.
    fn gzip(&self, in_use: &InUse<DocumentForm>) -> Bytes {
        let form = DocumentForm::V2Gzip(self.encoding, self.made.etag.clone());
        made(in_use.get(form, || Ok(openapi::v2::gzip(&self.parts, self.encoding))))
    }

    /// The document as it is; shared with other responses.
    fn plain(&self, in_use: &InUse<DocumentForm>) -> Bytes {
        let form = DocumentForm::V2(self.encoding, self.made.etag.clone());
        made(in_use.get(form, || Ok(decompress(&openapi::v2::gzip(&self.parts, self.encoding)))))
    }
}

/// The document of a `make` that cannot fail.
fn made(document: Result<Bytes, Infallible>) -> Bytes {
    document.unwrap_or_else(|never| match never {})
}

impl Made {
    /// The metadata of a document with these parts that is made now.
    pub(super) fn now(parts: &[Arc<DocumentPart>]) -> Self {
        Self { etag: openapi::v2::etag(parts), at: Time::now() }
    }
}

impl V3 {
    /// The document at a path; empty if there is none.
    pub(super) fn new(served: &openapi::ServedResources, path: &str) -> Self {
        Self::of(&openapi::v3::document(served, path).unwrap_or_default())
    }

    /// A document.
    pub(super) fn of(document: &[u8]) -> Self {
        Self { document: GzipDocument::new(document), made: Time::now() }
    }
}

/// Which OpenAPI v3 document is asked for, and by whom.
pub(super) struct OpenApiV3<'a> {
    /// The path of the request.
    pub(super) path: &'a str,
    /// The path of the document.
    pub(super) document: &'a str,
    pub(super) user: &'a User,
}

impl Api {
    /// Answers `/openapi/v3`: the index of the OpenAPI v3 documents.
    pub(super) async fn openapi_v3_index(
        &self,
        request: &Request,
        catalog: Arc<Catalog>,
        table: Arc<Table>,
    ) -> Result<Response, Error> {
        let documents = self.documents.clone();
        let index = discovery::blocking(move || documents.v3_index(&catalog, &table)).await?;
        let mut response = part(request, (*index).clone());
        set(&mut response, CONTENT_TYPE, "text/plain; charset=utf-8");
        set_text(&mut response, LAST_MODIFIED, &date::format(Time::now(), "GMT"));
        Ok(response)
    }

    /// Answers `/openapi/v3/<path>`.
    pub(super) async fn openapi_v3(
        &self,
        request: Request,
        catalog: Arc<Catalog>,
        table: Arc<Table>,
        asked: OpenApiV3<'_>,
    ) -> Result<Response, Error> {
        let (documents, at) = (self.documents.clone(), asked.document.to_owned());
        if let Some(v3) = discovery::blocking(move || documents.v3(&catalog, &at)).await? {
            return self.openapi_v3_document(&request, asked.document, v3).await;
        }
        for remote in table.remotes() {
            match remote.v3().map(|known| &**known) {
                Some(aggregation::V3::Served(paths))
                    if paths.iter().any(|(path, _)| path == asked.document) =>
                {
                    return self.aggregated_document(request, asked.user, asked.path, remote).await;
                }
                Some(aggregation::V3::Converted { path, hash, document, .. }) if path == asked.document => {
                    let v3 = self.documents.v3_converted(path, hash, document);
                    return self.openapi_v3_document(&request, path, v3).await;
                }
                _ => {}
            }
        }
        Err(Error::UnknownDocument)
    }

    /// Answers with an OpenAPI v3 document.
    async fn openapi_v3_document(
        &self,
        request: &Request,
        path: &str,
        v3: Arc<V3>,
    ) -> Result<Response, Error> {
        let kept = &v3.document;
        let accept = request.header(ACCEPT);
        let ranges = negotiate::ranges(if accept.is_empty() { "*/*" } else { accept });
        if ranges.is_empty() {
            return Ok(bare(StatusCode::OK));
        }
        let encodings = [(JSON, JSON), (V3_PROTOBUF, V3_PROTOBUF), (V3_PROTOBUF_OLD, V3_PROTOBUF)];
        let chosen = ranges.iter().find_map(|range| encodings.iter().find(|(name, _)| range.takes(name)));
        let Some((_, media_type)) = chosen else {
            return Err(Error::UnacceptableDocument(&["Accept"]));
        };
        let hash = request.query().values("hash").next();
        let hash = hash.as_deref().filter(|hash| !hash.is_empty());
        if hash.is_some_and(|hash| hash != kept.hash) {
            let mut response = bare(StatusCode::MOVED_PERMANENTLY);
            set(&mut response, CONTENT_TYPE, media_type);
            set(&mut response, VARY, "Accept");
            set_text(&mut response, ETAG, &format!("\"{}\"", kept.hash));
            set_text(&mut response, LOCATION, &format!("/openapi/v3/{path}?hash={}", kept.hash));
            return Ok(response);
        }
        let (documents, asked) = (self.documents.clone(), v3.clone());
        let is_json = *media_type == JSON;
        let body = discovery::blocking(move || {
            let (kept, in_use) = (&asked.document, &documents.in_use);
            made(match is_json {
                true => in_use.get(DocumentForm::V3(kept.hash.clone()), || Ok(kept.plain())),
                false => in_use.get(DocumentForm::V3Protobuf(kept.hash.clone()), || {
                    Ok(openapi::v3::to_protobuf(&kept.plain()))
                }),
            })
        });
        let body = body.await?;
        let mut response = tagged(request, &kept.hash, media_type, v3.made, || part(request, body));
        set(&mut response, VARY, "Accept");
        if hash.is_some() {
            set(&mut response, CACHE_CONTROL, "public, immutable");
            let end = Time::now().checked_add(IMMUTABLE).unwrap_or_else(Time::now);
            set_text(&mut response, EXPIRES, &date::format(end, "UTC"));
        }
        Ok(response)
    }

    /// Answers `/openapi/v2`.
    pub(super) async fn openapi_v2(
        &self,
        request: &Request,
        catalog: Arc<Catalog>,
        table: Arc<Table>,
    ) -> Result<Response, Error> {
        let accept = request.header(ACCEPT);
        let encodings = [
            (JSON, JSON, Encoding::Json),
            (V2_PROTOBUF, V2_PROTOBUF, Encoding::Protobuf),
            (V2_PROTOBUF_OLD, V2_PROTOBUF, Encoding::Protobuf),
        ];
        let ranges = negotiate::ranges(if accept.is_empty() { "*/*" } else { accept });
        let chosen = ranges.iter().find_map(|range| encodings.iter().find(|(name, ..)| range.takes(name)));
        let Some((_, media_type, encoding)) = chosen else {
            return Err(Error::UnacceptableDocument(&["Accept-Encoding", "Accept"]));
        };
        let (documents, encoding) = (self.documents.clone(), *encoding);
        let wants_gzip = takes_gzip(request) && request.header(RANGE).is_empty();
        let known = request.header(IF_NONE_MATCH).to_owned();
        let (made, body) = discovery::blocking(move || {
            let v2 = documents.v2(&catalog, &table, encoding);
            let body = match contains_etag(&known, &quoted(&v2.made.etag)) {
                true => Bytes::new(),
                false if wants_gzip => v2.gzip(&documents.in_use),
                false => v2.plain(&documents.in_use),
            };
            (v2.made.clone(), body)
        })
        .await?;
        let mut response = tagged(request, &made.etag, media_type, made.at, || {
            if !wants_gzip {
                return part(request, body);
            }
            let mut response = Response::new(Body::shared(body));
            set(&mut response, CONTENT_ENCODING, "gzip");
            set(&mut response, ACCEPT_RANGES, "bytes");
            response
        });
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept-Encoding"));
        response.headers_mut().append(VARY, HeaderValue::from_static("Accept"));
        Ok(response)
    }
}

/// A document with its ETag; 304 if `If-None-Match` contains that.
fn tagged(
    request: &Request,
    hash: &str,
    media_type: &'static str,
    made: Time,
    whole: impl FnOnce() -> Response,
) -> Response {
    let etag = quoted(hash);
    let mut response = if contains_etag(request.header(IF_NONE_MATCH), &etag) {
        bare(StatusCode::NOT_MODIFIED)
    } else {
        let mut response = whole();
        set(&mut response, CONTENT_TYPE, media_type);
        set_text(&mut response, LAST_MODIFIED, &date::format(made, "GMT"));
        response
    };
    set_text(&mut response, ETAG, &etag);
    response
}

/// The ETag with a hash.
fn quoted(hash: &str) -> String {
    format!("\"{hash}\"")
}

/// Whether a list of ETags contains this one, in the weak comparison of HTTP.
fn contains_etag(given: &str, etag: &str) -> bool {
    given
        .split(',')
        .map(str::trim)
        .any(|given| given == "*" || given.strip_prefix("W/").unwrap_or(given) == etag)
}

/// A document, or the byte range of it that the client asks for. Several ranges at once give the whole
/// document.
fn part(request: &Request, document: Bytes) -> Response {
    let size = document.len();
    let mut response = match range(request.header(RANGE), size) {
        ByteRange::Whole => Response::new(Body::shared(document)),
        ByteRange::Part(range) => {
            let shown = format!("bytes {}-{}/{size}", range.start, range.end.saturating_sub(1));
            let mut response = Response::new(Body::shared(document.slice(range)));
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            set_text(&mut response, CONTENT_RANGE, &shown);
            response
        }
        ByteRange::Outside => {
            let mut response = bare(StatusCode::RANGE_NOT_SATISFIABLE);
            set_text(&mut response, CONTENT_RANGE, &format!("bytes */{size}"));
            return response;
        }
    };
    set(&mut response, ACCEPT_RANGES, "bytes");
    response
}

/// The meaning of a `Range` header.
#[derive(Debug, PartialEq, Eq)]
enum ByteRange {
    Whole,
    Part(Range<usize>),
    Outside,
}

fn range(header: &str, size: usize) -> ByteRange {
    let Some((first, last)) = header.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return ByteRange::Whole;
    };
    let number = |text: &str| text.trim().parse::<usize>();
    match (first.trim(), last.trim()) {
        ("", last) => match number(last) {
            Ok(0) => ByteRange::Outside,
            Ok(count) => ByteRange::Part(size.saturating_sub(count)..size),
            Err(_) => ByteRange::Whole,
        },
        (first, last) => match (number(first), if last.is_empty() { Ok(size) } else { number(last) }) {
            (Ok(first), _) if first >= size => ByteRange::Outside,
            (Ok(first), Ok(last)) if first <= last => {
                ByteRange::Part(first..last.saturating_add(1).min(size))
            }
            _ => ByteRange::Whole,
        },
    }
}

/// Whether the client accepts gzip: in any case, with a weight above zero.
fn takes_gzip(request: &Request) -> bool {
    request.header(ACCEPT_ENCODING).split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(Ok(1.0), str::parse::<f32>);
        is_gzip && weight.is_ok_and(|weight| weight > 0.0)
    })
}

fn bare(code: StatusCode) -> Response {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = code;
    response
}

fn set(response: &mut Response, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

fn set_text(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_header_selects_bytes_or_the_whole_document() {
        for (header, wanted) in [
            ("", ByteRange::Whole),
            ("bytes=0-9", ByteRange::Part(0..10)),
            ("bytes=90-", ByteRange::Part(90..100)),
            ("bytes=90-500", ByteRange::Part(90..100)),
            ("bytes=-5", ByteRange::Part(95..100)),
            ("bytes=-500", ByteRange::Part(0..100)),
            ("bytes=100-", ByteRange::Outside),
            ("bytes=-0", ByteRange::Outside),
            ("bytes=5-3", ByteRange::Whole),
            ("bytes=0-1,3-4", ByteRange::Whole),
            ("bytes=x-y", ByteRange::Whole),
            ("lines=0-1", ByteRange::Whole),
        ] {
            assert_eq!(range(header, 100), wanted, "{header}");
        }
    }

    #[test]
    fn times_have_the_date_format_of_http() {
        let time: Time = "2027-11-15T12:01:13Z".parse().unwrap();
        assert_eq!(date::format(time, "GMT"), "Mon, 15 Nov 2027 12:01:13 GMT");
        assert_eq!(
            date::format("1970-01-01T00:00:00Z".parse().unwrap(), "UTC"),
            "Thu, 01 Jan 1970 00:00:00 UTC"
        );
    }

    #[test]
    fn etags_are_compared_weakly() {
        for (given, wanted) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
        ] {
            assert_eq!(contains_etag(given, "\"a\""), wanted, "{given}");
        }
    }
}
