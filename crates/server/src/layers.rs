//! The layers that stand around every request, each one small; [`crate::stack`] has their order and the reasons for it.

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
use crate::health::Checks;
use crate::version::Info;
use crate::{Body, Error, Request, Response, Status};

/// The handler that has nothing to serve: every path is unknown to it.
#[derive(Debug, Clone, Copy)]
pub struct Unserved;

impl Handler for Unserved {
    async fn handle(&self, _request: Request) -> Result<Response, Error> {
        Err(Error::UnknownPath)
    }
}

/// Turns a panic of the handler into an error. The request is lost, the connection and the server are not.
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

/// Makes responses of errors: past this layer there are only responses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorsToResponses;

impl Layer for ErrorsToResponses {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        Ok(next.handle(request).await.unwrap_or_else(Error::into_response))
    }
}

/// Answers HEAD with the head that the same response to GET has, without its body.
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

/// On an answer that says nothing to caches: the reference gives it before it thinks of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NoCacheControl;

/// Tells caches to keep their hands off, unless the handler says otherwise.
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
        match self.0.target(request.path()) {
            Some(target) => Ok(self.0.answer(target, request.query()).await),
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

/// Finds out who is asking, and hands it on as an extension of the request. A caller that shows something invalid is refused
/// here, whatever it asks for; one that shows nothing is for the handlers to refuse, which may have something for everybody.
#[derive(Debug, Clone)]
pub(crate) struct Authentication(pub(crate) Arc<Authenticators>);

impl Layer for Authentication {
    async fn around<H: Handler>(&self, mut request: Request, next: &H) -> Result<Response, Error> {
        let headers = request.headers().get_all(AUTHORIZATION);
        let authorization: Vec<&str> = headers.iter().filter_map(|value| value.to_str().ok()).collect();
        let certified = request.peer.certified.get_or_init(|| self.0.certify(&request.peer.certificates));
        let shown = Credentials { authorization: &authorization, certified: certified.as_ref() };
        match self.0.authenticate(&shown) {
            Ok(caller) => drop(request.head.extensions.insert(caller)),
            Err(_) if !authorization.is_empty() => return Err(Status::unauthorized().into()),
            Err(_) => {}
        }
        next.handle(request).await
    }
}

/// Gives every request an id, or keeps the one that it brings along, and tells it in the answer.
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

/// Takes the part of a request's body that no handler wanted off the connection, so that the client sees the answer.
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
