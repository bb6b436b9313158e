//! The layers that stand around every request, each one small; [`crate::stack`] has their order and the reasons for it.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::header::{CACHE_CONTROL, CONTENT_LENGTH};
use http::{HeaderValue, Method};
use http_body::Body as _;

use crate::handler::{Handler, Layer};
use crate::health::Checks;
use crate::version::Info;
use crate::{Body, Error, Request, Response};

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

/// Tells caches to keep their hands off, unless the handler says otherwise.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CacheControl;

impl Layer for CacheControl {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let mut response = next.handle(request).await?;
        response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
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
        match request.path() {
            "/version" | "/version/" => self.0.answer(request.method()),
            _ => next.handle(request).await,
        }
    }
}
