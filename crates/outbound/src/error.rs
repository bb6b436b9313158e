//! The errors of requests.

use http::StatusCode;
use object::quote::Quoted;
use std::time::Duration;

/// Why a request has no answer that can be used. The texts are fit for a log and for a client: they contain
/// the address, and no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The connection could not be opened.
    #[error("{method} {}: {why}", Quoted(url))]
    Connect {
        /// The method, as in `Post`.
        method: &'static str,
        /// The address.
        url: String,
        /// The error of the system or of TLS.
        why: String,
    },
    /// The connection was lost before the end of the answer.
    #[error("{method} {}: {why}", Quoted(url))]
    Lost {
        /// The method, as in `Post`.
        method: &'static str,
        /// The address.
        url: String,
        /// How it was lost.
        why: String,
    },
    /// There was no answer before the deadline.
    #[error("{method} {}: context deadline exceeded", Quoted(url))]
    Timeout {
        /// The method, as in `Post`.
        method: &'static str,
        /// The address.
        url: String,
    },
    /// The answer is longer than the limit.
    #[error("{method} {}: the answer is longer than {limit} bytes", Quoted(url))]
    TooLarge {
        /// The method, as in `Post`.
        method: &'static str,
        /// The address.
        url: String,
        /// The limit.
        limit: usize,
    },
    /// There are no credentials for the request.
    #[error("getting credentials: {0}")]
    Credentials(String),
    /// The server answered with an error.
    #[error("{message}")]
    Status {
        /// The status code.
        code: u16,
        /// What the server said, or the usual text for the code.
        message: String,
        /// When the server wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The answer is not what was asked for.
    #[error("{0}")]
    Answer(String),
    /// The request cannot be made.
    #[error("{0}")]
    Request(String),
}

impl Error {
    /// Whether the same request may well succeed a moment later: the connection was lost, the server failed,
    /// is overloaded, or has sent `Retry-After`.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Lost { .. } => true,
            Self::Status { code, retry_after, .. } => {
                let code = StatusCode::from_u16(*code).unwrap_or_default();
                retry_after.is_some()
                    || code == StatusCode::INTERNAL_SERVER_ERROR
                    || code == StatusCode::GATEWAY_TIMEOUT
                    || code == StatusCode::TOO_MANY_REQUESTS
            }
            _ => false,
        }
    }

    /// Whether the time ran out: here, or as the server says (504).
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::Timeout { .. } => true,
            Self::Status { code, .. } => *code == StatusCode::GATEWAY_TIMEOUT.as_u16(),
            _ => false,
        }
    }

    /// The `Retry-After` of the server.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
