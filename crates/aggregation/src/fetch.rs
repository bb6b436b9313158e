//! Questions of this server to the servers behind it.

use std::time::Duration;

use auth::User;
use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, HeaderName};
use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use tokio::time::timeout;

use crate::headers;
use crate::remote::{Backend, Use};

/// The most bytes of a document.
const MOST_BYTES: usize = 32 << 20;

/// A GET of a document.
pub(crate) struct Question<'a> {
    pub(crate) path: &'a str,
    pub(crate) user: User,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) timeout: Duration,
}

/// The answer to a question.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) status: StatusCode,
    headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Fetched {
    pub(crate) fn etag(&self) -> &str {
        self.text(&ETAG)
    }

    pub(crate) fn content_type(&self) -> &str {
        self.text(&CONTENT_TYPE)
    }

    fn text(&self, name: &HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Backend {
    /// Asks the server, whether it counts as available or not.
    pub(crate) async fn ask(&self, question: Question<'_>) -> Result<Fetched, String> {
        let Question { path, user, headers: further, timeout: limit } = question;
        let exchange = async {
            let address = self.address().map_err(|refusal| refusal.to_string())?;
            let body = Empty::new().map_err(|never| match never {}).boxed_unsync();
            let mut request = Request::new(body);
            *request.uri_mut() = path.parse().map_err(|error| format!("{path}: {error}"))?;
            request.headers_mut().extend(further);
            headers::set(request.headers_mut(), &user, false).map_err(|error| error.to_string())?;
            let answer = self.send(&address, request, Use::Request, None).await;
            let (head, body) = answer.map_err(|refusal| refusal.to_string())?.into_parts();
            let body = Limited::new(body, MOST_BYTES).collect().await.map_err(|error| error.to_string())?;
            Ok(Fetched { status: head.status, headers: head.headers, body: body.to_bytes() })
        };
        timeout(limit, exchange).await.unwrap_or_else(|_| Err("request timed out".to_owned()))
    }
}
