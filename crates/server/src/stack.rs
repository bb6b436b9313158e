//! The way of a request, as one list.

use std::sync::Arc;

use auth::Authenticators;

use crate::deadline::TimeoutIsDuration;
use crate::handler::{Handler, Stacked};
use crate::health::Checks;
use crate::layers::{
    AuditId, Authentication, CacheControl, CatchPanics, ErrorsToResponses, HeadHasNoBody, Health,
    UnwantedBody, Version,
};
use crate::version::Info;

/// Everything between a connection and `api`, the handler of the API itself. Read it from the bottom up: the last
/// layer pushed is the first to see a request.
pub fn stack<H: Handler>(
    api: H,
    authenticators: Arc<Authenticators>,
    checks: Arc<Checks>,
    version: Arc<Info>,
) -> impl Handler {
    Stacked::new(api)
        // Answered before the API is asked, so that a probe and a client's first question need nothing but this crate.
        .push(Version(version))
        .push(Health(checks))
        // Before everything that answers: a wrong token is refused whatever the path.
        .push(Authentication(authenticators))
        // For every caller and every path: the reference checks it before authentication.
        .push(TimeoutIsDuration)
        // Inside the next one, so that a panic is answered like any other error.
        .push(CatchPanics)
        // The one place where errors become responses; the layers below see responses only.
        .push(ErrorsToResponses)
        // On every answer, also on errors.
        .push(AuditId)
        .push(CacheControl)
        // Whatever was answered, HEAD gets no body.
        .push(HeadHasNoBody)
        // Outermost: everything else is done with the request by then.
        .push(UnwantedBody)
}
