//! Responses after which clients are to use another server: by chance, and while this one stops.

use http::Version;
use http::header::USER_AGENT;

use crate::handler::{Handler, Layer};
use crate::{Error, Lifecycle, Phase, Request, Response};

/// Ends HTTP/2 connections by chance, so that clients spread over all servers behind a load balancer.
#[derive(Debug, Clone, Copy)]
pub struct Goaway(f64);

impl Goaway {
    /// The chance of `--goaway-chance` for each request; none if it is zero.
    pub fn new(chance: f64) -> Option<Self> {
        (chance > 0.0).then_some(Self(chance))
    }

    /// Whether the connection of a request ends after its response.
    pub(super) fn is_due(self, request: &Request) -> bool {
        request.head.version == Version::HTTP_2 && fastrand::f64() < self.0
    }
}

/// The starts of paths that are served until the end.
const SERVED_TO_THE_END: [&str; 4] = ["/readyz", "/livez", "/healthz", "/metrics"];

/// Refuses requests from [`Phase::Refusing`] on, and counts those that are not answered yet.
#[derive(Debug, Clone)]
pub struct RetryAfter(pub Lifecycle);

impl RetryAfter {
    /// Whether a request is served in any phase.
    fn exempts(request: &Request) -> bool {
        SERVED_TO_THE_END.iter().any(|start| request.raw_path().starts_with(start))
            || request.header(USER_AGENT).starts_with("kube-apiserver/")
    }
}

impl Layer for Option<RetryAfter> {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let mut _running = None;
        if let Some(RetryAfter(lifecycle)) = self
            && !RetryAfter::exempts(&request)
        {
            // Counted before the phase is read: the server waits for what it does not refuse.
            _running = Some(lifecycle.requests.begin());
            if lifecycle.phase() >= Phase::Refusing {
                return Ok(Error::ShuttingDown.into_response(request.context.error_format));
            }
        }
        next.handle(request).await
    }
}
