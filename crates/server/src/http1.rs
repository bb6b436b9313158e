//! Rules for the heads of HTTP/1 requests that hyper leaves to its user. They are those of the reference's
//! HTTP server, in its order and with its responses, after which it closes the connection.

use http::header::{HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Version};
use hyper::ext::ReasonPhrase;

/// Why the head of an HTTP/1 request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// More than one `Host`.
    #[error("more than one Host header")]
    ManyHosts,
    /// A transfer encoding other than a single `chunked`: a proxy before this server may see another body.
    #[error("unsupported transfer encoding")]
    TransferEncoding,
    /// No `Host`, in HTTP/1.1.
    #[error("missing required Host header")]
    NoHost,
    /// A `Host` with a character that no host has.
    #[error("malformed Host header")]
    MalformedHost,
}

/// Checks the head of a request.
pub(crate) fn check(head: &Parts) -> Result<(), HeadError> {
    if !matches!(head.version, Version::HTTP_10 | Version::HTTP_11) {
        return Ok(());
    }
    let mut hosts = head.headers.get_all(HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        return Err(HeadError::ManyHosts);
    }
    let mut encodings = head.headers.get_all(TRANSFER_ENCODING).iter();
    if let Some(encoding) = encodings.next()
        && (!encoding.as_bytes().eq_ignore_ascii_case(b"chunked") || encodings.next().is_some())
    {
        return Err(HeadError::TransferEncoding);
    }
    match host {
        None if head.version == Version::HTTP_11 && head.method != Method::CONNECT => Err(HeadError::NoHost),
        Some(host) if !host.as_bytes().iter().all(|byte| is_host_byte(*byte)) => {
            Err(HeadError::MalformedHost)
        }
        _ => Ok(()),
    }
}

fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!$%&'()*+,-.:;=[]_~".contains(&byte)
}

impl HeadError {
    /// The reason phrase of the response, if it is not that of its status code.
    pub(crate) fn reason_phrase(self) -> Option<ReasonPhrase> {
        match self {
            Self::NoHost => Some(ReasonPhrase::from_static(b"Bad Request: missing required Host header")),
            Self::MalformedHost => Some(ReasonPhrase::from_static(b"Bad Request: malformed Host header")),
            Self::ManyHosts | Self::TransferEncoding => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(version: Version, headers: &[(&str, &str)]) -> Option<HeadError> {
        let mut request = http::Request::builder().version(version).uri("/livez");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap().into_parts().0).err()
    }

    #[test]
    fn exactly_one_host_is_needed() {
        assert_eq!(refused(Version::HTTP_11, &[]), Some(HeadError::NoHost));
        assert_eq!(refused(Version::HTTP_11, &[("host", "a"), ("host", "a")]), Some(HeadError::ManyHosts));
        for host in ["", "a", "a.example:6443", "[::1]:6443", "127.0.0.1", "[fe80::1%25eth0]"] {
            assert_eq!(refused(Version::HTTP_11, &[("host", host)]), None, "{host}");
        }
        for host in ["a b", "a/b", "a@b", "a?b", "a#b", "\"a\"", "a\\b"] {
            assert_eq!(
                refused(Version::HTTP_11, &[("host", host)]),
                Some(HeadError::MalformedHost),
                "{host}"
            );
        }
    }

    #[test]
    fn older_and_newer_versions_need_no_host() {
        assert_eq!(refused(Version::HTTP_10, &[]), None);
        assert_eq!(refused(Version::HTTP_10, &[("host", "a"), ("host", "b")]), Some(HeadError::ManyHosts));
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
            assert_eq!(encoded(values), Some(HeadError::TransferEncoding), "{values:?}");
        }
    }
}
