//! The layers that a request passes through, as one list.

use std::sync::Arc;

use auth::{Authenticators, Authorizer};

use crate::deadline::TimeoutIsDuration;
use crate::handler::{Handler, Stacked};
use crate::health::Checks;
use crate::layers::{
    AuditId, Authentication, CatchPanics, Cors, ErrorsToResponses, Goaway, HeadHasNoBody, Health,
    Impersonation, ResponseHeaders, RetryAfter, TransportSecurity, UnwantedBody, Version,
};
use crate::version::Info;

/// The parts of layers that a server has by its options.
#[derive(Debug, Clone, Default)]
pub struct OptionalLayers {
    /// `--cors-allowed-origins`.
    pub cors: Option<Cors>,
    /// `--goaway-chance`.
    pub goaway: Option<Goaway>,
    /// `--strict-transport-security-directives`.
    pub transport_security: Option<TransportSecurity>,
    /// `--shutdown-send-retry-after`.
    pub retry_after: Option<RetryAfter>,
}

/// Everything between a connection and `api`, the handler of the API itself. Read it from the bottom up: the
/// last layer pushed is the first to see a request.
pub fn stack<H: Handler>(
    api: H,
    authenticators: Arc<Authenticators>,
    authorizer: &Authorizer,
    checks: Arc<Checks>,
    version: Arc<Info>,
    optional: OptionalLayers,
) -> impl Handler {
    Stacked::new(api)
        // Answered before the API, so that probes and version checks need only this crate. Each authorizes
        // its requests itself.
        .push(Version { info: version, authorizer: authorizer.clone() })
        .push(Health { checks, authorizer: authorizer.clone() })
        // Before all authorization, which is that of the impersonated user.
        .push(Impersonation(authorizer.clone()))
        // Before all layers that answer: an invalid token is refused on every path.
        .push(Authentication(authenticators))
        // Preflight requests of browsers have no credentials.
        .push(optional.cors)
        // For every user: the reference checks it before authentication.
        .push(TimeoutIsDuration)
        // Inside the next one, so that a panic is answered like any other error.
        .push(CatchPanics)
        // The layers outside of it see responses only.
        .push(ErrorsToResponses)
        // On every response, also on errors.
        .push(ResponseHeaders { transport_security: optional.transport_security, goaway: optional.goaway })
        // Before all work for a request that another server will get.
        .push(optional.retry_after)
        .push(AuditId)
        // Every response to HEAD has no body.
        .push(HeadHasNoBody)
        // Outermost: all other layers are done with the request.
        .push(UnwantedBody)
}
