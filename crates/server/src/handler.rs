//! The interface between the HTTP server and the API: a [`Handler`] answers a request, a [`Layer`] wraps a
//! handler.
//!
//! Both are async functions of traits with static dispatch: a stack of layers costs no allocation. A handler
//! returns an [`Error`], which becomes a response in `Error::into_response`.
//!
//! A response has extensions that are not sent to the client:
//!
//! | extension | set by | read by |
//! |---|---|---|
//! | `SendBy`: until when the response is sent | `api::dispatch`, watches, proxies | `sending` |
//! | `Pins`: the superseded objects that the response keeps in memory | `api::dispatch`, `api::list_body` | `sending` |
//! | `MayPause`: a proxied response whose client may stop reading | `api::connect::proxy` | `sending` |
//! | `Takeover`: who gets the connection after an upgrade | `api::connect` | `connection` |
//! | `NoCacheControl`: no `Cache-Control` header is added | `Error::into_response` | `layers` |
//! | `ReasonPhrase` of hyper | `Error::into_response` | hyper |

use std::future::Future;
use std::sync::Arc;

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

impl Layer for () {
    fn around<H: Handler>(
        &self,
        request: Request,
        next: &H,
    ) -> impl Future<Output = Result<Response, Error>> + Send {
        next.handle(request)
    }
}
