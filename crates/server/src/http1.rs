//! Rules for the heads of HTTP/1 requests that hyper leaves to its user. They are those of the reference's
//! HTTP server, in its order and with its responses, after which it closes the connection.

use http::header::{CONNECTION, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode, Version};
use hyper::ext::ReasonPhrase;

use crate::{Body, Response};

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// More than one `Host`.
    ManyHosts,
    /// An encoding of the body other than `chunked`, alone: another server on the way may see another body.
    TransferEncoding,
    /// No `Host`, in HTTP/1.1.
    NoHost,
    /// A `Host` that cannot be a host.
    MalformedHost,
}

/// Why a request is refused, if it is.
pub(crate) fn refusal(head: &Parts) -> Option<Refusal> {
    if !matches!(head.version, Version::HTTP_10 | Version::HTTP_11) {
        return None;
    }
    let mut hosts = head.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Some(Refusal::ManyHosts);
    }
    let mut encodings = head.headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(encoding) = encodings.next()
        && (!encoding.as_bytes().eq_ignore_ascii_case(b"chunked") || encodings.next().is_some())
    {
        return Some(Refusal::TransferEncoding);
    }
    match host {
        None if head.version == Version::HTTP_11 && head.method != Method::CONNECT => Some(Refusal::NoHost),
        Some(host) if !host.as_bytes().iter().all(|byte| is_host_byte(*byte)) => Some(Refusal::MalformedHost),
        _ => None,
    }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

impl Refusal {
    /// The response.
    pub(crate) fn into_response(self) -> Response {
        let (status, line, text) = match self {
            Self::ManyHosts => (StatusCode::BAD_REQUEST, None, "400 Bad Request"),
            Self::TransferEncoding => (StatusCode::NOT_IMPLEMENTED, None, "Unsupported transfer encoding"),
            Self::NoHost => (
                StatusCode::BAD_REQUEST,
                Some(ReasonPhrase::from_static(b"Bad Request: missing required Host header")),
                "400 Bad Request: missing required Host header",
            ),
            Self::MalformedHost => (
                StatusCode::BAD_REQUEST,
                Some(ReasonPhrase::from_static(b"Bad Request: malformed Host header")),
                "400 Bad Request: malformed Host header",
            ),
        };
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = status;
        if let Some(line) = line {
            response.extensions_mut().insert(line);
        }
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(version: Version, headers: &[(&str, &str)]) -> Option<Refusal> {
        let mut request = http::Request::builder().version(version).uri("/livez");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        refusal(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn exactly_one_host_is_needed() {
        assert_eq!(refused(Version::HTTP_11, &[]), Some(Refusal::NoHost));
        assert_eq!(refused(Version::HTTP_11, &[("host", "a"), ("host", "a")]), Some(Refusal::ManyHosts));
        for host in ["", "a", "a.example:6443", "[::1]:6443", "127.0.0.1", "[fe80::1%25eth0]"] {
            assert_eq!(refused(Version::HTTP_11, &[("host", host)]), None, "{host}");
        }
        for host in ["a b", "a/b", "a@b", "a?b", "a#b", "\"a\"", "a\\b"] {
            assert_eq!(refused(Version::HTTP_11, &[("host", host)]), Some(Refusal::MalformedHost), "{host}");
        }
    }

    #[test]
    fn older_and_newer_versions_need_no_host() {
        assert_eq!(refused(Version::HTTP_10, &[]), None);
        assert_eq!(refused(Version::HTTP_10, &[("host", "a"), ("host", "b")]), Some(Refusal::ManyHosts));
        assert_eq!(refused(Version::HTTP_2, &[]), None);
    }

    #[test]
    fn chunked_is_the_only_transfer_encoding() {
        let encoded = |values: &[&str]| {
            let mut headers = vec![("host", "a")];
            headers.extend(values.iter().map(|value| ("transfer-encoding", *value)));
            refused(Version::HTTP_11, &headers)
        };
        assert_eq!(encoded(&["chunked"]), None);
        assert_eq!(encoded(&["Chunked"]), None);
        for values in [&["gzip, chunked"][..], &["chunked", "chunked"], &["gzip", "chunked"], &["x"], &[""]] {
            assert_eq!(encoded(values), Some(Refusal::TransferEncoding), "{values:?}");
        }
    }
}
