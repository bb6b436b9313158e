//! The errors of requests, and the one function that turns them into responses.

use http::header::{CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};

use crate::{Body, Response, Status, body};

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A `Status` of the API.
    #[error("{}", .0.message)]
    Status(Box<Status>),
    /// The path is unknown: the plain-text 404 of the reference.
    #[error("404 page not found")]
    UnknownPath,
    /// The request's body could not be read.
    #[error(transparent)]
    Body(#[from] body::Error),
    /// A part of the server failed: the plain-text 500 of the reference, made by `Error::internal`.
    #[error("{0}")]
    Internal(String),
    /// The caller has to come again later: the plain-text 429 of the reference.
    #[error("Too many requests, please try again later.")]
    TooManyRequests,
    /// A handler panicked. The panic itself is in the log.
    #[error("the handler panicked")]
    Panicked,
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Status(Box::new(status))
    }
}

impl Error {
    /// The plain-text 500 of a request: the URI as the client wrote it, and the reason, with HTML escaped.
    pub(crate) fn internal(uri: &http::Uri, why: impl std::fmt::Display) -> Self {
        let written = uri.path_and_query().map_or("/", |written| written.as_str());
        let text = format!("Internal Server Error: {}: {why}\n", object::quote::Quoted(written));
        Self::Internal(text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
    }

    /// The response for the error.
    pub fn into_response(self) -> Response {
        match self {
            Self::Status(status) => status_response(&status),
            Self::UnknownPath => plain_text(StatusCode::NOT_FOUND, "404 page not found\n"),
            Self::Body(error) => status_response(&body_status(&error)),
            Self::Internal(text) => plain_text(StatusCode::INTERNAL_SERVER_ERROR, text),
            Self::TooManyRequests => {
                let text = "Too many requests, please try again later.\n";
                let mut response = plain_text(StatusCode::TOO_MANY_REQUESTS, text);
                response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
                response
            }
            Self::Panicked => plain_text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "This request caused apiserver to panic. Look in the logs for details.\n",
            ),
        }
    }
}

fn body_status(error: &body::Error) -> Status {
    match error {
        body::Error::TooLarge { .. } => Status::request_entity_too_large(&error.to_string()),
        body::Error::TooSlow { .. } => Status::timeout(&error.to_string()),
        body::Error::Broken(_) => Status::bad_request(error.to_string()),
    }
}

fn status_response(status: &Status) -> Response {
    let mut response = Response::new(Body::from(status.to_json()));
    *response.status_mut() = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(seconds) = status.details.as_ref().map(|d| d.retry_after_seconds).filter(|s| *s > 0) {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
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
        let response = Error::from(body::Error::TooLarge { limit: 3_145_728 }).into_response();
        assert_eq!(response.status(), 413);
        let Body::Whole(bytes) = response.into_body() else { panic!("a whole body") };
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert!(text.contains("\"message\":\"Request entity too large: limit is 3145728\""), "{text}");
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
        let response = Error::from(status).into_response();
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()[RETRY_AFTER], "7");
    }

    #[test]
    fn invalid_status_code_becomes_500() {
        let status = Status { code: 42, ..Status::unauthorized() };
        assert_eq!(Error::from(status).into_response().status(), 500);
    }
}
