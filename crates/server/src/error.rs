//! The errors of requests, and the one function that turns them into responses. The responses 304 and 416 to
//! conditional and range requests for documents are made with the documents.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER, VARY, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};

use crate::api::status_body;
use crate::http1::HeadError;
use crate::layers::NoCacheControl;
use crate::negotiate::{ErrorFormat, Format};
use crate::{Body, Response, Status, body};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A `Status` of the API, in the format that the client accepts.
    #[error("{}", .0.message)]
    Status(Box<Status>),
    /// The path is unknown: the plain-text 404 of the reference.
    #[error("404 page not found")]
    UnknownPath,
    /// The path has an invalid percent escape: the plain-text 400 of the reference.
    #[error("400 Bad Request")]
    InvalidPath,
    /// The path ends with `watch` or `proxy`: a plain-text 500, which the reference sends before it sets
    /// `Cache-Control`.
    #[error("{0}")]
    IncompletePath(String),
    /// The head of an HTTP/1 request is refused, and the connection is closed.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// The request's body could not be read.
    #[error(transparent)]
    Body(#[from] body::Error),
    /// A part of the server failed: the plain-text 500 of the reference, made by `Error::internal`.
    #[error("{0}")]
    Internal(String),
    /// The caller has to come again later: the plain-text 429 of the reference, and a line that says why.
    #[error("Too many requests, please try again later.\n{0}")]
    TooManyRequests(Cow<'static, str>),
    /// The server stops: the plain-text 429 of the reference, after which the connection ends.
    #[error("The apiserver is shutting down, please try again later.")]
    ShuttingDown,
    /// Health checks failed: a plain-text 500 with their names.
    #[error("{0}")]
    Unhealthy(String),
    /// There is no OpenAPI v3 document at the path: a 404 without a body.
    #[error("there is no such document")]
    UnknownDocument,
    /// An OpenAPI document has no representation that the client accepts: a 406 without a body, with these
    /// values of `Vary`.
    #[error("the document is not available in an accepted media type")]
    UnacceptableDocument(&'static [&'static str]),
    /// A WebSocket handshake lacks a header: the plain-text 400 of the reference.
    #[error("Bad Request")]
    BadHandshake,
    /// A WebSocket handshake offers no supported protocol: the plain-text 403 of the reference.
    #[error("requested protocol(s) are not supported")]
    UnsupportedProtocol,
    /// A backend switched protocols without the headers of SPDY: the plain-text 500 of the reference.
    #[error("unable to upgrade: missing upgrade headers in response")]
    MissingUpgradeHeaders,
    /// Another API server did not answer a request: plain text, as the aggregator of the reference.
    #[error("{text}")]
    Backend {
        /// The status code.
        code: u16,
        /// The text, without its last line feed.
        text: String,
    },
    /// The request did not complete before its deadline: a 504 with a `Status` that has neither `kind` nor
    /// `apiVersion`, as plain text, whatever the client accepts.
    #[error("request did not complete within the allotted timeout")]
    TimedOut,
    /// A handler panicked. The panic itself is in the log.
    #[error("the handler panicked")]
    Panicked,
}

/// An extension of a response: the `Status` in it, if audit records it.
#[derive(Debug, Clone)]
pub(crate) struct SentStatus(pub(crate) Arc<Status>);

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl Error {
    /// The plain-text 500 of a request: the URI as the client wrote it, and the reason, with HTML escaped.
    pub(crate) fn internal(uri: &http::Uri, why: impl std::fmt::Display) -> Self {
        Self::Internal(internal_text(uri, why))
    }

    /// The plain-text 500 for a path that ends with `watch` or `proxy`.
    /// The error of a request that was not authorized.
    pub(crate) fn denied(uri: &http::Uri, denied: auth::Denied) -> Self {
        match denied {
            auth::Denied::Forbidden(status) => status.into(),
            auth::Denied::Failed(why) => Self::internal(uri, why),
        }
    }

    pub(crate) fn incomplete_path(uri: &http::Uri) -> Self {
        let why = "failed to create RequestInfo: unable to determine kind and namespace from url";
        Self::IncompletePath(internal_text(uri, format_args!("{why}, {}", path_and_query(uri))))
    }

    /// The response for the error. `format` is that of a `Status`.
    pub(crate) fn into_response(self, format: ErrorFormat) -> Response {
        match self {
            Self::Status(status) => {
                let mut response = status_response(&status, format);
                if is_recorded(&status, format) {
                    response.extensions_mut().insert(SentStatus(status.into()));
                }
                response
            }
            Self::UnknownPath => plain_text(StatusCode::NOT_FOUND, "404 page not found\n"),
            Self::InvalidPath => plain_text(StatusCode::BAD_REQUEST, "400 Bad Request"),
            Self::IncompletePath(text) => {
                let mut response = plain_text(StatusCode::INTERNAL_SERVER_ERROR, text);
                response.extensions_mut().insert(NoCacheControl);
                response
            }
            Self::Head(error) => head_response(error),
            Self::Body(error) => status_response(&body_status(&error), ErrorFormat::JSON),
            Self::Internal(text) | Self::Unhealthy(text) => {
                plain_text(StatusCode::INTERNAL_SERVER_ERROR, text)
            }
            Self::UnknownDocument => empty(StatusCode::NOT_FOUND),
            Self::UnacceptableDocument(vary) => {
                let mut response = empty(StatusCode::NOT_ACCEPTABLE);
                for name in vary {
                    response.headers_mut().append(VARY, HeaderValue::from_static(name));
                }
                response
            }
            Self::BadHandshake => plain_text(StatusCode::BAD_REQUEST, "Bad Request\n"),
            Self::UnsupportedProtocol => {
                plain_text(StatusCode::FORBIDDEN, "requested protocol(s) are not supported\n")
            }
            Self::MissingUpgradeHeaders => plain_text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "unable to upgrade: missing upgrade headers in response\n",
            ),
            Self::TooManyRequests(_) => {
                let mut response = plain_text(StatusCode::TOO_MANY_REQUESTS, format!("{self}\n"));
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                response
            }
            Self::ShuttingDown => {
                let mut response = plain_text(StatusCode::TOO_MANY_REQUESTS, format!("{self}\n"));
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("5"));
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                response
            }
            Self::Backend { code, text } => {
                let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                plain_text(code, format!("{text}\n"))
            }
            Self::TimedOut => timeout_response(),
            Self::Panicked => plain_text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "This request caused apiserver to panic. Look in the logs for details.\n",
            ),
        }
    }
}

/// The text of a plain-text 500: the URI as the client wrote it, and the reason, with HTML escaped.
fn internal_text(uri: &http::Uri, why: impl std::fmt::Display) -> String {
    let text = format!("Internal Server Error: {}: {why}\n", object::quote::Quoted(path_and_query(uri)));
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Whether a `Status` is in the audit log. The reference does not record one whose format it could not
/// negotiate: where the client accepts no format at all, or none for what it asked for.
fn is_recorded(status: &Status, format: ErrorFormat) -> bool {
    match format {
        ErrorFormat::IndentedJson => false,
        ErrorFormat::Negotiated(Format::Json | Format::Pretty | Format::Yaml) => true,
        ErrorFormat::Negotiated(Format::Protobuf | Format::Cbor) => status.code != 406,
    }
}

fn path_and_query(uri: &http::Uri) -> &str {
    uri.path_and_query().map_or("/", |written| written.as_str())
}

fn body_status(error: &body::Error) -> Status {
    match error {
        body::Error::TooLarge { .. } => Status::request_entity_too_large(&error.to_string()),
        body::Error::TooSlow { .. } => Status::timeout(&error.to_string()),
        body::Error::Broken(_) => Status::bad_request(error.to_string()),
    }
}

fn status_response(status: &Status, format: ErrorFormat) -> Response {
    let (body, media_type) = status_body(status, format);
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if let Some(seconds) = status.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The response of the reference's timeout filter, which knows no media types.
fn timeout_response() -> Response {
    let text = concat!(
        r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted "#,
        r#"timeout","reason":"Timeout","details":{},"code":504}"#,
        "\n"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn head_response(error: HeadError) -> Response {
    let (status, text) = match error {
        HeadError::TransferEncoding => (StatusCode::NOT_IMPLEMENTED, "Unsupported transfer encoding"),
        HeadError::ManyHosts => (StatusCode::BAD_REQUEST, "400 Bad Request"),
        HeadError::NoHost => (StatusCode::BAD_REQUEST, "400 Bad Request: missing required Host header"),
        HeadError::MalformedHost => (StatusCode::BAD_REQUEST, "400 Bad Request: malformed Host header"),
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    if let Some(phrase) = error.reason_phrase() {
        response.extensions_mut().insert(phrase);
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::Empty);
    *response.status_mut() = status;
    response
}

/// A plain-text response as the reference's errors: `text` as it is, and `X-Content-Type-Options: nosniff`.
pub(crate) fn plain_text(status: StatusCode, text: impl Into<Body>) -> Response {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Details, Reason};

    #[test]
    fn body_above_its_limit_is_413() {
        let response =
            Error::from(body::Error::TooLarge { limit: 3_145_728 }).into_response(ErrorFormat::JSON);
        assert_eq!(response.status(), 413);
        let Body::Whole(bytes) = response.into_body() else { panic!("a whole body") };
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(text.contains("\"message\":\"Request entity too large: limit is 3145728\""), "{text}");
    }

    #[test]
    fn request_past_its_deadline_gets_plain_text_whatever_the_client_accepts() {
        let json = Error::TimedOut.into_response(ErrorFormat::JSON);
        let protobuf = Error::TimedOut.into_response(ErrorFormat::Negotiated(Format::Protobuf));
        for response in [json, protobuf] {
            assert_eq!(response.status(), 504);
            assert_eq!(response.headers().len(), 1);
            assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
            let Body::Whole(bytes) = response.into_body() else { panic!("a whole body") };
            assert_eq!(bytes.len(), 152);
            assert!(bytes.starts_with(br#"{"metadata":{},"status":"Failure","message":"Timeout: "#));
        }
    }

    #[test]
    fn retry_after_is_also_a_header() {
        let status = Status {
            code: 429,
            reason: Reason::TooManyRequests,
            message: "later".into(),
            details: Some(Details { retry_after_seconds: 7, ..Details::default() }.into()),
            token: String::new(),
        };
        let response = Error::from(status).into_response(ErrorFormat::JSON);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "7");
    }

    #[test]
    fn too_many_requests_begin_with_the_line_of_the_reference() {
        let response = Error::TooManyRequests("why".into()).into_response(ErrorFormat::JSON);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "1");
        assert_eq!(response.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
        let Body::Whole(bytes) = response.into_body() else { panic!("a whole body") };
        assert_eq!(bytes, "Too many requests, please try again later.\nwhy\n");
    }

    #[test]
    fn status_in_a_format_that_was_not_negotiated_is_not_recorded() {
        let not_acceptable = || Status::not_acceptable("none");
        let is_recorded = |status: Status, format| {
            Error::from(status).into_response(format).extensions().get::<SentStatus>().is_some()
        };
        assert!(is_recorded(Status::unauthorized(), ErrorFormat::JSON));
        assert!(is_recorded(Status::unauthorized(), ErrorFormat::Negotiated(Format::Protobuf)));
        assert!(!is_recorded(Status::unauthorized(), ErrorFormat::IndentedJson));
        // The keys of the issuer, asked for as JSON, are refused in JSON.
        assert!(is_recorded(not_acceptable(), ErrorFormat::JSON));
        // A custom object, asked for as Protobuf, is refused in no format that the client accepts.
        assert!(!is_recorded(not_acceptable(), ErrorFormat::Negotiated(Format::Protobuf)));
    }

    #[test]
    fn invalid_status_code_becomes_500() {
        let status = Status { code: 42, ..Status::unauthorized() };
        assert_eq!(Error::from(status).into_response(ErrorFormat::JSON).status(), 500);
    }
}
