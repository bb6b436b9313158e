//! The layers that a request passes through, as one list.

use std::sync::Arc;

use auth::{Authenticators, Authorizer};

use crate::deadline::TimeoutIsDuration;
use crate::handler::{Handler, Stacked};
use crate::health::Checks;
use crate::layers::{
    AuditId, Authentication, CacheControl, CatchPanics, ErrorsToResponses, HeadHasNoBody, Health,
    Impersonation, UnwantedBody, Version,
};
use crate::version::Info;

/// Everything between a connection and `api`, the handler of the API itself. Read it from the bottom up: the
/// last layer pushed is the first to see a request.
pub fn stack<H: Handler>(
    api: H,
    authenticators: Arc<Authenticators>,
    authorizer: &Authorizer,
    checks: Arc<Checks>,
    version: Arc<Info>,
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
        // For every user: the reference checks it before authentication.
        .push(TimeoutIsDuration)
        // Inside the next one, so that a panic is answered like any other error.
        .push(CatchPanics)
        // The layers outside of it see responses only.
        .push(ErrorsToResponses)
        // On every response, also on errors.
        .push(AuditId)
        .push(CacheControl)
        // Every response to HEAD has no body.
        .push(HeadHasNoBody)
        // Outermost: all other layers are done with the request.
        .push(UnwantedBody)
}
