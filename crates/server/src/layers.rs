//! The layers around the API; [`crate::stack`] has their order and the reasons for it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use auth::{Authenticators, Credentials};
use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_LENGTH, HeaderName};
use http::{HeaderValue, Method};
use http_body::Body as _;

use crate::handler::{Handler, Layer};
use crate::health::{Audience, Checks};
use crate::version::Info;
use crate::{Body, Error, Request, Response, Status};

/// The handler that serves nothing: every path is 404.
#[derive(Debug, Clone, Copy)]
pub struct Unserved;

impl Handler for Unserved {
    async fn handle(&self, _request: Request) -> Result<Response, Error> {
        Err(Error::UnknownPath)
    }
}

/// Turns a panic of the handler into an error. The connection and the server continue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CatchPanics;

impl Layer for CatchPanics {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let method = request.method().clone();
        let uri = request.uri().clone();
        let mut answer = pin!(next.handle(request));
        let outcome = poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| answer.as_mut().poll(cx))) {
            Ok(poll) => poll.map(Some),
            Err(_) => Poll::Ready(None),
        });
        outcome.await.unwrap_or_else(|| {
            log::error!(method:%, path = uri.path(); "a handler panicked");
            Err(Error::Panicked)
        })
    }
}

/// Turns errors into responses: the layers outside of this one see responses only.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorsToResponses;

impl Layer for ErrorsToResponses {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        Ok(next.handle(request).await.unwrap_or_else(Error::into_response))
    }
}

/// Answers HEAD with the head of the response to GET, without its body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadHasNoBody;

impl Layer for HeadHasNoBody {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let head = request.method() == Method::HEAD;
        let mut response = next.handle(request).await?;
        if head {
            if let Some(length) = response.body().size_hint().exact() {
                response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
            }
            *response.body_mut() = Body::Empty;
        }
        Ok(response)
    }
}

/// Marks a response without `Cache-Control`: the reference answers it before it sets that header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoCacheControl;

/// Sets `Cache-Control` so that nothing is cached, unless the handler has set it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheControl;

impl Layer for CacheControl {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let mut response = next.handle(request).await?;
        if response.extensions().get::<NoCacheControl>().is_none() {
            response
                .headers_mut()
                .entry(CACHE_CONTROL)
                .or_insert(HeaderValue::from_static("no-cache, private"));
        }
        Ok(response)
    }
}

/// Answers `/livez`, `/readyz`, `/healthz` and the single checks under them.
#[derive(Debug, Clone)]
pub(crate) struct Health(pub(crate) Arc<Checks>);

impl Layer for Health {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        match self.0.find(request.path()) {
            Some(checks) => {
                let is_known = request.head.extensions.get::<auth::Authenticated>().is_some();
                let audience = if is_known { Audience::Known } else { Audience::Stranger };
                Ok(self.0.answer(checks, request.query(), audience).await)
            }
            None => next.handle(request).await,
        }
    }
}

/// Answers `/version`.
#[derive(Debug, Clone)]
pub(crate) struct Version(pub(crate) Arc<Info>);

impl Layer for Version {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        match request.path().trim_end_matches('/') {
            "/version" => Ok(self.0.answer(&request)),
            _ => next.handle(request).await,
        }
    }
}

/// Authenticates the user, and stores it as an extension of the request. A request with invalid credentials is refused on every
/// path. A request without credentials is left to the handlers, which may serve anonymous users.
#[derive(Debug, Clone)]
pub(crate) struct Authentication(pub(crate) Arc<Authenticators>);

impl Layer for Authentication {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let headers = request.headers().get_all(AUTHORIZATION);
        let authorization: Vec<&str> = headers.iter().filter_map(|value| value.to_str().ok()).collect();
        let certified = request.peer.certified.get_or_init(|| self.0.certify(&request.peer.certificates));
        let credentials = Credentials { authorization: &authorization, certified: certified.as_ref() };
        match self.0.authenticate(&credentials) {
            Ok(caller) => {
                request.peer.set_authenticated();
                request.head.extensions.insert(caller);
            }
            Err(_) if !authorization.is_empty() => return Err(Status::unauthorized().into()),
            Err(_) => {}
        }
        next.handle(request).await
    }
}

/// Sets `Audit-ID` on every response: the id of the request, or a new one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuditId;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

impl Layer for AuditId {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let id = request.headers().get(AUDIT_ID).filter(|id| !id.is_empty() && id.len() <= 64).cloned();
        let id = id.or_else(|| HeaderValue::from_str(&registry::random_uid()).ok());
        let mut response = next.handle(request).await?;
        if let Some(id) = id {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        Ok(response)
    }
}

/// Reads the part of a request's body that the handlers did not read, so that the client receives the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnwantedBody;

impl Layer for UnwantedBody {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let lent = request.body.lend();
        let outcome = next.handle(request).await;
        if let Some(mut lent) = lent
            && let Ok(rest) = lent.try_recv()
        {
            crate::body::discard_unwanted(rest).await;
        }
        outcome
    }
}
