//! The interface between the HTTP server and the API: a [`Handler`] answers a request, a [`Layer`] wraps a
//! handler.
//!
//! Both are async functions of traits with static dispatch: a layer costs no allocation, but for
//! [`OnHeap`]. A handler returns an [`Error`], which becomes a response in `Error::into_response`.
//!
//! A response has extensions that are not sent to the client:
//!
//! | extension | set by | read by |
//! |---|---|---|
//! | `AtEnd`: what is done when the response has been sent | layers, `api::dispatch` | `sending`, `takeover` |
//! | `SentStatus`: the `Status` in the response | `Error::into_response` | `layers::audit` |
//! | `SendBy`: until when the response is sent | `api::dispatch`, watches, proxies | `sending` |
//! | `Pins`: the superseded objects that the response keeps in memory | `api::dispatch`, `api::list_body` | `sending` |
//! | `MayPause`: a proxied response whose client may stop reading | `api::connect::proxy` | `sending` |
//! | `Takeover`: who gets the connection after an upgrade | `api::connect` | `connection` |
//! | `NoCacheControl`: no `Cache-Control` header is added | `Error::into_response` | `layers` |
//! | `ReasonPhrase` of hyper | `Error::into_response` | hyper |

use std::future::Future;
use std::sync::Arc;

use tasks::BoxFuture;

use crate::{Error, Request, Response};

/// Answers one request.
pub trait Handler: Send + Sync + 'static {
    /// Answers `request`.
    ///
    /// The future is dropped, at any await point, when the client disconnects.
    fn handle(&self, request: Request) -> impl Future<Output = Result<Response, Error>> + Send;
}

impl<H: Handler> Handler for Arc<H> {
    fn handle(&self, request: Request) -> impl Future<Output = Result<Response, Error>> + Send {
        H::handle(self, request)
    }
}

/// Wraps a handler: may answer itself, change the request, or change the response.
pub trait Layer: Send + Sync + 'static {
    /// Answers `request`, itself or by calling `next`.
    fn around<H: Handler>(
        &self,
        request: Request,
        next: &H,
    ) -> impl Future<Output = Result<Response, Error>> + Send;
}

/// A handler with one layer around it.
#[derive(Debug)]
pub struct Stacked<L, H> {
    layer: L,
    inner: H,
}

impl<H: Handler> Stacked<(), H> {
    /// The innermost part of a stack.
    pub fn new(inner: H) -> Self {
        Self { layer: (), inner }
    }
}

impl<L: Layer, H: Handler> Stacked<L, H> {
    /// Puts `layer` around everything pushed so far.
    pub fn push<M: Layer>(self, layer: M) -> Stacked<M, Self> {
        Stacked { layer, inner: self }
    }
}

impl<L: Layer, H: Handler> Handler for Stacked<L, H> {
    fn handle(&self, request: Request) -> impl Future<Output = Result<Response, Error>> + Send {
        self.layer.around(request, &self.inner)
    }
}

/// A layer whose inner part is a future of its own on the heap: what is within is neither a part of the
/// futures around it nor moved on the stack with them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnHeap;

impl Layer for OnHeap {
    fn around<H: Handler>(
        &self,
        request: Request,
        next: &H,
    ) -> impl Future<Output = Result<Response, Error>> + Send {
        let inner: BoxFuture<'_, Result<Response, Error>> = Box::pin(next.handle(request));
        inner
    }
}

impl Layer for () {
    fn around<H: Handler>(
        &self,
        request: Request,
        next: &H,
    ) -> impl Future<Output = Result<Response, Error>> + Send {
        next.handle(request)
    }
}
