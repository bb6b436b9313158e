//! Compression of responses: gzip, for clients that accept it, above a size.

use std::io::Write;

use bytes::Bytes;
use flate2::write::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderValue, StatusCode};

use crate::{Body, Response};

/// Only bodies that are larger than this are compressed.
pub(crate) const THRESHOLD: usize = 128 * 1024;

/// Whether a response may be compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// Not compressed.
    Identity,
    /// Compressed with gzip if it is larger than [`THRESHOLD`].
    Gzip,
}

/// A stream of compressed bytes.
pub(crate) struct Compressor(GzEncoder<Vec<u8>>);

impl Compressor {
    /// About how many bytes a compressor holds.
    pub(crate) const HELD: usize = 320 << 10;

    /// The fastest level, as the reference has it.
    pub(crate) fn new() -> Self {
        Self(GzEncoder::new(Vec::with_capacity(32 * 1024), flate2::Compression::fast()))
    }

    /// Compresses bytes. Returns the output so far, which may be empty.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> std::io::Result<Bytes> {
        self.0.write_all(bytes)?;
        Ok(std::mem::take(self.0.get_mut()).into())
    }

    /// Returns the rest of the output.
    pub(crate) fn finish(self) -> std::io::Result<Bytes> {
        self.0.finish().map(Bytes::from)
    }
}

/// A response with a body in memory.
pub(crate) fn whole(code: StatusCode, media_type: &'static str, body: Bytes, coding: Coding) -> Response {
    match compressed(&body, coding) {
        Some(compressed) => response(code, media_type, Body::from(compressed), true),
        None => response(code, media_type, Body::from(body), false),
    }
}

/// A response with a body that is shared with other responses.
pub(super) fn shared(code: StatusCode, media_type: &'static str, body: Bytes, coding: Coding) -> Response {
    match compressed(&body, coding) {
        Some(compressed) => response(code, media_type, Body::from(compressed), true),
        None => response(code, media_type, Body::shared(body), false),
    }
}

/// The compressed body; `None` if the body is not to be compressed.
fn compressed(body: &[u8], coding: Coding) -> Option<Bytes> {
    if coding == Coding::Identity || body.len() <= THRESHOLD {
        return None;
    }
    let mut compressor = Compressor::new();
    // Writing into memory does not fail. If it did, the response would not be compressed.
    let first = compressor.push(body).ok()?;
    let rest = compressor.finish().ok()?;
    Some([first, rest].concat().into())
}

/// A response with its headers.
pub(super) fn response(
    code: StatusCode,
    media_type: &'static str,
    body: Body,
    is_compressed: bool,
) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if is_compressed {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn body(response: Response) -> Bytes {
        match response.into_body() {
            Body::Whole(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn large_body_is_compressed_if_the_client_accepts_gzip() {
        let large = Bytes::from(vec![b'a'; THRESHOLD + 1]);
        let response = whole(StatusCode::OK, "application/json", large.clone(), Coding::Gzip);
        assert_eq!(response.headers()[CONTENT_ENCODING], "gzip");
        assert_eq!(response.headers()[VARY], "Accept-Encoding");
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&*body(response)).read_to_end(&mut text).unwrap();
        assert_eq!(text, large);
        let response = whole(StatusCode::OK, "application/json", large.clone(), Coding::Identity);
        assert!(!response.headers().contains_key(CONTENT_ENCODING));
        assert_eq!(body(response), large);
    }

    #[test]
    fn small_body_is_not_compressed() {
        let small = Bytes::from(vec![b'a'; THRESHOLD]);
        let response = whole(StatusCode::OK, "application/json", small.clone(), Coding::Gzip);
        assert!(!response.headers().contains_key(CONTENT_ENCODING) && !response.headers().contains_key(VARY));
        assert_eq!(body(response), small);
    }
}
